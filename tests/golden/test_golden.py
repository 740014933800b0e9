"""Results that must not change: small scoring runs and one targeted study on real weights, kept as files.

On the machine that wrote the files the results are equal to the last bit. Other processors add in another order, so the
comparison allows for rounding.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from headwise.scoring import ScoringPlan, run_scoring
from headwise.studies import TargetedPlan
from headwise.studies.targeted import TARGETED

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parent
RUNS: dict[str, dict[str, Any]] = {
    "stars": {"budget": 900, "estimand": "truncated"},
    "permutation": {"budget": 1200, "options": {"walks": 2}},
    "tmab": {"budget": 1200, "estimand": "truncated", "options": {"sample": 8}, "limit": 8, "game": "accuracy"},
    "michel": {"budget": 400},
    "exact": {"budget": 20_000, "players": "layers", "limit": 1},
}


@pytest.mark.parametrize("method", RUNS)
def test_a_scoring_run_finds_what_it_always_found(method: str, tmp_path: Path) -> None:
    kept = json.loads((FOLDER / f"{method}.json").read_text())
    plan = ScoringPlan("e5-small-pos", "pos", "phrasebook", "tr", method=method, **RUNS[method])
    found = run_scoring(plan, tmp_path / "run").scores["tr"].to_dict()
    assert found["provenance"]["data"] == kept["data"]
    assert found["provenance"]["units"] == pytest.approx(kept["units"])
    for row, expected in zip(found["rows"], kept["rows"], strict=True):
        assert (row["player"], row["count"], row["decision"]) == tuple(
            expected[name] for name in ("player", "count", "decision")
        )
        for name in ("value", "stderr"):
            assert row[name] == pytest.approx(expected[name], rel=1e-3, abs=1e-6)


def test_a_targeted_study_finds_what_it_always_found(tmp_path: Path) -> None:
    kept = json.loads((FOLDER / "study.json").read_text())
    scoring = ScoringPlan("e5-small-pos", "pos", "phrasebook", "en,tr", budget=4000, estimand="truncated", limit=64)
    plan = TargetedPlan(scoring, refine=3, refine_examples=64, randoms=2, limit_test=64, resamples=1000)
    found = TARGETED.run(plan, tmp_path / "run").to_dict()
    for language, expected in kept["languages"].items():
        masks = found["languages"][language]["masks"]
        assert found["languages"][language]["base"] == pytest.approx(expected["base"])
        assert {name: each["removed"] for name, each in masks.items()} == {
            name: each["removed"] for name, each in expected["masks"].items()
        }
        for name, each in expected["masks"].items():
            assert masks[name]["value"] == pytest.approx(each["value"])
