"""Roles on a cluster: workers measure the rounds of all languages, with the bits of this process."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.simulated_workers import Fault

from headwise.engine.dispatch import Failure
from headwise.errors import HeadwiseError
from headwise.roles import HeadRoles, measure
from headwise.roles.run import roles
from tests.engine.clusters import FakeCluster
from tests.roles.worlds import bert, e5_tokenizer


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "ROUND", 5)


def small(**options: Any) -> HeadRoles:
    given = {"languages": "de,zh", "limit": 12, "progress": False, **options}
    return roles(bert(), e5_tokenizer(), "phrasebook", **given)


def assert_same(found: HeadRoles, expected: HeadRoles) -> None:
    assert list(found) == list(expected)
    for language in expected:
        for name in ("value", "stderr", "count"):
            assert np.array_equal(getattr(found[language], name), getattr(expected[language], name), equal_nan=True)
        assert found[language].units == expected[language].units


@pytest.mark.parametrize("workers", [1, 3])
def test_any_number_of_workers_measures_the_same(workers: int) -> None:
    def fault(worker: int, _: object) -> Fault:
        return "dies" if worker == 1 else None

    with FakeCluster(workers, fault) as cluster:
        found = small(make_engine=cluster.make_engine, pairs="de-zh")
        assert cluster.answered
    assert_same(found, small(pairs="de-zh"))


def test_a_stopped_run_is_resumed_with_workers(tmp_path: Path) -> None:
    def stop(done: int, _total: int, _status: str) -> None:
        if done > 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        small(out=tmp_path / "run", progress=stop)
    with FakeCluster(2) as cluster:
        found = small(out=tmp_path / "run", make_engine=cluster.make_engine)
    assert_same(found, small())


def test_examples_that_fail_everywhere_are_named() -> None:
    cluster = FakeCluster(1, lambda _, job: Failure("error", "no memory") if job.content == 5 else None)
    said = "the examples from number 5, counted from 0, fail on workers: no memory"
    with cluster, pytest.raises(HeadwiseError, match=said):
        small(make_engine=cluster.make_engine)
