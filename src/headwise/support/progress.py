"""Progress of long work: a bar in a terminal, one line that changes in a notebook, a line every 30 s in a log.

Example:
    >>> import io
    >>> log = io.StringIO()
    >>> with Progress("scoring", unit="units", stream=log) as progress:
    ...     for done in (100, 200):
    ...         progress(done, 200, "sw")
    >>> print(log.getvalue().strip())
    scoring: 100% (200 of 200 units), sw, 0:00 elapsed
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Protocol, TextIO

#: Called with the amount done, the total and a short status.
Advance = Callable[[int, int, str], None]

#: Longest time between two lines of a log, in seconds.
LOG_EVERY = 30.0
#: Time between two updates of a notebook's line, in seconds.
NOTEBOOK_EVERY = 1.0


class Progress:
    """Shows how far work is; call it with the amount done, the total and a short status.

    It can be passed wherever headwise takes a `progress` function. Lines in a log come from a thread, so that they
    appear even while a single step takes minutes.

    Args:
        title: What is being done.
        unit: What is counted, such as `examples`.
        seconds: The time after which the work stops by itself, if there is such a limit.
        stream: Where to write; standard error by default.
        every: Longest time between two lines of a log, in seconds.
    """

    def __init__(
        self,
        title: str,
        unit: str = "",
        seconds: float | None = None,
        stream: TextIO | None = None,
        every: float = LOG_EVERY,
    ) -> None:
        self.title, self.unit, self.seconds, self.every = title, unit, seconds, every
        self.done, self.status = 0.0, ""
        self.total: float | None = None
        self._stream = sys.stderr if stream is None else stream
        self._start = time.monotonic()
        self._first: tuple[float, float] | None = None  # time and amount of the first report

    def __enter__(self) -> "Progress":
        self._start = time.monotonic()
        self._display = _find_display(self, self._stream)
        self._display.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._display.close(failed=kind is not None)

    def __call__(self, done: float, total: float | None, status: str = "") -> None:
        """Report the amount done, the total (None if it is not known) and a short status."""
        if self._first is None or done < self.done:  # less than before: another stage has begun
            self._first = time.monotonic(), done
        self.done, self.total, self.status = done, total, status

    @property
    def elapsed(self) -> float:
        """Seconds since the work began."""
        return time.monotonic() - self._start

    @property
    def left(self) -> float | None:
        """Estimated seconds left at the speed of the present stage; None if that cannot be told yet."""
        limit = None if self.seconds is None else max(0.0, self.seconds - self.elapsed)
        if self._first is None or not self.total:
            return limit
        since, before = self._first
        if self.done <= before:  # the first report may be of work that was done by an earlier run
            return limit
        found = (self.total - self.done) * (time.monotonic() - since) / (self.done - before)
        return found if limit is None else min(found, limit)

    @property
    def times(self) -> str:
        """Time elapsed and time left, in words."""
        left = self.left
        finished = self.total is not None and self.done >= self.total
        after = "" if left is None or finished else f", about {show_time(left)} left"
        return f"{show_time(self.elapsed)} elapsed{after}"

    @property
    def amount(self) -> str:
        """How much is done, in words; empty before the first report."""
        unit = f" {self.unit}" if self.unit else ""
        if self._first is None:
            return ""
        if not self.total:
            return f"{self.done:.0f}{unit}"
        return f"{self.done / self.total:.0%} ({self.done:.0f} of {self.total:.0f}{unit})"

    @property
    def line(self) -> str:
        """Everything in one line."""
        return f"{self.title}: " + ", ".join(filter(None, (self.amount, self.status, self.times)))


@contextmanager
def showing(progress: Advance | bool, title: str, unit: str = "") -> Iterator[Advance]:
    """The function that work reports its progress to.

    Args:
        progress: Whether to show progress, or a function of the caller's own.
        title: What is being done.
        unit: What is counted.

    Example:
        >>> with showing(False, "scoring") as advance:
        ...     advance(1, 2, "sw")
    """
    if callable(progress):
        yield progress
    elif progress:
        with Progress(title, unit) as shown:
            yield shown
    else:
        yield lambda *_: None


def show_time(seconds: float) -> str:
    """A time as minutes and seconds, or hours, minutes and seconds.

    Example:
        >>> show_time(75), show_time(3700)
        ('1:15', '1:01:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class _Display(Protocol):
    """A way to show progress."""

    def open(self) -> None:
        """Begin to show it."""

    def close(self, failed: bool) -> None:
        """Show the end."""


def _find_display(progress: Progress, stream: TextIO) -> _Display:
    """A bar in a terminal that has rich, one changing line in a notebook, lines otherwise."""
    if stream.isatty():
        try:
            return _Bar(progress, stream)
        except ModuleNotFoundError:  # rich comes with the extra 'cli'
            pass
    elif (shell := _notebook()) is not None:
        return _Notebook(progress, shell)
    return _Log(progress, stream)


def _notebook() -> Any:
    """IPython's display module if this runs in a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if type(shell).__name__ != "ZMQInteractiveShell":
        return None
    from importlib import import_module

    return import_module("IPython.display")


class _Repeated:
    """What updates from a thread at regular times."""

    def __init__(self, progress: Progress, every: float) -> None:
        self._progress, self._every, self._end = progress, every, threading.Event()
        self._thread = threading.Thread(target=self._repeat, daemon=True)

    def open(self) -> None:
        self._thread.start()

    def close(self, failed: bool) -> None:
        self._end.set()
        self._thread.join()
        if not failed:
            self._show()

    def _repeat(self) -> None:
        while not self._end.wait(self._every):
            self._show()

    def _show(self) -> None:
        raise NotImplementedError


class _Log(_Repeated):
    """Plain lines."""

    def __init__(self, progress: Progress, stream: TextIO) -> None:
        super().__init__(progress, progress.every)
        self._stream = stream

    def _show(self) -> None:
        print(self._progress.line, file=self._stream, flush=True)


class _Notebook(_Repeated):
    """One line below the cell that changes."""

    def __init__(self, progress: Progress, display: Any) -> None:
        super().__init__(progress, NOTEBOOK_EVERY)
        self._handle = display.display({"text/plain": progress.line}, raw=True, display_id=True)

    def _show(self) -> None:
        self._handle.update({"text/plain": self._progress.line}, raw=True)


class _Bar:
    """A bar of rich, which redraws itself."""

    def __init__(self, progress: Progress, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import Progress as RichProgress
        from rich.progress import ProgressColumn, Task
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        class Bar(ProgressColumn):
            def render(self, task: Task) -> ProgressBar:
                total = progress.total or None
                return ProgressBar(total, progress.done, 20, pulse=total is None, animation_time=task.get_time())

        class Words(ProgressColumn):
            def __init__(self, name: str) -> None:
                super().__init__()
                self._name = name

            def render(self, task: Task) -> Text:
                del task  # the numbers are those of `progress`
                return Text(str(getattr(progress, self._name)))

        columns = (Words("title"), Bar(), Words("amount"), Words("status"), Words("times"))
        self._bar = RichProgress(*columns, console=Console(file=stream))
        self._bar.add_task("", total=None)

    def open(self) -> None:
        self._bar.start()

    def close(self, failed: bool) -> None:
        del failed
        self._bar.stop()
