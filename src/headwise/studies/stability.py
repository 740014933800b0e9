"""Stability: do other random draws find the same heads harmful, and which heads do languages share?

The heads are scored once for each seed, with otherwise equal settings (figures 1 and 2 of Held & Yang). Languages are
compared by their values averaged over the seeds, and by the decisions on which all seeds agree: their rank
correlations, the heads that are among the best in all languages, and the heads that are harmful in one language and
helpful in another.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from headwise.errors import FieldError
from headwise.report import Section, noun_of
from headwise.report.numbers import plain, plural
from headwise.scores import HeadScores, stability
from headwise.scores.affinity import Shared, shared_scores, specific_to
from headwise.scoring import ScoringPlan, ScoringRun
from headwise.scoring.run_folder import SCORING, load_scores
from headwise.stats import Decision
from headwise.studies.grid import Array, Cell
from headwise.studies.study import read_figures
from headwise.studies.tables import StudyTable, section_of
from headwise.studies.work import GridKind, Work

#: File with the results of a finished study.
_FIGURES = "stability.json"
FORMAT, VERSION = "headwise-stability-study", 1


@dataclass(frozen=True)
class StabilityPlan:
    """The plan of a stability study.

    Attributes:
        scoring: The plan of the scoring runs; its seed must be 0 and is replaced by each of `seeds`.
        seeds: At least two different seeds.

    Raises:
        HeadwiseError: There are fewer than two seeds, one is not a whole number, or `scoring` has a seed.

    Example:
        >>> StabilityPlan(ScoringPlan("e5-small-pos", "pos", "phrasebook"), seeds=(0, 1)).seeds
        (0, 1)
    """

    scoring: ScoringPlan
    seeds: Sequence[int] = (0, 1, 2)

    def __post_init__(self) -> None:
        whole = isinstance(self.seeds, list | tuple) and all(type(seed) is int for seed in self.seeds)
        if not whole or not 1 < len(set(self.seeds)) == len(self.seeds):
            raise FieldError("seeds", f"at least two different whole numbers, such as [0, 1], not {self.seeds}")
        if self.scoring.seed:
            raise FieldError("seed", f"a stability study does not use it: put {self.scoring.seed} among its 'seeds'")


@dataclass(frozen=True)
class LanguageStability:
    """The agreement of seeds in one language.

    Attributes:
        harmful: Number of harmful players for each seed.
        always: The players that are harmful for every seed.
        jaccard: Jaccard index of the sets of harmful players, mean over pairs of seeds.
        correlation: Spearman's rank correlation of the values, mean over pairs of seeds; None if undefined.
        opposed: The players that are harmful for one seed and helpful for another.
        undecided: Number of undecided players, mean over seeds.
    """

    harmful: tuple[int, ...]
    always: tuple[str, ...]
    jaccard: float
    correlation: float | None
    opposed: tuple[str, ...]
    undecided: float


@dataclass(frozen=True)
class StabilityStudy:
    """The results of a stability study.

    Attributes:
        folder: The run folder.
        runs: The scores of each language, by seed.
        seconds: The time of scoring by language, for all seeds together.
        notes: Notes to print with the results.
    """

    folder: Path
    runs: Mapping[int, Mapping[str, HeadScores]]
    seconds: Mapping[str, float]
    notes: tuple[str, ...]

    @property
    def metric(self) -> str:
        """The name of the game, since there is no metric on test data."""
        return next(iter(self.scores.values())).provenance.game

    @cached_property
    def scores(self) -> Mapping[str, HeadScores]:
        """The scores of each language, pooled over seeds."""
        return {language: pool_seeds(self._seeds_of(language)) for language in next(iter(self.runs.values()))}

    @cached_property
    def languages(self) -> Mapping[str, LanguageStability]:
        """The agreement of the seeds in each language."""
        return {language: _agreement(self._seeds_of(language)) for language in self.scores}

    def _seeds_of(self, language: str) -> list[HeadScores]:
        return [found[language] for found in self.runs.values()]

    def tables(self) -> tuple[StudyTable, ...]:
        """The agreement of seeds and, for several languages, the comparison of languages."""
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
        note = "Jaccard, Spearman: means over pairs of seeds; opposed: harmful for one seed, helpful for another."
        return StudyTable("stability", f"{len(self.runs)} seeds compared", columns, rows, note)

    def sections(self) -> tuple[Section, ...]:
        """The agreement of the seeds; the page itself compares the languages."""
        return (dataclasses.replace(section_of(self._stability_table()), headline=self._headline()),)

    def _headline(self) -> str:
        """The agreement of the seeds, on average over languages."""
        found = self.languages.values()
        known = [each.correlation for each in found if each.correlation is not None]
        jaccard = sum(each.jaccard for each in found) / len(found)
        opposed = sum(len(each.opposed) for each in found)
        noun = noun_of(self.scores)
        over = f"mean over {plural(len(found), 'language')} and pairs of seeds"
        rho = f" The rank correlation of their values is {plain(sum(known) / len(known), 2)}." if known else ""
        return (
            f"Of the {noun}s that one of two seeds finds harmful, {jaccard:.0%} are harmful for both ({over}).{rho} "
            f"{plural(opposed, noun) if opposed else f'No {noun}'} {'are' if opposed > 1 else 'is'} harmful for one "
            "seed and helpful for another."
        )

    def to_dict(self) -> dict[str, Any]:
        """The results as plain data."""
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


def prepare(plan: StabilityPlan, work: Work) -> dict[int, ScoringRun]:
    """One scoring run per seed: the first in `scoring`, the others in `scoring-seed-<n>`."""
    folders = _seed_folders(work.folder, plan.seeds)
    return {
        seed: work.score(
            dataclasses.replace(plan.scoring, seed=seed), folder.name, f"seed {seed}", place, len(plan.seeds)
        )
        for place, (seed, folder) in enumerate(folders.items())
    }


def cells(_plan: StabilityPlan, _work: Work, _scored: Mapping[int, ScoringRun]) -> tuple[Cell, ...]:
    """No cells: nothing is measured on test data."""
    return ()


def finish(
    _plan: StabilityPlan, work: Work, scored: Mapping[int, ScoringRun], _measured: dict[Cell, Array]
) -> StabilityStudy:
    """The study of all runs."""
    runs = {seed: run.scores for seed, run in scored.items()}
    first = next(iter(scored.values()))
    seconds = {name: sum(run.languages[name].seconds for run in scored.values()) for name in first.languages}
    return StabilityStudy(work.folder, runs, seconds, first.notes)


def load_stability(folder: Path) -> StabilityStudy:
    """The stability study in a run folder.

    Raises:
        HeadwiseError: There is none, or it is not finished.
    """
    with read_figures(folder, _FIGURES, FORMAT, VERSION) as data:
        stored = {seed: load_scores(path) for seed, path in _seed_folders(folder, data["seeds"]).items()}
        runs = {seed: {name: scores[name] for name in data["languages"]} for seed, scores in stored.items()}
        return StabilityStudy(folder, runs, data["seconds"], tuple(data["notes"]))


def pool_seeds(scores: Sequence[HeadScores]) -> HeadScores:
    """Pool the scores of several seeds: mean values, and the decisions on which all seeds agree.

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
    errors = np.array([each.stderr for each in scores])  # (seeds, players), independent between seeds
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
    note = "Spearman’s rank correlation of values averaged over the seeds."
    return StudyTable("likeness", title, ("language", *shared.languages), rows, note)


def _rows(shared: Shared) -> list[list[float | None]]:
    """The rows of the table of correlations; None for a language whose values are all equal."""
    return [[None if math.isnan(rho) else rho for rho in row] for row in shared.likeness().tolist()]


def _agnostic_table(shared: Shared) -> StudyTable:
    mean = dict(zip(shared.players, shared.values.mean(axis=0).tolist(), strict=True))
    rows = tuple((name, mean[name]) for name in sorted(shared.agnostic(), key=lambda name: -mean[name]))
    note = "" if rows else f"Agnostic: no player is in every language’s top {shared.top}."
    return StudyTable("agnostic", f"in every language’s top {shared.top}", ("player", "mean value"), rows, note)


def _specific_table(shared: Shared) -> StudyTable:
    rows = []
    for name, decisions in shared.opposed().items():
        alone = specific_to(decisions)
        groups = (", ".join(shared.deciding(decisions, sign)) for sign in (1.0, -1.0, 0.0))
        rows.append((name, None if alone is None else shared.languages[alone], *groups))
    columns = ("player", "specific to", "helpful in", "harmful in", "undecided in")
    note = "Specific: decided by every seed in every language, and opposite in one language only."
    if not rows:
        note = "Specific: no player is harmful in one language and helpful in another."
    return StudyTable("specific", "harmful in one language, helpful in another", columns, tuple(rows), note)


def _affinity(scores: Mapping[str, HeadScores]) -> dict[str, Any] | None:
    """The comparison of languages as plain data; None if they cannot be compared."""
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


STABILITY = GridKind(
    "stability", StabilityPlan, prepare, cells, finish, load_stability,
    about=(
        "The heads are scored once for each seed, to see whether other random draws find the same heads harmful, "
        "and which heads languages share."
    ),
)  # fmt: skip
