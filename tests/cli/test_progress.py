"""The message after Ctrl-C and SIGTERM: results are saved, and the command to resume."""

import os
import signal
import sys
import time

import pytest
import typer

from headwise.cli.progress import show_resumable


def press_ctrl_c() -> None:
    raise KeyboardInterrupt


def send_sigterm() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(5)  # the handler interrupts it


@pytest.mark.parametrize(("stop", "code"), [(press_ctrl_c, 130), (send_sigterm, 143)])
def test_an_interrupted_command_prints_how_to_resume(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stop: object, code: int
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(sys, "argv", ["headwise", "study", "my plan.yaml"])
    with pytest.raises(typer.Exit) as ended, show_resumable("studying"):
        stop()  # type: ignore[operator]
    assert ended.value.exit_code == code
    assert "the results so far are saved; resume with: headwise study 'my plan.yaml'" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) == before
