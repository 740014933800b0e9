"""Tasks in steps: their calls overlap, their results do not depend on each other."""

import threading
from collections.abc import Callable
from functools import partial

import pytest

from headwise.support.steps import Steps, run_steps, run_together


def summing(numbers: list[int], call: Callable[[int], int] = lambda number: number) -> Steps[int]:
    total = 0
    for number in numbers:
        total += yield partial(call, number)
    return total


@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_every_task_gets_its_own_results(at_once: int) -> None:
    tasks = {name: summing(list(range(name))) for name in range(8)}
    assert dict(run_together(tasks, at_once)) == {name: name * (name - 1) // 2 for name in range(8)}


def test_calls_of_different_tasks_run_at_the_same_time() -> None:
    meeting = threading.Barrier(3, timeout=10)  # passed only if three calls wait at it together
    tasks = {name: summing([0, 1], lambda number: meeting.wait() * 0 + number) for name in range(3)}
    assert dict(run_together(tasks, at_once=3)) == {0: 1, 1: 1, 2: 1}


def test_at_most_a_number_of_tasks_run_at_the_same_time() -> None:
    lock, now, most = threading.Lock(), 0, 0

    def call(number: int) -> int:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        threading.Event().wait(0.01)
        with lock:
            now -= 1
        return number

    list(run_together({name: summing([1, 2, 3], call) for name in range(6)}, at_once=2))
    assert most == 2


def test_between_its_calls_a_task_runs_in_the_thread_of_the_caller() -> None:
    seen: set[str] = set()

    def task() -> Steps[None]:
        for _ in range(3):
            seen.add(threading.current_thread().name)
            name = yield lambda: threading.current_thread().name
            assert name != threading.current_thread().name

    list(run_together({"a": task(), "b": task()}, at_once=2))
    assert seen == {threading.current_thread().name}


@pytest.mark.parametrize("at_once", [1, 2])
def test_an_error_is_raised_where_the_call_was_asked_for_and_ends_all(at_once: int) -> None:
    closed: list[str] = []

    def fail() -> int:
        raise ValueError("no value")

    def failing() -> Steps[int]:
        try:
            found: int = yield fail
            return found
        except ValueError as error:
            raise RuntimeError("in the task") from error

    def other() -> Steps[int]:
        try:
            while True:
                yield lambda: threading.Event().wait(0.01)
        finally:
            closed.append("other")

    tasks = {"failing": failing(), "other": other()}
    if at_once == 2:
        tasks = dict(reversed(tasks.items()))
    with pytest.raises(RuntimeError, match="in the task"):
        list(run_together(tasks, at_once))
    assert closed == (["other"] if at_once == 2 else [])


def test_a_task_without_calls_is_done_at_once() -> None:
    assert run_steps(summing([])) == 0
    assert dict(run_together({1: summing([]), 2: summing([5])}, at_once=2)) == {1: 0, 2: 5}
