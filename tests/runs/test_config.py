"""Configs: another one is refused, a larger budget is not, and what is written is what is read."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise import HeadwiseError
from headwise.runs import open_run, read_run
from headwise.runs.config import plain, read_config, write_config
from tests.runs.writers import fill, sums


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": "m2"}, "'model' = 'm1', not 'm2'"),
        ({"seed": 8}, "'seed' = 7, not 8"),
        ({"task": {"name": "pos", "split": "test"}}, "'task.split' = 'dev', not 'test'"),
        ({"rounds": 3}, "'rounds' = nothing, not 3"),
        ({"budget": "much"}, "'budget' = 100, not 'much'"),
        ({"budget": 99}, "'budget' of this run is 100 and cannot be reduced to 99"),
    ],
)
def test_another_config_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    config = {"model": "m1", "task": {"name": "pos", "split": "dev"}, "seed": 7, "budget": 100}
    with open_run(tmp_path, config) as run:
        run.journal.record("fr", 0, {}, 0, 1)
    with pytest.raises(HeadwiseError, match=said) as caught, open_run(tmp_path, {**config, **change}):
        pass
    assert str(caught.value).startswith(f"{tmp_path}: ")
    with open_run(tmp_path, dict(reversed(config.items()))) as run:
        assert run.config == config


def test_a_run_that_recorded_nothing_takes_another_config(tmp_path: Path) -> None:
    fill(tmp_path, rounds=0, seed=7, model="m1", budget=100)
    fill(tmp_path, rounds=1, seed=8, model="m2", budget=50)
    with read_run(tmp_path) as run:
        assert run.config == {"seed": 8, "model": "m2", "budget": 50}
        assert [found.seed for found in run.journal.rounds("fr")] == [8]
    with pytest.raises(HeadwiseError, match="'model' = 'm2', not 'm1'"):
        fill(tmp_path, rounds=1, seed=8, model="m1", budget=50)


def test_what_is_settled_or_of_another_kind_keeps_its_config_without_rounds(tmp_path: Path) -> None:
    fill(tmp_path, rounds=0, study="targeted", step=1)
    with (
        pytest.raises(HeadwiseError, match="'step' = 1, not 2"),
        open_run(tmp_path, {"seed": 7, "study": "targeted", "step": 2}, settled=True),
    ):
        pass
    with pytest.raises(HeadwiseError, match="'study' = 'targeted', not nothing"):
        fill(tmp_path, rounds=1)
    fill(tmp_path, rounds=0, study="targeted", step=2)


def test_a_run_can_be_extended(tmp_path: Path) -> None:
    fill(tmp_path, rounds=2, budget=20)
    fill(tmp_path, rounds=4, budget=40)
    assert sums(tmp_path) == [7, 8, 9, 10]
    with read_run(tmp_path) as run:
        assert run.config == {"seed": 7, "budget": 40}
    with pytest.raises(HeadwiseError, match="'budget'"), open_run(tmp_path, {"seed": 7, "budget": 50}, extendable=()):
        pass


@pytest.mark.parametrize("seed", [None, "7", 7.5, True, 2**63, [1, 2]])
def test_a_run_needs_a_seed(tmp_path: Path, seed: Any) -> None:
    with pytest.raises(HeadwiseError, match="'seed' must be a whole number"), open_run(tmp_path, {"seed": seed}):
        pass


@pytest.mark.parametrize("value", [np.ones(2), {1, 2}, float("nan"), Path("x")])
def test_a_config_is_plain_data(tmp_path: Path, value: Any) -> None:
    with pytest.raises(HeadwiseError, match="JSON data"), open_run(tmp_path, {"seed": 7, "x": value}):
        pass


TEXT = st.text(max_size=8)
LEAF = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
TREE = st.recursive(LEAF, lambda x: st.lists(x, max_size=3) | st.dictionaries(TEXT, x, max_size=3), max_leaves=6)


@settings(deadline=None)
@given(st.dictionaries(TEXT, TREE, max_size=3))
def test_a_config_is_read_as_it_was_written(config: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_config(Path(folder), plain(config))
        assert read_config(Path(folder)) == config


@pytest.mark.parametrize(("text", "said"), [("seed: [", "not YAML"), ("seven", "no fields"), ("", "no fields")])
def test_a_broken_config_is_named(tmp_path: Path, text: str, said: str) -> None:
    fill(tmp_path)
    (tmp_path / "config.yaml").write_text(text)
    for use in (fill, sums):
        with pytest.raises(HeadwiseError, match=f"{tmp_path}/config.yaml.*: .*{said}"):
            use(tmp_path)
