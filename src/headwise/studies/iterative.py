"""Iterative pruning: the metric on test data while heads are removed, the lowest-ranked first, until none is left.

Figure 3 of Held & Yang, after Michel et al. Each ranking is made on dev examples with the same budget. A good one keeps
the metric up for long; one that knows harmful heads lifts it at first.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headwise.errors import HeadwiseError, require_whole
from headwise.files import write_json
from headwise.methods import METHODS
from headwise.report import Curve
from headwise.results import SCORING
from headwise.rules import lowest_mask
from headwise.runs import open_run
from headwise.scores import HeadScores
from headwise.scoring import Advance, ScoringPlan, ScoringRun
from headwise.studies.asking import plan_config, score_heads, study_languages
from headwise.studies.descents import FIGURES, IterativeStudy
from headwise.studies.study import save_tables
from headwise.studies.testing import Array, Bench, check_examples, check_split, open_bench

#: The ranking that is drawn several times.
_RANDOM = "random"


@dataclass(frozen=True)
class IterativePlan:
    """What an iterative study is asked.

    Attributes:
        scoring: How heads are scored; its method is one of the rankings, the one that the page shows the scores of.
        rankings: The methods that rank, of `headwise.methods.METHODS`; options are for the method of `scoring` alone.
        test_split: The split that the metric is measured on.
        step: Heads removed between two points; the last point is always without any head.
        randoms: How often the `random` ranking is drawn.
        resamples: Resamples of the bootstrap.
        limit_test: At most so many test examples of each language; None for all.

    Example:
        >>> plan = IterativePlan(ScoringPlan("e5-small-pos", "pos", "phrasebook"), step=60)
        >>> plan.points(144)
        (0, 60, 120, 144)
    """

    scoring: ScoringPlan
    rankings: Sequence[str] = ("stars", "gradient-screen", "michel", "random")
    test_split: str = "test"
    step: int = 6
    randoms: int = 3
    resamples: int = 1000
    limit_test: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.rankings, list | tuple) or not self.rankings:
            raise HeadwiseError(f"rankings: a list of methods such as [stars, random], not {self.rankings!r}")
        for ranking in self.rankings:
            if ranking not in METHODS:
                raise HeadwiseError(f"rankings: there is no method {ranking!r}: choose from {', '.join(METHODS)}")
            if self.rankings.count(ranking) > 1:
                raise HeadwiseError(f"rankings: {ranking!r} is there twice")
        if self.scoring.method not in self.rankings:
            raise HeadwiseError(
                f"rankings: the method {self.scoring.method!r} is not there: add it, or change 'method'"
            )
        check_split(self.scoring, self.test_split)
        for name in ("step", "randoms", "resamples", "limit_test"):
            if (name, getattr(self, name)) != ("limit_test", None):
                require_whole(name, getattr(self, name))

    def points(self, players: int) -> tuple[int, ...]:
        """How many heads are removed at each point: from none to all."""
        return (*range(0, players, self.step), players)


def run_iterative(plan: IterativePlan, out: str | os.PathLike[str], progress: Advance | None = None) -> IterativeStudy:
    """Run the study, or go on with one that was stopped.

    Args:
        plan: What to do.
        out: The run folder.
        progress: Called as work goes on.

    Raises:
        HeadwiseError: Something in the plan does not fit, the folder holds another run, or a head has no value because
            the budget is too small.
    """
    folder, languages = Path(out), study_languages(plan.scoring)
    check_examples(plan.scoring, languages, plan.test_split)
    config = {"study": "iterative", **plan_config(plan), "languages": languages}
    with open_run(folder, config, settled=(folder / FIGURES).exists()) as run:
        scored = {ranking: _score(plan, ranking, folder, progress) for ranking in plan.rankings}
        bench = open_bench(plan.scoring, plan.test_split, run.journal, plan.limit_test)
        lines = _measure(plan, bench, scored, progress)
    main = scored[plan.scoring.method][0]
    seconds = {language: each.seconds for language, each in main.languages.items()}
    study = IterativeStudy(folder, bench.task.metric.name, lines, main.scores, seconds, main.notes)
    write_json(folder / FIGURES, study.to_dict())
    save_tables(study.tables(), folder)
    return study


def _score(plan: IterativePlan, ranking: str, folder: Path, progress: Advance | None) -> list[ScoringRun]:
    """The runs of a ranking: one, or one for each draw of the random one. The page shows what is in `scoring`."""
    main, found = ranking == plan.scoring.method, []

    def show(done: int, total: int, word: str) -> None:
        if progress is not None:
            progress(done, total, f"{ranking}, {word}")

    for draw in range(plan.randoms if ranking == _RANDOM else 1):
        name = f"scoring-{ranking}-{draw}" if ranking == _RANDOM else f"scoring-{ranking}"
        options = plan.scoring.options if main else {}
        asked = dataclasses.replace(plan.scoring, method=ranking, options=options, seed=plan.scoring.seed + draw)
        run = score_heads(asked, folder / (SCORING if main and not draw else name), show)
        for language, each in run.languages.items():
            _check_complete(ranking, language, each.scores)
        found.append(run)
    return found


def _check_complete(ranking: str, language: str, scores: HeadScores) -> None:
    """Heads without a value cannot be ranked."""
    if missing := len(scores.players) - len(scores.ranked()):
        raise HeadwiseError(f"budget: {missing} players of {language} have no value by {ranking} yet: raise it")


def _measure(
    plan: IterativePlan, bench: Bench, scored: Mapping[str, Sequence[ScoringRun]], progress: Advance | None
) -> tuple[Curve, ...]:
    """The curve of every language under every ranking."""
    languages = list(scored[plan.scoring.method][0].languages)
    pairs = [(language, ranking) for language in languages for ranking in scored]
    lines = []
    for done, (language, ranking) in enumerate(pairs):
        if progress is not None:
            progress(done, len(pairs), f"testing {language}, {ranking}")
        lines.append(_line(plan, bench, language, ranking, [run.languages[language].scores for run in scored[ranking]]))
    if progress is not None:
        progress(len(pairs), len(pairs), "tested")
    return tuple(lines)


def _line(plan: IterativePlan, bench: Bench, language: str, ranking: str, rankings: Sequence[HeadScores]) -> Curve:
    """The curve of one language: with the bootstrap's band, or from the worst to the best of several draws."""
    points = plan.points(len(rankings[0].players))
    measured = [_descend(bench, language, scores, points) for scores in rankings]
    values = np.array([[bench.value(each) for each in descent] for descent in measured])  # (rankings, points)
    if ranking == _RANDOM:
        low, high = values.min(0), values.max(0)
    else:
        low, high = bench.bands(measured[0], plan.resamples)
    mean = values.mean(0)
    return Curve(language, ranking, points, tuple(mean.tolist()), tuple(low.tolist()), tuple(high.tolist()))


def _descend(bench: Bench, language: str, scores: HeadScores, points: Sequence[int]) -> list[Array]:
    """What each test example adds to the metric at each point, (examples, statistics) each."""
    return [bench.statistics(language, lowest_mask(scores, bench.heads, removed)) for removed in points]
