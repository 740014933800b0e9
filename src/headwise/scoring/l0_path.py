"""A path of L0 penalties: trained gates for growing penalties, each continuing from the gates of the one before."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from headwise.engine.evaluation import MaskJudge
from headwise.errors import HeadwiseError
from headwise.masks import HeadMask, group_players
from headwise.methods import Budget, Problem, run_method
from headwise.methods.l0 import L0, L0Rounds, l0_mask
from headwise.runs import Journal, open_run
from headwise.scoring.setting import fingerprint_examples
from headwise.tasks.evaluation import Evaluation

#: Called after each penalty with the number of penalties done, their total number and a short status.
PathProgress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class L0Point:
    """The result for one penalty.

    Attributes:
        lam: Weight of the penalty.
        mask: The gates after training, each 0 or 1.
        log_alpha: `ln α` of each player's gate; NaN for players whose gates are not trained.
        evaluations: The metrics under the mask, the main one first.
        units: Cost of the training, in passes of one example through the whole model.
        seconds: Time of the training, including earlier sessions.
    """

    lam: float
    mask: HeadMask
    log_alpha: tuple[float, ...]
    evaluations: tuple[Evaluation, ...]
    units: float = 0.0
    seconds: float = 0.0

    @property
    def evaluation(self) -> Evaluation:
        """The main metric under the mask."""
        return self.evaluations[0]

    @property
    def kept(self) -> dict[str, int]:
        """Number of heads kept in each site, such as `{"encoder.0": 3, "encoder.1": 0}`."""
        return heads_kept(self.mask)

    @property
    def kept_by_type(self) -> dict[str, int]:
        """Number of heads kept in each kind of site: `encoder`, `decoder`, `cross`."""
        found: Counter[str] = Counter()
        for site, count in self.kept.items():
            found[site.partition(".")[0]] += count
        return dict(found)


def heads_kept(mask: HeadMask) -> dict[str, int]:
    """Number of heads that are on in each site.

    Example:
        >>> heads_kept(HeadMask(("encoder.0.0", "encoder.0.1", "cross.0.0"), (True, True, False)))
        {'encoder.0': 2, 'cross.0': 0}
    """
    off = group_players(mask.off)
    return {site: len(heads) - len(off.get(site, ())) for site, heads in group_players(mask.players).items()}


def l0_path(
    problem: Problem,
    lams: Sequence[float],
    judge: MaskJudge,
    method: L0 | None = None,
    *,
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    progress: PathProgress | None = None,
) -> tuple[L0Point, ...]:
    """Train gates for growing penalties with the weights frozen, and measure the mask of each.

    Args:
        problem: The model, the players and the examples that gates are trained on.
        lams: Weights of the penalty, in ascending order.
        judge: Measures the model under a mask, on examples that gates are not trained on.
        method: Options of the training; its `lam` is not used.
        seed: Seed of the order of the examples and of the samples.
        out: Run folder that stores every step. The same call continues an interrupted path, and a call with more
            penalties at the end continues a finished one. By default nothing is written.
        progress: Called after each penalty.

    Returns:
        One point per penalty.

    Raises:
        HeadwiseError: The penalties are not in ascending order, or the folder contains another run.
    """
    method = method or L0()
    check_lams(lams)
    config = {"l0": asdict(method) | {"lam": None, "version": method.version}, "seed": seed}
    config |= {"model": problem.heads.fingerprint, "data": problem.data, "players": list(problem.players.names)}
    points: list[L0Point] = []
    log_alpha = np.full(len(problem.players), float(method.log_alpha))
    with path_journal(out, config) as journal:
        for done, lam in enumerate(lams, 1):
            stream = path_stream(lams[:done])
            continued = _Continued(**(asdict(method) | {"lam": float(lam)}), start_at=tuple(log_alpha.tolist()))
            run = run_method(continued, problem, Budget(), seed, journal, stream)
            assert isinstance(run.rounds, L0Rounds)
            log_alpha = run.rounds.trainer.theta
            mask = l0_mask(run.scores)
            found = judge_once(judge, mask, journal, stream)
            points.append(L0Point(float(lam), mask, run.scores.value, found, run.units, run.seconds))
            if progress is not None:
                progress(done, len(lams), describe(points[-1]))
    return tuple(points)


@dataclass(frozen=True)
class _Continued(L0):
    """The method `l0`, starting from given parameters.

    Attributes:
        start_at: `ln α` of each gate at the start.
    """

    start_at: tuple[float, ...] = ()

    def start(self, problem: Problem, seed: int) -> L0Rounds:
        """Start from the given parameters."""
        return L0Rounds(self, problem, seed, np.array(self.start_at))


def check_lams(lams: Sequence[float]) -> None:
    """Check the penalties of a path.

    Raises:
        HeadwiseError: There are none, or they are not in ascending order.
    """
    if not lams or not all(np.isfinite(lam) and lam >= 0 for lam in lams) or list(lams) != sorted(set(lams)):
        raise HeadwiseError(f"lams: give at least one penalty, from 0 upwards and in ascending order, not {list(lams)}")


@contextmanager
def path_journal(out: str | os.PathLike[str] | None, config: dict[str, Any]) -> Iterator[Journal | None]:
    """The journal of a path; None without a folder."""
    if out is None:
        yield None
        return
    with open_run(out, config) as run:
        yield run.journal


def path_stream(lams: Sequence[float]) -> str:
    """The stream of the last of some penalties: gates depend on all penalties up to it."""
    return "l0 " + " ".join(repr(float(lam)) for lam in lams)


def judge_once(judge: MaskJudge, mask: HeadMask, journal: Journal | None, stream: str) -> tuple[Evaluation, ...]:
    """The metrics under a mask, measured once for each set of examples."""

    def measure() -> dict[str, Any]:
        return {metric.name: each for metric, each in zip(judge.metrics, judge.results(mask), strict=True)}

    data = fingerprint_examples(judge.examples, judge.encoded.encoded)
    found = measure() if journal is None else journal.once(f"{stream}, metrics on {data}", measure)
    return tuple(Evaluation.of(metric, found[metric.name], judge.encoded.cut) for metric in judge.metrics)


def describe(point: L0Point) -> str:
    """A short description of a point."""
    found = point.evaluation
    return f"lam {point.lam:g}: {point.mask.count} of {len(point.mask.on)} kept, {found.metric} {found.value:.1f}"
