"""Correlates of the gain: do languages gain more that are further from the source, or rank their heads otherwise?

Takes the gains and scores of a finished targeted study, and runs no model.
"""

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwise.errors import FieldError, HeadwiseError, require_whole
from headwise.files import write_json
from headwise.report import Section
from headwise.runs import open_run
from headwise.runs.config import read_config
from headwise.scores import HeadScores
from headwise.stats import permutation_p_value, spearman
from headwise.studies.study import check_numbers, read_figures
from headwise.studies.tables import StudyTable, save_tables, section_of
from headwise.studies.targeted_study import MASKS, TargetedStudy, load_targeted
from headwise.studies.typology import Distances, read_distances, uriel_distances
from headwise.support.progress import Advance

#: Where a finished study's figures are.
FIGURES = "correlates.json"
FORMAT, VERSION = "headwise-correlates-study", 1
#: How alike a language and the source rank their heads.
LIKENESS = "ranking likeness"
# Fewer languages than this say nothing about rank.
_FEWEST = 4
_NO_URIEL = (
    "Distances between languages are left out: install 'headwise[typology]', or give a file of them as 'typology'."
)


@dataclass(frozen=True)
class CorrelatesPlan:
    """What a study of correlates is asked.

    Attributes:
        gains: The run folder of a finished targeted study.
        mask: The mask whose gains they are, `targeted`, `likely` or `refined`.
        source: The language that the model was tuned on.
        typology: A CSV or TSV file with distances to the source: `language`, then a column of each kind. Without
            one the distances are those of URIEL, if the package `urielplus` is installed.
        resamples: Permutations behind each P-value.

    Raises:
        HeadwiseError: There is no such mask, or the resamples are no whole number of at least 1.
    """

    gains: str
    mask: str = "targeted"
    source: str = "en"
    typology: str | None = None
    resamples: int = 10_000

    def __post_init__(self) -> None:
        if self.mask not in MASKS:
            raise FieldError("mask", f"must be one of {', '.join(MASKS)}, not {self.mask!r}")
        require_whole("resamples", self.resamples)


@dataclass(frozen=True)
class Correlate:
    """How the gains of languages go with one of their traits.

    Attributes:
        trait: What it is, such as `syntactic`.
        languages: How many languages have it.
        rho: Spearman's rank correlation; None if there are fewer than 4 languages, or all are the same.
        low: Lower end of its 95% interval.
        high: Its upper end.
        p_value: Two-sided, by permutation.
    """

    trait: str
    languages: int
    rho: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None


@dataclass(frozen=True)
class CorrelatesStudy:
    """What a study of correlates found.

    Attributes:
        folder: The run folder.
        targeted: The study that the gains come from.
        mask: The mask whose gains they are.
        source: The language that the model was tuned on.
        traits: Every other language's traits, by name; None where one is not known.
        correlates: How the gains go with each trait.
        notes: What must be said with it.
    """

    folder: Path
    targeted: TargetedStudy
    mask: str
    source: str
    traits: Mapping[str, Mapping[str, float | None]]
    correlates: tuple[Correlate, ...]
    notes: tuple[str, ...]

    @property
    def metric(self) -> str:
        """The metric's name."""
        return self.targeted.metric

    @property
    def scores(self) -> Mapping[str, HeadScores]:
        """The scores of each language."""
        return self.targeted.scores

    @property
    def seconds(self) -> Mapping[str, float]:
        """What scoring took, by language."""
        return self.targeted.seconds

    def tables(self) -> tuple[StudyTable, ...]:
        """The correlations, and what is correlated."""
        rows = tuple((each.trait, each.languages, each.rho, each.low, each.high, each.p_value)
                     for each in self.correlates)  # fmt: skip
        note = f"P: by permuting the languages, each trait on its own; {self.source} itself is left out."
        title = f"what the gain in {self.metric} by {self.mask} masks goes with (Spearman)"
        first = StudyTable("correlates", title, ("trait", "languages", "rho", "low", "high", "P"), rows, note)
        gains, names = gain_of(self.targeted, self.mask), [each.trait for each in self.correlates]
        lines = tuple((name, gains[name], *(row[trait] for trait in names)) for name, row in self.traits.items())
        return first, StudyTable(
            "traits", f"likeness and distance to {self.source}", ("language", "gain", *names), lines
        )

    def sections(self) -> tuple[Section, ...]:
        """The correlations, and the gains that they are about."""
        return (*map(section_of, self.tables()), *self.targeted.sections())

    def to_dict(self) -> dict[str, Any]:
        """The study's figures as plain data."""
        return {
            "format": FORMAT,
            "version": VERSION,
            # From here to there, so that both can be moved together.
            "gains": os.path.relpath(self.targeted.folder, self.folder),
            "mask": self.mask,
            "source": self.source,
            "traits": {language: dict(row) for language, row in self.traits.items()},
            "correlates": [dataclasses.asdict(each) for each in self.correlates],
            "notes": list(self.notes),
        }


def run_correlates(
    plan: CorrelatesPlan, out: str | os.PathLike[str], progress: Advance | None = None
) -> CorrelatesStudy:
    """Correlate the gains of a targeted study with what is known of its languages.

    Args:
        plan: What to do.
        out: The run folder.
        progress: Called as work goes on.

    Raises:
        HeadwiseError: There is no finished targeted study, it has fewer than 4 languages beside the source, or nothing
            is known of them.
    """
    folder, start = Path(out), Path(plan.gains)
    targeted = load_targeted(start)
    asked = {name: value for name, value in read_config(start).items() if name in ("model", "task", "data", "seed")}
    # All of it before there is a folder: what cannot be found must not leave one behind.
    traits, notes = find_traits(plan, targeted)
    found = correlate(gain_of(targeted, plan.mask), traits, plan.resamples)
    study = CorrelatesStudy(folder, targeted, plan.mask, plan.source, traits, found, (*targeted.notes, *notes))
    config = {**asked, "study": "correlates", **dataclasses.asdict(plan)}
    with open_run(folder, config, settled=(folder / FIGURES).exists()):
        write_json(folder / FIGURES, study.to_dict())
        save_tables(study.tables(), folder)
    if progress is not None:
        progress(len(traits), len(traits), "correlated")
    return study


def load_correlates(folder: Path) -> CorrelatesStudy:
    """The study of correlates in a run folder.

    Raises:
        HeadwiseError: There is none, it is not finished, or the targeted study behind it is gone.
    """
    with read_figures(folder, FIGURES, FORMAT, VERSION) as data:
        found = tuple(Correlate(**each) for each in data["correlates"])
        known = [number for each in found for number in dataclasses.astuple(each)[1:] if number is not None]
        check_numbers(*known, *(cell for row in data["traits"].values() for cell in row.values() if cell is not None))
        targeted = load_targeted(Path(os.path.normpath(folder / data["gains"])))
        return CorrelatesStudy(
            folder, targeted, data["mask"], data["source"], data["traits"], found, tuple(data["notes"])
        )


def gain_of(targeted: TargetedStudy, mask: str) -> dict[str, float]:
    """What each language gains by a mask, in percentage points.

    Raises:
        HeadwiseError: There is no such mask of a language.
    """
    gains = {language: found.gain(mask) for language, found in targeted.languages.items()}
    if lacking := [language for language, gain in gains.items() if gain is None]:
        raise HeadwiseError(f"{targeted.folder}: {lacking[0]} has no {mask} mask: choose another 'mask'")
    return {language: gain for language, gain in gains.items() if gain is not None}


def find_traits(plan: CorrelatesPlan, targeted: TargetedStudy) -> tuple[Distances, tuple[str, ...]]:
    """The traits of every language but the source, and what must be said of them."""
    languages = [language for language in targeted.languages if language != plan.source]
    if len(languages) < _FEWEST:
        raise HeadwiseError(
            f"'gains': {plan.gains} has {len(languages)} languages beside {plan.source}, but ranks need {_FEWEST}: "
            "take a study of more languages"
        )
    if plan.typology is not None:
        distances: Distances | None = read_distances(Path(plan.typology), languages)
    else:
        distances = uriel_distances(plan.source, languages)
    likeness = _likeness(targeted.scores, plan.source, languages)
    if likeness is None and distances is None:
        raise HeadwiseError(f"'source': {plan.gains} has no scores of {plan.source}, and there are no distances to it: "
                            "give a file of them as 'typology'")  # fmt: skip
    no_likeness = f"{LIKENESS.capitalize()} is left out: {plan.gains} has no scores of {plan.source}."
    notes = tuple(text for text, part in ((no_likeness, likeness), (_NO_URIEL, distances)) if part is None)
    parts = [part for part in (likeness, distances) if part is not None]
    return {name: {trait: value for part in parts for trait, value in part[name].items()} for name in languages}, notes


def _likeness(scores: Mapping[str, HeadScores], source: str, languages: Sequence[str]) -> Distances | None:
    """How alike each language and the source rank their heads; None if the source has no scores."""
    if source not in scores:
        return None
    found = {name: scores[name].compare(scores[source]).correlation.rho for name in languages}
    return {name: {LIKENESS: None if math.isnan(rho) else rho} for name, rho in found.items()}


def correlate(
    gains: Mapping[str, float], traits: Mapping[str, Mapping[str, float | None]], resamples: int = 10_000
) -> tuple[Correlate, ...]:
    """How gains go with each trait, over the languages that have it.

    Args:
        gains: The gain of each language.
        traits: The traits of each language, by name.
        resamples: Permutations behind each P-value.

    Example:
        >>> gains = {"de": 0.1, "tr": 0.5, "ar": 1.7, "zh": 0.9}
        >>> traits = {"de": {"syntactic": 0.36}, "tr": {"syntactic": 0.68}, "ar": {"syntactic": 0.53},
        ...           "zh": {"syntactic": 0.51}}
        >>> [found] = correlate(gains, traits, resamples=100)
        >>> found.trait, found.languages, round(found.rho, 2)
        ('syntactic', 4, 0.4)
    """
    names = dict.fromkeys(trait for row in traits.values() for trait in row)
    return tuple(
        _correlate(trait, [(gains[language], row[trait]) for language, row in traits.items()], resamples)
        for trait in names
    )


def _correlate(trait: str, pairs: list[tuple[float, float | None]], resamples: int) -> Correlate:
    known = [(gain, value) for gain, value in pairs if value is not None]
    if len(known) < _FEWEST:
        return Correlate(trait, len(known))
    gains, values = zip(*known, strict=True)
    found = spearman(gains, values)
    if math.isnan(found.rho):
        return Correlate(trait, len(known))
    return Correlate(trait, len(known), found.rho, found.low, found.high, permutation_p_value(gains, values, resamples))


@dataclass(frozen=True)
class _CorrelatesKind:
    """The kind of study that runs no model."""

    name: str = "correlates"
    plan: type[Any] = CorrelatesPlan

    def run(
        self, plan: CorrelatesPlan, out: str | os.PathLike[str], progress: Advance | None = None
    ) -> CorrelatesStudy:
        """Run a plan."""
        return run_correlates(plan, out, progress)

    def load(self, folder: Path) -> CorrelatesStudy:
        """The finished study of a folder."""
        return load_correlates(folder)


CORRELATES = _CorrelatesKind()
