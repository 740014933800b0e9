"""One heavy request at a time, and the newest of each kind wins."""

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

import anyio
from starlette.concurrency import run_in_threadpool

from headwise.engine.resuming import StoppedError

Found = TypeVar("Found")


class Turns:
    """Runs the work of requests in a thread, one at a time.

    A request makes older requests of the same kind obsolete: a waiting one never starts, and a running one is stopped
    as soon as it asks. Requests of other kinds wait until it has ended.
    """

    def __init__(self) -> None:
        self._newest: Counter[str] = Counter()
        self._one_at_a_time = anyio.Lock()
        self._closed = False

    def close(self) -> None:
        """Stop the running work and accept no other."""
        self._closed = True

    async def run(self, kind: str, work: Callable[[Callable[[], bool]], Found]) -> Found:
        """The result of work that runs when it is its turn.

        Args:
            kind: Kind of the request.
            work: The work; it is called with a function that says whether its result is no longer needed.

        Raises:
            StoppedError: A newer request of the same kind has arrived, or the explorer ends.
        """
        self._newest[kind] += 1
        own = self._newest[kind]

        def obsolete() -> bool:
            return self._closed or self._newest[kind] != own

        async with self._one_at_a_time:
            if obsolete():
                raise StoppedError("a newer request has replaced this one")
            return await run_in_threadpool(work, obsolete)
