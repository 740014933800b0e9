"""Runs a reader on many wrong files: it returns something or raises a `HeadwiseError`, soon and with little memory."""

import contextlib
import resource
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from headwise import HeadwiseError

#: Seconds of computing time and bytes of memory that one file may take.
MOST_SECONDS = 20
MOST_MEMORY = 4 * 2**30
#: Number of files between two looks at the clock.
BATCH = 50


def fuzz(read: Callable[[Any], object], files: st.SearchStrategy[Any], seconds: float, start: int) -> int:
    """Give a reader files until time is up; prints (see `pytest -s`) and returns the number of files.

    Args:
        read: The reader.
        files: What it is given.
        seconds: Computing time to spend; at least one batch is read.
        start: Seed of the first batch.
    """
    count, began, computed = 0, time.monotonic(), time.process_time()

    def check(file: Any) -> None:
        nonlocal count
        count += 1
        message = ""
        with limited():
            try:
                read(file)
            except HeadwiseError as error:
                message = str(error)
        assert "\n" not in message, "a message is one line"

    number = start * 1_000_000
    while number == start * 1_000_000 or time.process_time() < computed + seconds:
        options = settings(
            max_examples=BATCH,
            deadline=None,
            database=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink),
        )
        seed(number)(options(given(files)(check)))()
        number += 1
    passed, computed = time.monotonic() - began, time.process_time() - computed
    print(f"fuzz: {count} files in {passed:.0f} s ({computed:.0f} s of CPU)", flush=True)
    return count


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Limits computing time and memory; more than that is an error of the test."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - not a file of the test
        size = int(file.read().split()[0]) * resource.getpagesize()
    handler = signal.signal(signal.SIGPROF, _out_of_time)
    resource.setrlimit(resource.RLIMIT_AS, (size + MOST_MEMORY, before[1]))
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, before)
        signal.signal(signal.SIGPROF, handler)


class OutOfTimeError(BaseException):
    """Not an `Exception`, which a reader might turn into a message."""


def _out_of_time(*_: object) -> None:
    raise OutOfTimeError(f"more than {MOST_SECONDS} s of computing time")
