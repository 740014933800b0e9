"""Correlates of the gain: is the gain of a language related to its distance from the source language?

Distances are typological, or the rank correlation of head scores. The study uses the gains and scores of a finished
targeted study; it does not run the model.
"""

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwise.engine import EngineFactory, LocalEngine
from headwise.errors import FieldError, HeadwiseError, require_whole
from headwise.files import write_json
from headwise.report import SIGNIFICANT, Section
from headwise.report.numbers import plural, probability, signed
from headwise.runs import open_run
from headwise.runs.config import read_config
from headwise.scores import HeadScores
from headwise.stats import permutation_p_value, spearman
from headwise.studies.study import check_numbers, read_figures
from headwise.studies.tables import StudyTable, save_tables, section_of
from headwise.studies.targeted_study import MASKS, TargetedStudy, load_targeted
from headwise.studies.typology import Distances, read_distances, uriel_distances
from headwise.support.progress import Advance

#: File with the results of a finished study.
FIGURES = "correlates.json"
FORMAT, VERSION = "headwise-correlates-study", 1
#: Rank correlation of the head scores of a language and the source.
LIKENESS = "ranking likeness"
# Minimum number of languages for a rank correlation.
_FEWEST = 4
_NO_URIEL = "Distances between languages are left out: install 'headwise[typology]', or give a file as 'typology'."


@dataclass(frozen=True)
class CorrelatesPlan:
    """The plan of a study of correlates.

    Attributes:
        gains: The run folder of a finished targeted study.
        mask: The mask whose gains are used: `targeted`, `likely` or `refined`.
        source: The language that the model was tuned on.
        typology: A CSV or TSV file with distances to the source: a column `language` and one column per kind. By
            default the distances are those of URIEL, if the package `urielplus` is installed.
        resamples: Number of permutations for each P-value.

    Raises:
        HeadwiseError: There is no such mask, or `resamples` is not a whole number of at least 1.
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
    """The correlation of the gains of languages with one trait.

    Attributes:
        trait: Name of the trait, such as `syntactic`.
        languages: Number of languages whose trait is known.
        rho: Spearman's rank correlation; None for fewer than 4 languages, or if all values are equal.
        low: Lower end of its 95% interval.
        high: Upper end of its 95% interval.
        p_value: Two-sided P-value of a permutation test.
    """

    trait: str
    languages: int
    rho: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None


@dataclass(frozen=True)
class CorrelatesStudy:
    """The results of a study of correlates.

    Attributes:
        folder: The run folder.
        targeted: The targeted study with the gains.
        mask: The mask whose gains are used.
        source: The language that the model was tuned on.
        traits: The traits of each other language, by name; None if unknown.
        correlates: The correlation of the gains with each trait.
        notes: Notes to print with the results.
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
        """The time of scoring in seconds, by language."""
        return self.targeted.seconds

    def tables(self) -> tuple[StudyTable, ...]:
        """The correlations, and the gains and traits of each language."""
        rows = tuple((each.trait, each.languages, each.rho, each.low, each.high, each.p_value)
                     for each in self.correlates)  # fmt: skip
        note = f"P: permutation test over the languages, separately for each trait, without {self.source}."
        title = f"rank correlation of the gain in {self.metric} by {self.mask} masks with each trait (Spearman)"
        first = StudyTable("correlates", title, ("trait", "languages", "rho", "low", "high", "P"), rows, note)
        gains, names = gain_of(self.targeted, self.mask), [each.trait for each in self.correlates]
        lines = tuple((name, gains[name], *(row[trait] for trait in names)) for name, row in self.traits.items())
        return first, StudyTable(
            "traits", f"gain, ranking likeness and distances to {self.source}", ("language", "gain", *names), lines
        )

    def sections(self) -> tuple[Section, ...]:
        """The correlations with a headline, and the sections of the targeted study."""
        correlations, *others = map(section_of, self.tables())
        gains = (dataclasses.replace(each, headline="") for each in self.targeted.sections())
        return (dataclasses.replace(correlations, headline=self._headline()), *others, *gains)

    def _headline(self) -> str:
        """The trait with the strongest correlation, and how many are significant."""
        known = [each for each in self.correlates if each.rho is not None and each.p_value is not None]
        if not known:
            return f"Too few languages have known traits to correlate them with the gain in {self.metric}."
        best = max(known, key=lambda each: abs(each.rho or 0))
        significant = sum((each.p_value or 0) < SIGNIFICANT for each in known)
        return (
            f"The gain in {self.metric} by {self.mask} masks correlates most with {best.trait}: Spearman’s ρ = "
            f"{signed(best.rho, 2)} (P = {probability(best.p_value or 0)}, {best.languages} languages). Of "
            f"{plural(len(known), 'trait')}, {significant or 'none'} "
            f"{'correlates' if significant < 2 else 'correlate'} significantly."
        )

    def to_dict(self) -> dict[str, Any]:
        """The results as plain data."""
        return {
            "format": FORMAT,
            "version": VERSION,
            # A relative path, so that both folders can be moved together.
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
    """Correlate the gains of a targeted study with traits of its languages.

    Args:
        plan: The plan.
        out: The run folder.
        progress: Called at the end.

    Raises:
        HeadwiseError: There is no finished targeted study, it has fewer than 4 languages other than the source, or no
            trait of them is known.
    """
    folder, start = Path(out), Path(plan.gains)
    targeted = load_targeted(start)
    asked = {name: value for name, value in read_config(start).items() if name in ("model", "task", "data", "seed")}
    # Before the folder is created, so that an error leaves no empty folder.
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
        HeadwiseError: There is none, it is not finished, or its targeted study is missing or another one.
    """
    with read_figures(folder, FIGURES, FORMAT, VERSION) as data:
        found = tuple(Correlate(**each) for each in data["correlates"])
        known = [number for each in found for number in dataclasses.astuple(each)[1:] if number is not None]
        check_numbers(*known, *(cell for row in data["traits"].values() for cell in row.values() if cell is not None))
        targeted = load_targeted(Path(os.path.normpath(folder / data["gains"])))
        if other := [code for code in data["traits"] if code not in targeted.languages]:
            raise HeadwiseError(
                f"{folder / FIGURES}: the study in {targeted.folder} is another one, it has no language {other[0]}: "
                "run the correlates again with a new --out"
            )
        return CorrelatesStudy(
            folder, targeted, data["mask"], data["source"], data["traits"], found, tuple(data["notes"])
        )


def gain_of(targeted: TargetedStudy, mask: str) -> dict[str, float]:
    """The gain of each language by a mask, in percentage points.

    Raises:
        HeadwiseError: A language has no such mask.
    """
    gains = {language: found.gain(mask) for language, found in targeted.languages.items()}
    if lacking := [language for language, gain in gains.items() if gain is None]:
        raise HeadwiseError(f"{targeted.folder}: {lacking[0]} has no {mask} mask: choose another 'mask'")
    return {language: gain for language, gain in gains.items() if gain is not None}


def find_traits(plan: CorrelatesPlan, targeted: TargetedStudy) -> tuple[Distances, tuple[str, ...]]:
    """The traits of every language except the source, and notes about missing traits."""
    languages = [language for language in targeted.languages if language != plan.source]
    if len(languages) < _FEWEST:
        raise HeadwiseError(
            f"'gains': {plan.gains} has {len(languages)} languages other than {plan.source}, but at least {_FEWEST} "
            "are needed: use a study of more languages"
        )
    if plan.typology is not None:
        distances: Distances | None = read_distances(Path(plan.typology), languages)
    else:
        distances = uriel_distances(plan.source, languages)
    likeness = _likeness(targeted.scores, plan.source, languages)
    if likeness is None and distances is None:
        raise HeadwiseError(f"'source': {plan.gains} has no scores of {plan.source}, and there are no distances to it: "
                            "give a file with distances as 'typology'")  # fmt: skip
    no_likeness = f"{LIKENESS.capitalize()} is left out: {plan.gains} has no scores of {plan.source}."
    notes = tuple(text for text, part in ((no_likeness, likeness), (_NO_URIEL, distances)) if part is None)
    parts = [part for part in (likeness, distances) if part is not None]
    return {name: {trait: value for part in parts for trait, value in part[name].items()} for name in languages}, notes


def _likeness(scores: Mapping[str, HeadScores], source: str, languages: Sequence[str]) -> Distances | None:
    """The rank correlation of the scores of each language and the source; None if the source has no scores."""
    if source not in scores:
        return None
    found = {name: scores[name].compare(scores[source]).correlation.rho for name in languages}
    return {name: {LIKENESS: None if math.isnan(rho) else rho} for name, rho in found.items()}


def correlate(
    gains: Mapping[str, float], traits: Mapping[str, Mapping[str, float | None]], resamples: int = 10_000
) -> tuple[Correlate, ...]:
    """Correlate gains with each trait, over the languages whose trait is known.

    Args:
        gains: The gain of each language.
        traits: The traits of each language, by name.
        resamples: Number of permutations for each P-value.

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
    """The kind `correlates`, which does not run the model."""

    name: str = "correlates"
    plan: type[Any] = CorrelatesPlan
    about: str = (
        "The gains of a targeted study are correlated with traits of the languages, such as their typological distance "
        "from the source language. No model is run."
    )

    def run(
        self,
        plan: CorrelatesPlan,
        out: str | os.PathLike[str],
        progress: Advance | None = None,
        make_engine: EngineFactory = LocalEngine,  # noqa: ARG002 - nothing is computed with a model
    ) -> CorrelatesStudy:
        """Run a plan."""
        return run_correlates(plan, out, progress)

    def load(self, folder: Path) -> CorrelatesStudy:
        """The finished study of a folder."""
        return load_correlates(folder)


CORRELATES = _CorrelatesKind()
