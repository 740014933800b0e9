"""Sections of result pages: tables and notes of a study as Markdown, and its plots beside the page."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from tools.study_page import CLAIMS, section

from headwise.studies.tables import StudyTable


def study_in(folder: Path) -> Any:
    tables = (
        StudyTable("gains", "gains by language", ("language", "gain"), (("zh", 1.5),), note="In points."),
        StudyTable("points", "all models", ("model",), (("one",),), printed=False),
        StudyTable(CLAIMS, "claims", ("claim",), (("It holds.",),), note="1 claim: yes."),
    )
    return cast(Any, SimpleNamespace(folder=folder, tables=lambda: tables, notes=("Two seeds.",)))


def test_a_section_has_the_command_the_printed_tables_and_the_notes(tmp_path: Path) -> None:
    text = section(study_in(tmp_path), "Gains", "headwise study gains", None)
    assert text.startswith(
        "## Gains\n\n```sh\nheadwise study gains\n```\n\n**Gains by language**\n\n| language | gain |"
    )
    assert "In points." in text
    assert text.endswith("- Two seeds.")
    assert "all models" not in text
    assert "1 claim: yes." not in text, "the paragraph repeats the table of claims"


def test_plots_are_copied_under_the_name_of_the_run(tmp_path: Path) -> None:
    run, page = tmp_path / "run", tmp_path / "page"
    run.mkdir()
    page.mkdir()
    (run / "gains-by-share.svg").write_text("<svg/>")
    text = section(study_in(run), "Gains", "headwise study gains", page)
    assert text.endswith("![gains by share](run-gains-by-share.svg)")
    assert (page / "run-gains-by-share.svg").read_text() == "<svg/>"
