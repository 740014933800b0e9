"""Running a study: the model is loaded once, the data are opened once, and each example is encoded once."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from headwise.scoring import ScoringPlan, setting
from headwise.studies import TargetedPlan
from headwise.studies.targeted import TARGETED
from headwise.tasks import Task
from tests.scoring.world import save_data, save_model


def test_a_study_loads_opens_and_encodes_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_model(tmp_path / "model")
    save_data(tmp_path / "data")
    calls: Counter[str] = Counter()

    def counted(name: str) -> Any:
        original = getattr(setting, name)

        def call(*arguments: Any, **named: Any) -> Any:
            calls[name] += 1
            return original(*arguments, **named)

        return call

    for name in ("load_model", "load_tokenizer", "open_dataset"):
        monkeypatch.setattr(setting, name, counted(name))
    encoded: Counter[Any] = Counter()
    encode = Task.encode

    def counted_encode(task: Task, examples: Any, tokenizer: Any) -> Any:
        encoded.update(examples)
        return encode(task, examples, tokenizer)

    monkeypatch.setattr(Task, "encode", counted_encode)
    scoring = ScoringPlan(str(tmp_path / "model"), "pos", str(tmp_path / "data"), "en,sw", budget=1500,
                          options={"bases": 4, "flips": 6})  # fmt: skip
    TARGETED.run(TargetedPlan(scoring, randoms=2, resamples=50, refine=2), tmp_path / "run")
    assert calls == {"load_model": 1, "load_tokenizer": 1, "open_dataset": 1}
    # Dev and test sentences of the toy treebanks are the same, so each is encoded once as dev and once as test.
    assert set(encoded.values()) == {2}
    assert len(encoded) == 8
