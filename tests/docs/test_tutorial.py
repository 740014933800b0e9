"""The tutorial's cells run from top to bottom, and what it shows is shown."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT, load_tiny_default, run_blocks, tutorial_cells


def check(names: Mapping[str, Any]) -> None:
    assert list(names["scores"]) == ["zh", "tr"]
    assert names["zh"]._repr_html_().count("encoder.") >= 144
    assert len(names["masks"]["random"].off) == len(names["mask"].off)
    assert names["own"].languages == ("de", "tr")


def test_the_tutorial_runs_with_a_small_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("headwise.models.loading.load_default", load_tiny_default)
    check(run_blocks(tutorial_cells()))


@pytest.mark.slow
def test_the_tutorial_runs_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_blocks(tutorial_cells(), small=False)
    check(names)
    assert names["sizes"][1] < names["sizes"][0]


def test_the_stored_outputs_are_of_a_run_from_top_to_bottom_without_errors() -> None:
    cells = json.loads((ROOT / "docs" / "tutorial.ipynb").read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert not [output for cell in code for output in cell["outputs"] if output["output_type"] == "error"]
