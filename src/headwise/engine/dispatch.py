"""Distributes jobs to workers that may fail. It knows neither models nor Ray, so it can be tested and simulated.

- Each worker has at most `DEPTH` jobs: one that runs, and the next one, so that it never waits for the driver.
- A job whose worker dies, hangs or has too little memory is given to another worker. After several failures, the caller
  gets the failure instead of an answer.
- A worker that dies or hangs is replaced by a new one.
- Each job is answered exactly once. Late answers of a worker that was given up are ignored.
"""

import functools
import itertools
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from headwise.errors import HeadwiseError

#: What went wrong with a job: its worker died or hung, memory was too small, a result is not a finite number, or the
#: code raised an error.
FailureKind = Literal["died", "hung", "memory", "not finite", "error"]

#: Maximum number of jobs of a worker: the one that runs, and the next one.
DEPTH = 2
#: Number of failures of each kind after which a job is not tried again. Workers also die for reasons that have nothing
#: to do with the job, so these are tried more often.
MOST_FAILURES: dict[FailureKind, int] = {"died": 4, "hung": 2, "memory": 2, "not finite": 2, "error": 1}
#: Maximum number of seconds between two looks at new jobs, while a worker is free.
_LOOK = 0.02
#: Maximum number of seconds to wait for a worker before time limits are checked.
_WAIT = 1.0


@dataclass(frozen=True)
class Failure:
    """Why a job has no answer.

    Attributes:
        kind: What went wrong.
        reason: The same in words, as part of a sentence.
    """

    kind: FailureKind
    reason: str


@dataclass(frozen=True)
class Event:
    """What a worker reports.

    Attributes:
        worker: Its number.
        kind: `ready` (it accepts jobs), `answer`, `failure` (of a job; the worker still runs) or `died`.
        content: The answer, or the `Failure`.
        job: The job of an answer or a failure, as it was sent.
    """

    worker: int
    kind: Literal["ready", "answer", "failure", "died"]
    content: Any = None
    job: Any = None


class Workers(Protocol):
    """What the dispatcher needs of workers. Each one does its jobs in the order in which they were sent."""

    def start(self) -> int:
        """Start a worker, and return its number. Numbers are never used again."""

    def send(self, worker: int, job: Any) -> None:
        """Give a worker a job."""

    def stop(self, worker: int) -> None:
        """End a worker, even one that hangs; it does not report anything any more."""

    def wait(self, seconds: float) -> list[Event]:
        """Wait until a worker reports something, at most for a number of seconds."""

    def now(self) -> float:
        """The time in seconds."""


@dataclass(eq=False)
class Ticket:
    """A job on its way.

    Attributes:
        job: The job.
        answer: Called with the answer or the `Failure`, exactly once, unless the ticket is cancelled.
        failures: What went wrong so far.
        tried: Workers that it failed on.
        cancelled: Whether nobody waits for the answer any more.
    """

    job: Any
    answer: Callable[[Any], None]
    failures: list[Failure] = field(default_factory=list)
    tried: set[int] = field(default_factory=set)
    cancelled: bool = False


@dataclass(eq=False)
class _Slot:
    """A worker as the dispatcher sees it: its jobs, the first of which runs since a point in time."""

    worker: int
    since: float
    ready: bool = False
    jobs: deque[Ticket] = field(default_factory=deque)


class Dispatcher:
    """Gives jobs to workers, step by step.

    Args:
        workers: The workers.
        count: Number of workers.
        timeout: Number of seconds after which a job is taken to hang.
        start_timeout: Number of seconds after which a worker that does not become ready is given up.
        note: Called with a sentence about each failure.
    """

    def __init__(
        self,
        workers: Workers,
        count: int,
        timeout: float = 600.0,
        start_timeout: float = 600.0,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.workers, self.count, self.timeout, self.start_timeout = workers, count, timeout, start_timeout
        self.note = note
        self.backlog: deque[Ticket] = deque()
        self.replaced = 0
        self._slots: dict[int, _Slot] = {}
        self._free: dict[int, _Slot] = {}  # the workers that can take another job
        self._sent = 0  # jobs at workers
        self._next_check = 0.0
        self._lost = 0  # workers that were lost since the last answer
        self.busy_seconds = 0.0  # time that workers had a job, of all workers together
        self._first_sent: float | None = None
        self._last_answer = 0.0
        for _ in range(count):
            self._start()

    @property
    def busy(self) -> bool:
        """Whether there are jobs without an answer."""
        return bool(self.backlog) or self._sent > 0

    def step(self, seconds: float = _WAIT) -> None:
        """Send jobs to free workers, and handle what workers report within a number of seconds."""
        self._fill()
        for event in self.workers.wait(seconds):
            self._handle(event)
        self._check_times()

    @property
    def seconds(self) -> float:
        """Time from the first job to the last answer."""
        return 0.0 if self._first_sent is None else max(0.0, self._last_answer - self._first_sent)

    @property
    def idle_share(self) -> float:
        """The share of this time that workers had no job; 0 without any job."""
        return 1 - self.busy_seconds / (self.count * self.seconds) if self.seconds else 0.0

    @property
    def has_room(self) -> bool:
        """Whether a worker could take another job."""
        return bool(self._free)

    def fail_all(self, failure: Failure) -> None:
        """Answer all jobs with a failure. Workers may still finish theirs; these answers are ignored."""
        waiting = [*self.backlog, *(ticket for slot in self._slots.values() for ticket in slot.jobs)]
        self.backlog.clear()
        for ticket in waiting:
            if not ticket.cancelled:
                ticket.cancelled = True
                ticket.answer(failure)

    def _start(self) -> None:
        worker = self.workers.start()
        self._slots[worker] = _Slot(worker, self.workers.now())

    def _fill(self) -> None:
        """Send jobs: first to workers without any."""
        while self.backlog and self.backlog[0].cancelled:
            self.backlog.popleft()
        for most in range(1, DEPTH + 1):
            for slot in list(self._free.values()) if self.backlog else ():
                if len(slot.jobs) < most and (ticket := self._next(slot)) is not None:
                    self._send(slot, ticket)

    def _send(self, slot: _Slot, ticket: Ticket) -> None:
        if not slot.jobs:
            slot.since = self.workers.now()
            self._first_sent = slot.since if self._first_sent is None else self._first_sent
        slot.jobs.append(ticket)
        self._sent += 1
        if len(slot.jobs) == DEPTH:
            del self._free[slot.worker]
        self.workers.send(slot.worker, ticket.job)

    def _next(self, slot: _Slot) -> Ticket | None:
        """The first job in the backlog that may go to a worker: one that did not fail on it, if there are others."""
        for place, ticket in enumerate(self.backlog):
            if ticket.cancelled:
                continue
            if slot.worker not in ticket.tried or self._tried_everywhere(ticket):
                del self.backlog[place]
                return ticket
        return None

    def _tried_everywhere(self, ticket: Ticket) -> bool:
        return ticket.tried.issuperset(slot.worker for slot in self._slots.values() if slot.ready)

    def _handle(self, event: Event) -> None:
        slot = self._slots.get(event.worker)
        if slot is None:  # a late report of a worker that was given up
            return
        match event.kind:
            case "ready":
                slot.ready = True
                self._free[slot.worker] = slot
            case "died":
                self._replace(slot, event.content)
            case "answer" | "failure":
                ticket = next(each for each in slot.jobs if each.job is event.job)
                slot.jobs.remove(ticket)
                self._count_busy(slot)
                self._sent -= 1
                self._free[slot.worker] = slot
                if event.kind == "failure":
                    self._failed(slot, ticket, event.content)
                else:
                    self._lost = 0
                    if not ticket.cancelled:
                        ticket.answer(event.content)

    def _count_busy(self, slot: _Slot) -> None:
        """Count the time of the job that has just ended; the next job of the worker begins now."""
        now = self.workers.now()
        self.busy_seconds += now - slot.since
        slot.since = self._last_answer = now

    def _failed(self, slot: _Slot, ticket: Ticket, failure: Failure) -> None:
        """Try a job again, or answer it with its failure."""
        ticket.failures.append(failure)
        ticket.tried.add(slot.worker)
        if ticket.cancelled:
            return
        same = sum(each.kind == failure.kind for each in ticket.failures)
        if same >= MOST_FAILURES[failure.kind]:
            ticket.answer(failure)
        else:
            self.note(f"a batch is computed again: {failure.reason}")
            self.backlog.appendleft(ticket)

    def _replace(self, slot: _Slot, failure: Failure) -> None:
        """Start a new worker in the place of one that died or hangs; its jobs go to others."""
        if slot.jobs:
            self._count_busy(slot)
        del self._slots[slot.worker]
        self._free.pop(slot.worker, None)
        self._sent -= len(slot.jobs)
        self._lost += 1
        running, *waiting = slot.jobs or [None]
        self.backlog.extendleft(reversed([each for each in waiting if each is not None]))
        if running is not None:
            self._failed(slot, running, failure)
        if self._lost > 3 * self.count + 2:
            self.fail_all(Failure("error", f"{self._lost} workers in a row were lost; the last one: {failure.reason}"))
            self._lost = 0
        self.note(f"a worker was lost and is replaced: {failure.reason}")
        self.replaced += 1
        self._start()

    def _check_times(self) -> None:
        now = self.workers.now()
        if now < self._next_check:
            return
        self._next_check = now + _WAIT
        for slot in list(self._slots.values()):
            if slot.ready and slot.jobs and now - slot.since > self.timeout:
                self.workers.stop(slot.worker)
                self._replace(slot, Failure("hung", f"a worker did not answer for {self.timeout:g} s"))
        started = [slot.since for slot in self._slots.values() if not slot.ready]
        if self.backlog and len(started) == len(self._slots) and now - max(started) > self.start_timeout:
            reason = f"no worker became available within {self.start_timeout:g} s: does the cluster have free CPUs?"
            self.fail_all(Failure("error", reason))


class DispatcherThread:
    """Runs a dispatcher in a thread of its own, so that several threads can wait for their jobs at the same time.

    Args:
        dispatcher: The dispatcher; nothing else may call it.
    """

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher
        self._inbox: queue.SimpleQueue[Ticket | None] = queue.SimpleQueue()
        self._end = threading.Event()
        self._crash: Failure | None = None
        self._lock = threading.Lock()
        self._callers = 0
        self._thread = threading.Thread(target=self._run, name="headwise-dispatcher", daemon=True)
        self._thread.start()

    def answers(self, jobs: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        """The answers to jobs in the order of their arrival, each with the position of its job.

        Only a limited number of jobs is on its way at a time, which all callers share: others are taken from `jobs` as
        answers arrive.
        """
        arrived: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        waiting: dict[int, Ticket] = {}
        source = enumerate(jobs)
        with self._lock:
            self._callers += 1
        try:
            while True:
                for place, job in itertools.islice(source, max(0, self._room - len(waiting))):
                    waiting[place] = ticket = Ticket(job, functools.partial(_deliver, arrived, place))
                    self._submit(ticket)
                if not waiting:
                    return
                place, found = arrived.get()
                if waiting.pop(place, None) is not None:
                    yield place, found
        finally:  # also if the caller stops early, for example because of Ctrl-C
            with self._lock:
                self._callers -= 1
            for ticket in waiting.values():
                ticket.cancelled = True

    def close(self) -> None:
        """End the thread; jobs on their way are answered with a failure."""
        self._end.set()
        self._inbox.put(None)
        self._thread.join()

    @property
    def _room(self) -> int:
        """Maximum number of jobs of a caller that are on their way: in total a few more than the workers can take."""
        return -(-(DEPTH + 1) * self.dispatcher.count // max(1, self._callers))

    def _submit(self, ticket: Ticket) -> None:
        if not self._thread.is_alive() or self._end.is_set():
            raise HeadwiseError("the cluster was closed" if self._crash is None else self._crash.reason)
        self._inbox.put(ticket)
        if (crash := self._crash) is not None:  # the thread has just ended, perhaps without seeing the ticket
            ticket.answer(crash)

    def _run(self) -> None:
        crash = Failure("error", "the cluster was closed")
        try:
            while not self._end.is_set():
                self._receive()
                self.dispatcher.step(_LOOK if self.dispatcher.has_room else _WAIT)
        except HeadwiseError as error:
            crash = Failure("error", str(error))
        except Exception as error:  # callers wait for answers: none of them may wait forever
            crash = Failure("error", f"the connection to the cluster was lost: {type(error).__name__}: {error}")
        finally:
            self._crash = crash
            self._receive(wait=False)
            self.dispatcher.fail_all(crash)

    def _receive(self, wait: bool = True) -> None:
        """Move new jobs to the dispatcher; without any job at all, wait for one."""
        while True:
            try:
                ticket = self._inbox.get(block=wait and not self.dispatcher.busy and not self._end.is_set())
            except queue.Empty:
                return
            if ticket is not None:
                self.dispatcher.backlog.append(ticket)


def _deliver(arrived: "queue.SimpleQueue[tuple[int, Any]]", place: int, found: Any) -> None:
    arrived.put((place, found))
