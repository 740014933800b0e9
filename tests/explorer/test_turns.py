"""One heavy request at a time; the newest of each kind wins."""

import threading
from collections.abc import Callable

import anyio

from headwise.engine.resuming import StoppedError
from headwise.explorer.turns import Turns


class Work:
    """Work that runs until it is released or obsolete, and notes how many run at once."""

    def __init__(self) -> None:
        self.release, self.now, self.most, self.ran = threading.Event(), 0, 0, list[str]()
        self.lock = threading.Lock()

    def __call__(self, name: str) -> Callable[[Callable[[], bool]], str]:
        def run(obsolete: Callable[[], bool]) -> str:
            with self.lock:
                self.now += 1
                self.most = max(self.most, self.now)
                self.ran.append(name)
            try:
                while not self.release.wait(0.005):
                    if obsolete():
                        raise StoppedError
                return name
            finally:
                with self.lock:
                    self.now -= 1

        return run


def run_all(kinds: list[tuple[str, str]], close: bool = False) -> tuple[Work, dict[str, str]]:
    """Start requests one after the other, and release the work when all have arrived."""
    work, found, turns = Work(), dict[str, str](), Turns()

    async def request(kind: str, name: str) -> None:
        try:
            found[name] = await turns.run(kind, work(name))
        except StoppedError:
            found[name] = "stopped"

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for kind, name in kinds:
                group.start_soon(request, kind, name)
                await anyio.sleep(0.03)
            if close:
                turns.close()
            else:
                work.release.set()

    anyio.run(main)
    return work, found


def test_a_newer_request_stops_the_running_one_and_the_waiting_ones() -> None:
    work, found = run_all([("export", "e"), ("measure", "1"), ("measure", "2"), ("measure", "3")])
    assert found == {"e": "e", "1": "stopped", "2": "stopped", "3": "3"}
    assert work.ran == ["e", "3"], "requests that wait and are obsolete never start"
    assert work.most == 1


def test_the_running_request_is_stopped() -> None:
    work, found = run_all([("measure", "1"), ("measure", "2")])
    assert found == {"1": "stopped", "2": "2"}
    assert work.ran == ["1", "2"]
    assert work.most == 1


def test_requests_of_other_kinds_wait_for_their_turn() -> None:
    work, found = run_all([("measure", "1"), ("attention", "a")])
    assert found == {"1": "1", "a": "a"}
    assert work.most == 1


def test_closing_stops_everything() -> None:
    _, found = run_all([("measure", "1"), ("attention", "a")], close=True)
    assert found == {"1": "stopped", "a": "stopped"}
