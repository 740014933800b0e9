"""Progress bars on standard error, and the message of an interrupted command."""

import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import typer

from headwise.support.progress import Progress


class _Terminated(BaseException):
    """Raised on SIGTERM, as KeyboardInterrupt is on Ctrl-C."""


def show_progress(title: str, unit: str = "") -> Progress:
    """Progress of work that cannot be resumed."""
    return Progress(title, unit)


@contextmanager
def show_resumable(title: str, unit: str = "", seconds: float | None = None) -> Iterator[Progress]:
    """Progress of work that can be resumed: Ctrl-C and SIGTERM end it and print the command to resume it.

    Args:
        title: What is being done.
        unit: What is counted.
        seconds: The time after which the work stops by itself, if there is such a limit.
    """
    try:
        with _sigterm_raises(), Progress(title, unit, seconds) as progress:
            yield progress
    except KeyboardInterrupt:
        _stop(130)
    except _Terminated:
        _stop(143)


def _stop(code: int) -> None:
    command = shlex.join(["headwise", *sys.argv[1:]])
    typer.echo(f"headwise: stopped; the results so far are saved; resume with: {command}", err=True)
    raise typer.Exit(code) from None


@contextmanager
def _sigterm_raises() -> Iterator[None]:
    """Raise `_Terminated` on SIGTERM; only the main thread can receive signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_number: int, _frame: FrameType | None) -> None:
        raise _Terminated

    previous = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
