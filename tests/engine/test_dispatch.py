"""Jobs are answered exactly once, whatever happens to the workers that compute them."""

import functools
import math
import random
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from benchmarks.simulated_workers import Fault, SimulatedWorkers

from headwise.engine.dispatch import DEPTH, Dispatcher, DispatcherThread, Failure, Ticket
from headwise.errors import HeadwiseError


def square(_: int, job: int) -> int:
    return job * job


def run(workers: SimulatedWorkers, count: int, jobs: int, **options: Any) -> tuple[dict[int, Any], Dispatcher]:
    """The answer to each of some jobs; fails if one is answered twice."""
    dispatcher, found = Dispatcher(workers, count, **options), {}

    def answer(job: int, result: Any) -> None:
        assert job not in found, "answered twice"
        found[job] = result

    for job in range(jobs):
        dispatcher.backlog.append(Ticket(job, functools.partial(answer, job)))
    while dispatcher.busy:
        dispatcher.step()
    return found, dispatcher


@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_every_job_is_answered_once(count: int) -> None:
    found, _ = run(SimulatedWorkers(square), count, jobs=50)
    assert found == {job: job * job for job in range(50)}


@pytest.mark.parametrize("seed", range(20))
def test_random_deaths_hangs_and_failures_change_no_answer(seed: int) -> None:
    draw = random.Random(seed)

    def fault(worker: int, job: int) -> Fault:
        del worker, job
        kinds: list[Fault] = ["dies", "hangs", Failure("memory", "too little memory"), None]
        return draw.choices(kinds, [0.04, 0.02, 0.02, 0.92])[0]

    workers = SimulatedWorkers(square, lambda *_: draw.uniform(0.5, 2.0), fault)
    found, dispatcher = run(workers, 5, jobs=200, timeout=10.0)
    given_up = {job for job, result in found.items() if isinstance(result, Failure)}
    assert len(given_up) <= 2, "a job fails only if it is unlucky several times"
    assert {job: found[job] for job in found.keys() - given_up} == {
        job: job * job for job in range(200) if job not in given_up
    }
    assert len(found) == 200
    assert dispatcher.replaced > 0


def test_a_worker_has_one_job_that_runs_and_one_that_waits() -> None:
    workers = SimulatedWorkers(square)
    run(workers, 3, jobs=40)
    assert workers.most_loaded == DEPTH == 2
    assert workers.busy / (3 * workers.time) > 0.9, "workers are busy almost all the time"


def test_a_job_that_failed_goes_to_another_worker() -> None:
    def fault(worker: int, job: int) -> Fault:
        return Failure("not finite", "NaN") if worker == 0 and job == 3 else None

    found, _ = run(SimulatedWorkers(square, fault=fault), 2, jobs=10)
    assert found[3] == 9


def test_only_the_job_that_ran_is_blamed_for_a_death() -> None:
    tried: Counter[int] = Counter()

    def fault(worker: int, job: int) -> Fault:
        del worker
        tried[job] += 1
        return "dies" if job == 0 else None

    found, dispatcher = run(SimulatedWorkers(square, fault=fault), 1, jobs=2)
    assert isinstance(found[0], Failure)
    assert found[0].kind == "died"
    assert found[1] == 1
    assert tried[0] == dispatcher.replaced == 4


def test_a_worker_that_hangs_is_replaced_after_the_time_limit() -> None:
    workers = SimulatedWorkers(square, fault=lambda worker, _: "hangs" if worker == 0 else None)
    found, dispatcher = run(workers, 1, jobs=3, timeout=30.0)
    assert found == {0: 0, 1: 1, 2: 4}
    assert dispatcher.replaced == 1
    assert 30 < workers.time < 40


def test_workers_that_never_start_are_reported() -> None:
    found, _ = run(SimulatedWorkers(square, start_seconds=math.inf), 2, jobs=2, start_timeout=60.0)
    assert "no worker became available within 60 s" in found[0].reason
    assert isinstance(found[1], Failure)


def test_workers_that_always_die_are_reported() -> None:
    found, dispatcher = run(SimulatedWorkers(square, fault=lambda *_: "dies"), 2, jobs=30)
    assert all(isinstance(each, Failure) for each in found.values())
    assert len(found) == 30
    assert dispatcher.replaced < 100


def test_jobs_are_taken_as_answers_arrive() -> None:
    taken = 0

    def jobs() -> Iterator[int]:
        nonlocal taken
        for job in range(1000):
            taken += 1
            yield job

    thread = DispatcherThread(Dispatcher(SimulatedWorkers(square), 2))
    answers = thread.answers(jobs())
    seen = dict(next(answers) for _ in range(10))
    assert taken <= 10 + 3 * 2, "only a few jobs are on their way"
    seen.update(answers)
    assert seen == {job: job * job for job in range(1000)}
    thread.close()


def test_callers_share_the_jobs_on_their_way() -> None:
    taken = 0

    def jobs() -> Iterator[int]:
        nonlocal taken
        for job in range(1000):
            taken += 1
            yield job

    thread = DispatcherThread(Dispatcher(SimulatedWorkers(square), 4))
    callers = [thread.answers(jobs()) for _ in range(12)]
    for caller in callers:
        next(caller)
    # The first caller takes 3 · 4 jobs, the second half of that, and so on.
    assert taken <= sum(-(-12 // number) for number in range(1, 13)) + len(callers)
    for caller in callers:
        caller.close()  # type: ignore[attr-defined]
    thread.close()


def test_several_threads_get_their_own_answers() -> None:
    thread = DispatcherThread(Dispatcher(SimulatedWorkers(square), 3))
    found: dict[int, dict[int, int]] = {}

    def ask(offset: int) -> None:
        found[offset] = {
            place: result - (offset + place) ** 2 for place, result in thread.answers(range(offset, offset + 50))
        }

    threads = [threading.Thread(target=ask, args=(1000 * number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    thread.close()
    assert found == {1000 * number: dict.fromkeys(range(50), 0) for number in range(4)}


def test_a_caller_that_stops_early_leaves_nothing_behind() -> None:
    thread = DispatcherThread(Dispatcher(SimulatedWorkers(square), 2))
    stopped = thread.answers(range(100))
    next(stopped)
    stopped.close()  # type: ignore[attr-defined]
    assert dict(thread.answers([7])) == {0: 49}
    thread.close()
    with pytest.raises(HeadwiseError, match="the cluster was closed"):
        list(thread.answers([1]))


def test_a_lost_connection_is_an_error_and_not_an_endless_wait() -> None:
    class Lost(SimulatedWorkers):
        def wait(self, seconds: float) -> Any:
            raise ConnectionError("no route")

    thread = DispatcherThread(Dispatcher(Lost(square), 2))
    [(_, found)] = thread.answers([1])
    assert found == Failure("error", "the connection to the cluster was lost: ConnectionError: no route")
    thread.close()


def test_answers_belong_to_their_jobs_even_if_they_arrive_in_another_order() -> None:
    class Shuffled(SimulatedWorkers):
        def wait(self, seconds: float) -> Any:
            found = super().wait(seconds)
            return [each for each in found if each.kind == "ready"] + [
                each for each in found[::-1] if each.kind != "ready"
            ]

    found, _ = run(Shuffled(square, seconds=lambda *_: 0.0), 1, jobs=20)
    assert found == {job: job * job for job in range(20)}


def test_answers_that_arrive_after_all_was_given_up_are_ignored() -> None:
    # Workers 1 and above die at once, while worker 0 still computes: it answers when its job was given up long ago.
    workers = SimulatedWorkers(
        square, lambda worker, _: 20.0 if worker == 0 else 0.1, lambda worker, _: "dies" if worker else None
    )
    found, dispatcher = run(workers, 2, jobs=8)
    assert len(found) == 8
    late: list[Any] = []
    dispatcher.backlog.append(Ticket(5, late.append))
    while dispatcher.busy:
        dispatcher.step()
    assert late in ([25], [Failure("died", "the worker died")])


def idle_share(languages: int, at_once: int, workers: int = 20, batches: int = 10) -> float:
    """The idle share of rounds that begin when all batches of the round before are done."""
    dispatcher = Dispatcher(SimulatedWorkers(square, seconds=lambda _, job: 1.0 + job % 3), workers)
    waiting, left = dict.fromkeys(range(languages), 0), dict.fromkeys(range(languages), 4)
    following = iter(range(languages))

    def begin(language: int) -> None:
        left[language] -= 1
        waiting[language] = batches
        for number in range(batches):
            dispatcher.backlog.append(Ticket(number, lambda _: end(language)))

    def end(language: int) -> None:
        waiting[language] -= 1
        if not waiting[language] and left[language]:
            begin(language)
        elif not waiting[language] and (other := next(following, None)) is not None:
            begin(other)

    for _ in range(at_once):
        begin(next(following))
    while dispatcher.busy:
        dispatcher.step(1e6)
    return dispatcher.idle_share


def test_the_idle_share_is_the_time_without_a_job() -> None:
    # One batch of 2 s on each of 2 of 4 workers.
    dispatcher = Dispatcher(SimulatedWorkers(square, seconds=lambda *_: 2.0), 4)
    assert dispatcher.idle_share == 0
    for number in range(2):
        dispatcher.backlog.append(Ticket(number, lambda _: None))
    while dispatcher.busy:
        dispatcher.step()
    assert dispatcher.busy_seconds == 4
    assert dispatcher.seconds == 2
    assert dispatcher.idle_share == 0.5


def test_overlapping_rounds_keep_workers_busy() -> None:
    alone, together = idle_share(languages=8, at_once=1), idle_share(languages=8, at_once=8)
    assert alone > 0.5, "rounds of 10 batches cannot use 20 workers"
    assert together < 0.25
