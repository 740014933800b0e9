"""HeadScores: values with their certainty and their origin."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise import HeadScores, HeadwiseError, Provenance

SCORES = HeadScores(
    players=("encoder.0.0", "encoder.0.1", "encoder.1.0"),
    value=(0.25, -0.5, 0.0),
    stderr=(0.01, 0.02, math.nan),
    count=(100, 80, 0),
    decision=("helpful", "harmful", "undecided"),
    provenance=Provenance("stars", "full", "zh", 7, 1234.5, 0.1, "tiny", "f", "d", {"torch": "2"}),
)


def test_scores_survive_saving(tmp_path: Path) -> None:
    SCORES.save(tmp_path / "scores.json")
    loaded = HeadScores.load(tmp_path / "scores.json")
    assert loaded.provenance == SCORES.provenance
    assert (loaded.players, loaded.value, loaded.count, loaded.decision) == (
        SCORES.players,
        SCORES.value,
        SCORES.count,
        SCORES.decision,
    )
    assert loaded.stderr[:2] == SCORES.stderr[:2]
    assert math.isnan(loaded.stderr[2])
    assert "NaN" not in (tmp_path / "scores.json").read_text()


def test_players_can_be_asked_for_by_decision() -> None:
    assert SCORES.decided("harmful") == ("encoder.0.1",)
    assert SCORES.values().tolist() == [0.25, -0.5, 0.0]


def test_numbers_of_any_library_and_size_can_be_saved(tmp_path: Path) -> None:
    columns: dict[str, Any] = {
        "value": (np.float32(0.5), math.nan, -math.inf),
        "stderr": (math.inf, 0.0, math.nan),
        "count": (np.int64(1), 2, 3),
    }
    odd = dataclasses.replace(SCORES, **columns)
    odd.save(tmp_path / "scores.json")
    json.loads((tmp_path / "scores.json").read_text(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    loaded = HeadScores.load(tmp_path / "scores.json")
    assert loaded.value[0] == 0.5
    assert math.isnan(loaded.value[1])
    assert (loaded.value[2], loaded.stderr[0]) == (-math.inf, math.inf)


def test_unknown_decisions_are_refused() -> None:
    decision: Any = ("helpful", "evil", "harmful")
    with pytest.raises(HeadwiseError, match="one of harmful, helpful, undecided, not 'evil'"):
        dataclasses.replace(SCORES, decision=decision)


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(HeadwiseError, match=r"one entry per player.*'value': 1"):
        HeadScores(("a.0.0", "a.0.1"), (1.0,), (0.0, 0.0), (1, 1), ("helpful", "helpful"), Provenance("m", "full"))


@pytest.mark.parametrize("fault", ["decision", "missing", "players"])
def test_a_broken_file_is_named(fault: str, tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    SCORES.save(path)
    data = json.loads(path.read_text())
    if fault == "decision":
        data["rows"][0]["decision"] = "bad"
    elif fault == "missing":
        del data["rows"][1]["value"]
    else:
        data["players"] = "neurons"
    path.write_text(json.dumps(data))
    with pytest.raises(HeadwiseError, match=r"scores\.json: not a complete file of scores"):
        HeadScores.load(path)
