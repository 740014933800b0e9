"""Progress of long work."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Called with the steps done, the number of all steps and a few words on the status.
Advance = Callable[[int, int, str], None]


@contextmanager
def showing(progress: Advance | bool, title: str) -> Iterator[Advance]:
    """The function that long work calls as it advances."""
    del title
    yield progress if callable(progress) else lambda done, total, status: None
