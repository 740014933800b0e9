"""Tables: no markup, and no truncated cells."""

import pytest

from headwise.cli.progress import show_progress
from headwise.cli.tables import print_table


def test_brackets_are_not_markup(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("runs/a[/b]", ("[red]run", "model"), [("x[/]", "[bold]m[/bold]"), (), (":car:", "\\\\[m]")])
    shown = capsys.readouterr().out
    for text in ("runs/a[/b]", "[red]run", "x[/]", "[bold]m[/bold]", ":car:", "\\\\[m]"):
        assert text in shown


def test_a_narrow_terminal_truncates_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    cells = ("runs/one-with-a-long-name", "encoder.layer.0.attention.output")
    print_table("", ("run", "output projection"), [cells])
    lines = [line.split("│")[1:-1] for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    assert len(lines) > 1
    assert tuple("".join(part.strip() for part in column) for column in zip(*lines, strict=True)) == cells


def test_brackets_in_progress_are_not_markup(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress("scoring") as advance:
        advance(1, 2, "x[/b]")
    assert "x[/b]" in capsys.readouterr().err
