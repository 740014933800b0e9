"""Progress in a log, a terminal and a notebook."""

import io
import sys
import time
from types import ModuleType, SimpleNamespace

import pytest

from headwise.support.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def lines_of(stream: io.StringIO) -> list[str]:
    return stream.getvalue().strip().splitlines()


def test_a_log_gets_lines_at_regular_times_even_while_one_step_takes_long() -> None:
    log = io.StringIO()
    with Progress("scoring", "units", stream=log, every=0.05) as progress:
        time.sleep(0.12)  # such as loading a model: nothing is reported yet
        progress(0, 100, "sw")
        time.sleep(0.12)
        progress(50, 100, "sw")
        time.sleep(0.12)
        progress(100, 100, "sw")
    lines = lines_of(log)
    assert 5 <= len(lines) <= 8
    assert lines[0] == "scoring: 0:00 elapsed"
    assert "scoring: 50% (50 of 100 units), sw, 0:00 elapsed, about 0:00 left" in lines
    assert lines[-1] == "scoring: 100% (100 of 100 units), sw, 0:00 elapsed"


def test_quick_work_gets_one_line() -> None:
    log = io.StringIO()
    with Progress("tuning", stream=log) as progress:
        progress(3, 3, "epoch 1")
    assert lines_of(log) == ["tuning: 100% (3 of 3), epoch 1, 0:00 elapsed"]


def test_work_of_unknown_size_is_counted() -> None:
    log = io.StringIO()
    with Progress("reading", "files", stream=log) as progress:
        progress(7, None)
    assert lines_of(log) == ["reading: 7 files, 0:00 elapsed"]


def test_work_that_fails_has_no_last_line() -> None:
    log = io.StringIO()
    with pytest.raises(ZeroDivisionError), Progress("scoring", stream=log) as progress:
        progress(1, 1 // 0)
    assert log.getvalue() == ""


def test_time_left_is_that_of_the_present_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("headwise.support.progress.time.monotonic", lambda: clock[0])
    progress = Progress("studying")
    progress._start = 0.0
    for now, done, total in ((0, 0, 6_000), (3_000, 6_000, 6_000), (3_000, 0, 20), (3_060, 5, 20)):
        clock[0] = float(now)
        progress(done, total)
    assert progress.left == pytest.approx(180)


def test_time_left_is_that_of_the_work_of_this_run(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("headwise.support.progress.time.monotonic", lambda: clock[0])
    progress = Progress("scoring", seconds=100, stream=io.StringIO())
    assert progress.left == 100  # nothing but the limit is known
    clock[0] = 20.0
    progress(600, 1000)  # found in the journal of an earlier run
    assert progress.left == 80
    clock[0] = 30.0
    progress(800, 1000)
    assert progress.left == pytest.approx(10)
    progress(800, 10_000)
    assert progress.left == 70
    assert progress.times == "0:30 elapsed, about 1:10 left"


def test_a_terminal_gets_a_bar() -> None:
    pytest.importorskip("rich")
    terminal = Terminal()
    with Progress("scoring", "units", stream=terminal) as progress:
        progress(30, 100, "sw [bold]")
    shown = terminal.getvalue()
    assert "30% (30 of 100 units)" in shown
    assert "sw [bold]" in shown
    assert "━" in shown


def test_a_terminal_without_rich_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    terminal = Terminal()
    with Progress("scoring", stream=terminal) as progress:
        progress(1, 1)
    assert lines_of(terminal) == ["scoring: 100% (1 of 1), 0:00 elapsed"]


def test_a_notebook_gets_one_line_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    display = ModuleType("IPython.display")

    def note(data: dict[str, str], **_: object) -> SimpleNamespace:
        shown.append(data["text/plain"])
        return SimpleNamespace(update=note)

    display.display = note  # type: ignore[attr-defined]
    package = ModuleType("IPython")
    package.get_ipython = type("ZMQInteractiveShell", (), {})  # type: ignore[attr-defined]
    package.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    log = io.StringIO()
    with Progress("scoring", stream=log) as progress:
        progress(2, 2)
    assert shown[-1] == "scoring: 100% (2 of 2), 0:00 elapsed"
    assert log.getvalue() == ""
