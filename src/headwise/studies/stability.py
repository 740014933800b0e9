"""Stability and likeness: do other draws find the same heads harmful, and which heads do languages share?

The heads are scored once for each seed, all else being the same (figures 1 and 2 of Held & Yang). What every seed
decides, and values averaged over the seeds, say how alike languages are, which heads are among the best of all of them
and which are harmful in one language and helpful in another.
"""

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from headwise.affinity import Shared, shared_scores, specific_to
from headwise.errors import HeadwiseError
from headwise.files import write_json
from headwise.results import SCORING, load_scores
from headwise.runs import open_run
from headwise.scores import HeadScores, stability
from headwise.scoring import Advance, ScoringPlan
from headwise.stats import Decision
from headwise.studies.asking import plan_config, score_heads
from headwise.studies.study import Shown, StudyTable, read_figures, save_tables

#: Where a finished study's figures are.
FIGURES = "stability.json"
FORMAT, VERSION = "headwise-stability-study", 1


@dataclass(frozen=True)
class StabilityPlan:
    """What a stability study is asked.

    Attributes:
        scoring: How heads are scored; the seed in it is not used.
        seeds: Seeds of the draws, at least two.

    Raises:
        HeadwiseError: There are too few seeds, one of them is no whole number, or the scoring has one of its own.

    Example:
        >>> StabilityPlan(ScoringPlan("e5-small-pos", "pos", "phrasebook"), seeds=(0, 1)).seeds
        (0, 1)
    """

    scoring: ScoringPlan
    seeds: Sequence[int] = (0, 1, 2)

    def __post_init__(self) -> None:
        whole = isinstance(self.seeds, list | tuple) and all(type(seed) is int for seed in self.seeds)
        if not whole or not 1 < len(set(self.seeds)) == len(self.seeds):
            raise HeadwiseError(f"'seeds' are at least two different whole numbers, such as [0, 1], not {self.seeds}")
        if self.scoring.seed:
            raise HeadwiseError(f"'seed' is not used by a stability study: put {self.scoring.seed} among its 'seeds'")


@dataclass(frozen=True)
class LanguageStability:
    """How far seeds agree about one language.

    Attributes:
        harmful: How many players each seed finds harmful.
        always: The players that every seed finds harmful.
        jaccard: How alike the sets of harmful players are, mean over pairs of seeds.
        correlation: Spearman's rank correlation of the values, mean over pairs of seeds; None if there is none.
        opposed: The players that one seed finds harmful and another helpful.
        undecided: How many are undecided, mean over seeds.
    """

    harmful: tuple[int, ...]
    always: tuple[str, ...]
    jaccard: float
    correlation: float | None
    opposed: tuple[str, ...]
    undecided: float


@dataclass(frozen=True)
class StabilityStudy(Shown):
    """What a stability study found.

    Attributes:
        folder: The run folder.
        runs: The scores of each language, by seed.
        seconds: What scoring took, by language, all seeds together.
        notes: What must be said with it.
    """

    folder: Path
    runs: Mapping[int, Mapping[str, HeadScores]]
    seconds: Mapping[str, float]
    notes: tuple[str, ...]

    @property
    def metric(self) -> str:
        """The game: nothing is measured on test data."""
        return next(iter(self.scores.values())).provenance.game

    @cached_property
    def scores(self) -> Mapping[str, HeadScores]:
        """The scores of each language, all seeds together."""
        return {language: pool_seeds(self._seeds_of(language)) for language in next(iter(self.runs.values()))}

    @cached_property
    def languages(self) -> Mapping[str, LanguageStability]:
        """How far the seeds agree about each language."""
        return {language: _agreement(self._seeds_of(language)) for language in self.scores}

    def _seeds_of(self, language: str) -> list[HeadScores]:
        return [found[language] for found in self.runs.values()]

    def tables(self) -> tuple[StudyTable, ...]:
        """How far seeds agree and, of several languages, how alike they are and which heads they share."""
        shared = shared_scores(self.scores)
        affinity = () if shared is None else (_likeness_table(shared), _agnostic_table(shared), _specific_table(shared))
        return (self._stability_table(), *affinity)

    def _stability_table(self) -> StudyTable:
        counts = (f"harmful, seed {seed}" for seed in self.runs)
        columns = ("language", *counts, "harmful always", "Jaccard", "Spearman", "opposed", "undecided")
        rows = tuple(
            (
                language, *found.harmful, len(found.always), found.jaccard, found.correlation, len(found.opposed),
                found.undecided,
            )
            for language, found in self.languages.items()
        )  # fmt: skip
        note = "Jaccard, Spearman: means over pairs of seeds; opposed: harmful under one seed, helpful under another."
        return StudyTable("stability", f"{len(self.runs)} seeds compared", columns, rows, note)

    def to_dict(self) -> dict[str, Any]:
        """The study's figures as plain data."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "metric": self.metric,
            "seeds": list(self.runs),
            "languages": {language: dataclasses.asdict(each) for language, each in self.languages.items()},
            "affinity": _affinity(self.scores),
            "seconds": dict(self.seconds),
            "notes": list(self.notes),
        }


def run_stability(plan: StabilityPlan, out: str | os.PathLike[str], progress: Advance | None = None) -> StabilityStudy:
    """Score with every seed, or go on with a study that was stopped.

    Args:
        plan: What to do.
        out: The run folder; the scores of the first seed are in `scoring`, the others' in `scoring-seed-<n>`.
        progress: Called as work goes on.

    Raises:
        HeadwiseError: Something in the plan does not fit, or the folder holds another run.
    """
    folder = Path(out)
    config = {"study": "stability", **plan_config(plan)}
    with open_run(folder, config, settled=(folder / FIGURES).exists()):
        found = {}
        for place, (seed, scoring) in enumerate(_seed_folders(folder, plan.seeds).items()):
            seeded = dataclasses.replace(plan.scoring, seed=seed)
            found[seed] = score_heads(seeded, scoring, _part(progress, place, len(plan.seeds), seed))
    runs = {seed: run.scores for seed, run in found.items()}
    first = next(iter(found.values()))
    seconds = {name: sum(run.languages[name].seconds for run in found.values()) for name in first.languages}
    study = StabilityStudy(folder, runs, seconds, first.notes)
    write_json(folder / FIGURES, study.to_dict())
    save_tables(study.tables(), folder)
    return study


def load_stability(folder: Path) -> StabilityStudy:
    """The stability study in a run folder.

    Raises:
        HeadwiseError: There is none, or it is not finished.
    """
    with read_figures(folder, FIGURES, FORMAT, VERSION) as data:
        stored = {seed: load_scores(path) for seed, path in _seed_folders(folder, data["seeds"]).items()}
        runs = {seed: {name: scores[name] for name in data["languages"]} for seed, scores in stored.items()}
        return StabilityStudy(folder, runs, data["seconds"], tuple(data["notes"]))


def pool_seeds(scores: Sequence[HeadScores]) -> HeadScores:
    """The scores of several seeds as one: mean values, and what every seed decides.

    Example:
        >>> from headwise.scores import Provenance
        >>> one = HeadScores(("encoder.0.0", "encoder.0.1"), (0.5, -0.2), (0.3, 0.3), (9, 9), ("helpful", "harmful"),
        ...                  Provenance("stars", "full", seed=0, units=100.0))
        >>> other = dataclasses.replace(one, value=(0.7, -0.4), stderr=(0.4, 0.4), decision=("helpful", "undecided"))
        >>> both = pool_seeds([one, other])
        >>> both.values().round(2).tolist(), both.stderr, both.decision, both.provenance.units
        ([0.6, -0.3], (0.25, 0.25), ('helpful', 'undecided'), 200.0)
    """
    first, n = scores[0], len(scores)
    decided: list[tuple[Decision, ...]] = list(zip(*(each.decision for each in scores), strict=True))
    errors = np.array([each.stderr for each in scores])  # (seeds, players): seeds draw independently
    return dataclasses.replace(
        first,
        value=tuple(np.mean([each.values() for each in scores], axis=0).tolist()),
        stderr=tuple((np.sqrt((errors**2).sum(axis=0)) / n).tolist()),
        count=tuple(int(total) for total in np.sum([each.count for each in scores], axis=0)),
        decision=tuple(each[0] if len(set(each)) == 1 else "undecided" for each in decided),
        provenance=dataclasses.replace(
            first.provenance, seed=None, units=sum(each.provenance.units for each in scores)
        ),
    )


def _agreement(scores: Sequence[HeadScores]) -> LanguageStability:
    found = stability(scores)
    opposed = {name for one, two in combinations(scores, 2) for name in one.compare(two).opposite_decisions}
    return LanguageStability(
        harmful=tuple(len(each.decided("harmful")) for each in scores),
        always=found.harmful,
        jaccard=found.jaccard,
        correlation=None if math.isnan(found.correlation) else found.correlation,
        opposed=tuple(name for name in scores[0].players if name in opposed),
        undecided=float(np.mean([len(each.decided("undecided")) for each in scores])),
    )


def _likeness_table(shared: Shared) -> StudyTable:
    rows = tuple((name, *row) for name, row in zip(shared.languages, _rows(shared), strict=True))
    title = "rank correlation between languages"
    note = "Likeness: Spearman’s, of values averaged over the seeds."
    return StudyTable("likeness", title, ("language", *shared.languages), rows, note)


def _rows(shared: Shared) -> list[list[float | None]]:
    """The rows of the likeness map; a language whose values are all the same is like none."""
    return [[None if math.isnan(rho) else rho for rho in row] for row in shared.likeness().tolist()]


def _agnostic_table(shared: Shared) -> StudyTable:
    mean = dict(zip(shared.players, shared.values.mean(axis=0).tolist(), strict=True))
    rows = tuple((name, mean[name]) for name in sorted(shared.agnostic(), key=lambda name: -mean[name]))
    note = "" if rows else f"Agnostic: nothing is in every language’s top {shared.top}."
    return StudyTable("agnostic", f"in every language’s top {shared.top}", ("player", "mean value"), rows, note)


def _specific_table(shared: Shared) -> StudyTable:
    rows = []
    for name, decisions in shared.opposed().items():
        alone = specific_to(decisions)
        groups = (", ".join(shared.deciding(decisions, sign)) for sign in (1.0, -1.0, 0.0))
        rows.append((name, None if alone is None else shared.languages[alone], *groups))
    columns = ("player", "specific to", "helpful in", "harmful in", "undecided in")
    note = "Specific: decided by every seed in every language, and one language stands alone."
    if not rows:
        note = "Specific: nothing is harmful in one language and helpful in another."
    return StudyTable("specific", "harmful in one language, helpful in another", columns, tuple(rows), note)


def _affinity(scores: Mapping[str, HeadScores]) -> dict[str, Any] | None:
    """What languages share as plain data; None if they cannot be compared."""
    shared = shared_scores(scores)
    if shared is None:
        return None
    specific = {name: specific_to(decisions) for name, decisions in shared.opposed().items()}
    return {
        "likeness": _rows(shared),
        "agnostic": list(shared.agnostic()),
        "opposed": list(specific),
        "specific": {name: shared.languages[place] for name, place in specific.items() if place is not None},
    }


def _seed_folders(folder: Path, seeds: Sequence[int]) -> dict[int, Path]:
    return {seed: folder / (f"scoring-seed-{seed}" if place else SCORING) for place, seed in enumerate(seeds)}


def _part(progress: Advance | None, place: int, parts: int, seed: int) -> Advance | None:
    """Progress of one seed's run as a part of the whole."""
    if progress is None:
        return None
    return lambda done, total, word: progress(place * total + done, parts * total, f"seed {seed}, {word}")
