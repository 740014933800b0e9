"""Work in steps: the calls of several tasks overlap, while everything else happens in one thread.

A task is a generator. It yields functions without arguments, each of which is called, and its result is sent back to
the generator. Tasks that wait for a cluster are run together: their calls happen in threads, at the same time. What a
task does between its calls (recording rounds, showing progress) happens in the thread of the caller, so it needs no
locks. The results of a task do not depend on the other tasks.
"""

import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from queue import SimpleQueue
from typing import Any, TypeVar

Key = TypeVar("Key")
Result = TypeVar("Result")
#: Yields functions to call, gets their results, and returns the result of the task.
Steps = Generator[Callable[[], Any], Any, Result]


def run_steps(steps: Steps[Result]) -> Result:
    """Run one task in this thread.

    Example:
        >>> def task():
        ...     one = yield lambda: 1
        ...     two = yield lambda: one + 1
        ...     return one + two
        >>> run_steps(task())
        3
    """
    [(_, found)] = run_together({0: steps})
    return found


def run_together(tasks: Mapping[Key, Steps[Result]], at_once: int = 1) -> Iterator[tuple[Key, Result]]:
    """Run tasks, several at the same time, and return their results as they finish.

    If a task raises an error, so does this function, and the other tasks are closed. Their calls may still run for a
    while, but what they return is not used.

    Args:
        tasks: The tasks.
        at_once: Maximum number of tasks that run at the same time. With 1 there are no threads.
    """
    if at_once == 1:
        for key, steps in tasks.items():
            yield key, _run_here(steps)
        return
    arrived: SimpleQueue[tuple[Key, Any, BaseException | None]] = SimpleQueue()
    waiting, running = iter(tasks.items()), 0
    try:
        while True:
            for key, steps in waiting if running < at_once else ():
                done, found = _advance(steps, None, None)
                if done:
                    yield key, found
                    continue
                _call(key, found, arrived)
                running += 1
                if running == at_once:
                    break
            if not running:
                return
            key, answer, error = arrived.get()
            done, found = _advance(tasks[key], answer, error)
            if done:
                running -= 1
                yield key, found
            else:
                _call(key, found, arrived)
    finally:
        for steps in tasks.values():
            steps.close()


def _run_here(steps: Steps[Result]) -> Result:
    done, found = _advance(steps, None, None)
    while not done:
        answer, error = None, None
        try:
            answer = found()
        except BaseException as raised:
            error = raised
        done, found = _advance(steps, answer, error)
    return found  # type: ignore[no-any-return]


def _advance(steps: Steps[Result], answer: Any, error: BaseException | None) -> tuple[bool, Any]:
    """Continue a task: whether it is done, and its result or the next call."""
    try:
        return False, steps.send(answer) if error is None else steps.throw(error)
    except StopIteration as end:
        return True, end.value


def _call(key: Key, function: Callable[[], Any], arrived: "SimpleQueue[tuple[Key, Any, BaseException | None]]") -> None:
    """Call a function in a thread that ends with the process."""

    def run() -> None:
        try:
            answer, error = function(), None
        except BaseException as raised:
            answer, error = None, raised
        arrived.put((key, answer, error))

    threading.Thread(target=run, name=f"headwise-{key}", daemon=True).start()
