"""Progress with the time left, on standard error, and silence where nobody looks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

Advance = Callable[[int, int, str], None]


@contextmanager
def show_progress(title: str) -> Iterator[Advance]:
    """A bar that the body moves: call it with steps done, steps in all and a word on how it goes."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("left"), TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=None)

        def advance(done: int, total: int, how: str = "") -> None:
            bar.update(task, completed=done, total=total, description=f"{title} {how}".strip())

        yield advance
