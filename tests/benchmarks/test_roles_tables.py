"""The parts of the page of roles, and a page of a tiny model."""

import sys
from pathlib import Path

import pytest
from benchmarks.roles_tables import PARTS, Part

from benchmarks import roles_tables
from headwise.data.phrasebook import open_phrasebook
from tests.scoring.world import save_model


def test_parts_are_compared_with_earlier_parts_and_languages_exist() -> None:
    names = [part.name for part in PARTS]
    for number, part in enumerate(PARTS):
        assert not part.other or part.other in names[:number]
    languages = set(open_phrasebook("pos").languages)
    assert {code for pair in roles_tables.PHRASEBOOK_PAIRS.split(",") for code in pair.split("-")} == languages


def test_a_page_is_written_and_parts_without_data_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.delenv("HEADWISE_DATA", raising=False)
    model = str(save_model(tmp_path / "model"))
    parts = (
        Part("one", model, languages="en,de", pairs="en-de"), Part("two", model, languages="en,de", other="one"),
        Part("published", model, True), Part("translation", "opus"),
    )  # fmt: skip
    monkeypatch.setattr(roles_tables, "PARTS", parts)
    monkeypatch.setattr(sys, "argv", ["roles_tables", "--limit", "3", "--runs", str(tmp_path / "runs"), "--page",
                                      str(tmp_path / "pages" / "roles.md")])  # fmt: skip
    roles_tables.main()
    text, page = capsys.readouterr().out, (tmp_path / "pages" / "roles.md").read_text()
    assert "published: left out: set HEADWISE_DATA" in text
    assert "translation: left out: give --opus FOLDER" in text
    assert page.count("## model on the phrasebook") == 2
    assert "### Alignment heads" in page
    assert "### Compared with model on the phrasebook" in page
    assert (tmp_path / "pages" / "roles-two-layers.svg").exists()
    assert '"units": 9.0' in text.splitlines()[-1]
