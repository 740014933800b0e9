"""Progress with the time left, on standard error, and silence where nobody looks."""

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

Advance = Callable[[int, int, str], None]


@contextmanager
def show_progress(title: str) -> Iterator[Advance]:
    """A bar that the body moves: call it with steps done, steps in all and a word on how it goes."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("left"), TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=None)

        def advance(done: int, total: int, how: str = "") -> None:
            bar.update(task, completed=done, total=total, description=f"{title} {how}".strip())

        yield advance


@contextmanager
def show_resumable(title: str) -> Iterator[Advance]:
    """The same for work that keeps what it has: Ctrl-C says how to go on."""
    try:
        with show_progress(title) as advance:
            yield advance
    except KeyboardInterrupt:
        again = shlex.join(["headwise", *sys.argv[1:]])
        typer.echo(f"headwise: stopped, and what was found is kept: go on with {again}", err=True)
        raise typer.Exit(130) from None
