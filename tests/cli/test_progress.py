"""Progress, and what Ctrl-C says: what was found is kept, and how to go on."""

import sys

import pytest
import typer

from headwise.cli.progress import show_resumable


def test_what_is_stopped_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["headwise", "study", "my plan.yaml"])
    with pytest.raises(typer.Exit) as stop, show_resumable("studying"):
        raise KeyboardInterrupt
    assert stop.value.exit_code == 130
    assert "what was found is kept: go on with headwise study 'my plan.yaml'" in capsys.readouterr().err
