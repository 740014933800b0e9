"""Two models side by side: one that needs its heads, and one that does not."""

import csv
import shutil
from pathlib import Path

import pytest
import torch
from transformers import BertForTokenClassification

from headwise import HeadwiseError
from headwise.report import write_report
from headwise.scoring import ScoringPlan
from headwise.studies import report_of
from headwise.studies.compare_models import COMPARE_MODELS, ComparePlan
from headwise.studies.tuned_study import TunedStudy
from tests.studies.planted import PLANTED


@pytest.fixture(scope="module")
def study(planted: Path, tmp_path_factory: pytest.TempPathFactory) -> TunedStudy:
    """The planted tagger, and the same tagger with a middle layer whose heads do nothing."""
    folder = tmp_path_factory.mktemp("other")
    shutil.copytree(planted / "model", folder / "deaf")
    model = BertForTokenClassification.from_pretrained(folder / "deaf")
    torch.nn.init.zeros_(model.bert.encoder.layer[PLANTED].attention.output.dense.weight)
    model.save_pretrained(folder / "deaf")
    scoring = ScoringPlan(str(planted / "model"), "pos", str(planted / "data"), "en")
    plan = ComparePlan(
        scoring, other=str(folder / "deaf"), shares=[0.5, 0.9], draws=2, epochs=1, learning_rate=1e-4, resamples=200
    )
    return COMPARE_MODELS.run(plan, folder / "run")


def test_only_the_model_that_needs_its_heads_loses(study: TunedStudy) -> None:
    with (study.folder / "compare-models.csv").open() as file:
        first, half, last = csv.reader(file.readlines()[1:])
    assert [row[0] for row in (first, half, last)] == ["0%", "50%", "90%"]
    whole, deaf = float(first[1]), float(first[2])
    assert whole > 95 > 80 > deaf
    assert float(last[3]) > 15
    assert abs(float(last[4])) < 3
    assert float(last[3]) == pytest.approx(100 * (1 - float(last[1]) / whole))
    assert last[5] == "7.5"


def test_the_claims_follow(study: TunedStudy) -> None:
    half, every, more = study.claims
    assert half.text.startswith("Without 50% of the heads, model and deaf lose"), "names of the folders, not paths"
    assert every.verdict == "no"
    assert "equivalence within ±1" in every.test
    assert more.verdict == "no"
    assert half.verdict in ("no", "undecided")


def test_it_loads_and_reports(study: TunedStudy, tmp_path: Path) -> None:
    assert COMPARE_MODELS.load(study.folder) == study
    write_report(tmp_path / "report.html", report_of(study.folder))
    assert "Relative drop of both models" in (tmp_path / "report.html").read_text()


def test_a_second_model_is_needed() -> None:
    with pytest.raises(HeadwiseError, match="other"):
        ComparePlan(ScoringPlan("m", "pos", "d"))
