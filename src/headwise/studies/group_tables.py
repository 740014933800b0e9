"""Relative drops by group of languages: tables and curves."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headwise.report import Curve
from headwise.studies.claims import mean_of
from headwise.studies.groupings import Grouping, paper_groupings, typology_groupings
from headwise.studies.resampled import Array, Resampled, relative_drops
from headwise.studies.tables import Figure, StudyTable, TableCell
from headwise.studies.tuned_plan import GroupedPlan
from headwise.studies.work import Work

IN_LANGUAGE, CROSS_LANGUAGE = "in-language", "cross-language"
#: The table of typology in a data folder.
_TYPOLOGY = Path("typology", "languages.tsv")


@dataclass(frozen=True)
class Groups:
    """All groups of the measured languages.

    Attributes:
        languages: The languages.
        inside: Those that the models are tuned on.
        groupings: The groupings, those of the paper first.
        notes: What is missing.
    """

    languages: tuple[str, ...]
    inside: tuple[str, ...]
    groupings: tuple[Grouping, ...]
    notes: tuple[str, ...] = ()

    @property
    def across(self) -> tuple[str, ...]:
        """The languages that the models are not tuned on."""
        return tuple(language for language in self.languages if language not in self.inside)

    def of(self, source: str) -> tuple[Grouping, ...]:
        """The groupings of a source."""
        return tuple(each for each in self.groupings if each.source == source)

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources of groupings."""
        return tuple(dict.fromkeys(each.source for each in self.groupings))

    def members(self, source: str) -> dict[str, tuple[str, ...]]:
        """The languages of every column of a table: the classes of a source, in-language and cross-language."""
        found = {
            name: members
            for grouping in self.of(source)
            for name in grouping.order
            if (members := grouping.members(name, self.languages))
        }
        both = {IN_LANGUAGE: self.inside, CROSS_LANGUAGE: self.across}
        return {**found, **{name: members for name, members in both.items() if members}}


def prepare(plan: GroupedPlan, work: Work) -> Groups:
    """The groups of the languages of a study, before anything is tuned: a table of typology may be missing."""
    return find_groups(plan, plan.languages(work))


def find_groups(plan: GroupedPlan, languages: Sequence[str]) -> Groups:
    """The groups of the measured languages.

    Args:
        plan: The plan, which names the languages that models are tuned on, and may name a table of typology.
        languages: The languages that are measured.

    Raises:
        HeadwiseError: The table of typology cannot be read.
    """
    codes = {_plain(code) for code in plan.trained}
    inside = tuple(language for language in languages if _plain(language) in codes)
    path = Path(plan.scoring.data) / _TYPOLOGY if plan.typology is None else Path(plan.typology)
    groupings = paper_groupings(languages)
    if plan.typology is None and not path.is_file():
        note = f"The groups of a typology table are left out: there is no {path}; give a file as 'typology'."
        return Groups(tuple(languages), inside, groupings, (note,))
    return Groups(tuple(languages), inside, (*groupings, *typology_groupings(path, languages, _plain(plan.trained[0]))))


def _plain(language: str) -> str:
    return re.split("[_-]", language)[0].lower()


def drop_table(name: str, title: str, found: Resampled, groups: Groups, source: str) -> StudyTable:
    """Relative drops of every condition, by the classes of a source, in-language and cross-language."""
    columns = groups.members(source)
    rows = tuple(
        (condition, *(_number(group_drop(found.mean, found, members, condition)) for members in columns.values()))
        for condition in found.conditions
    )
    text = "; ".join(f"{column}: {', '.join(members)}" for column, members in columns.items())
    note = f"Loss relative to the whole model, in percent, mean over languages and draws. {text}."
    return StudyTable(name, f"{title}, groups of the {source}", ("removed", *columns), rows, note)


def group_drop(values: Array, found: Resampled, languages: Sequence[str], condition: str) -> Array:
    """The relative drop under a condition, mean over languages; values are (..., languages, conditions)."""
    drops = relative_drops(values)[..., found.place(condition)]
    return mean_of(drops, found.language_places(languages))


def value_table(name: str, found: Resampled, metric: str) -> StudyTable:
    """The metric of every language under every condition, with the standard deviation over draws."""
    several = found.values.shape[-1] > 1
    spreads = found.values.std(-1, ddof=1) if several else np.zeros(found.mean.shape)
    rows: tuple[tuple[TableCell, ...], ...] = tuple(
        (
            language,
            *(Figure(float(value), spread=float(spread) if several else None)
              for value, spread in zip(found.mean[place], spreads[place], strict=True)),
        )
        for place, language in enumerate(found.languages)
    )  # fmt: skip
    note = "Mean ± standard deviation over draws." if several else ""
    return StudyTable(name, f"{metric} of every language", ("language", *found.conditions), rows, note)


def drop_curves(found: Resampled, percents: Sequence[int], groups: Groups) -> tuple[Curve, ...]:
    """Curves of the relative drop over the share of removed heads, with 95% intervals; one panel per grouping."""
    panels = {
        each.title: {name: each.members(name, groups.languages) for name in each.order} for each in groups.groupings
    }
    panels["transfer"] = {IN_LANGUAGE: groups.inside, CROSS_LANGUAGE: groups.across}
    return tuple(
        _curve(found, percents, panel, name, languages)
        for panel, lines in panels.items()
        for name, languages in lines.items()
        if languages
    )


def _curve(found: Resampled, percents: Sequence[int], panel: str, name: str, languages: Sequence[str]) -> Curve:
    places = found.language_places(languages)
    value = mean_of(relative_drops(found.mean), places, axis=-2)  # (conditions,)
    drawn = mean_of(relative_drops(found.drawn), places, axis=-2)  # (resamples, conditions)
    low, high = np.nan_to_num(np.quantile(drawn, [0.025, 0.975], axis=0))
    points = (tuple(np.nan_to_num(each).tolist()) for each in (value, low, high))
    return Curve(panel, name, tuple(percents), *points)


def _number(value: Array) -> TableCell:
    number = float(value)
    return number if math.isfinite(number) else None
