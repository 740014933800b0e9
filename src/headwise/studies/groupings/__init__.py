"""Groups of languages by word order and by resources: those of a paper, and those of a table of typology."""

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwise.errors import HeadwiseError

#: The groups of the languages of XNLI in Budhraja et al. (2021); the file has the citation.
PAPER_FILE = Path(__file__).with_name("budhraja-2021.tsv")
WORD_ORDER, RESOURCES = "word order", "resources"
#: The paper orders its classes: the later, the less like English, or the less text in pre-training.
_PAPER_ORDER = {WORD_ORDER: ("SVO", "SOV", "VSO", "Agglutinative"), RESOURCES: ("high", "medium", "low")}
#: The columns of a table of typology.
_COLUMNS = {WORD_ORDER: "word_order_81A", RESOURCES: "resource_level"}


@dataclass(frozen=True)
class Grouping:
    """Classes of languages.

    Attributes:
        source: Where the classes come from, such as `paper`.
        kind: `word order` or `resources`.
        classes: The class of each language; languages without a known class are missing.
        order: All classes, in the order of tables.
        ordinal: Whether the order of the classes is one of growing distance. Otherwise the classes only differ from the
            first one.

    Example:
        >>> found = Grouping("paper", "word order", {"de": "SVO", "ar": "VSO"}, ("SVO", "SOV", "VSO"))
        >>> found.distance("de"), found.distance("ar"), found.members("VSO", ["en", "ar"])
        (0, 2, ('ar',))
    """

    source: str
    kind: str
    classes: Mapping[str, str]
    order: tuple[str, ...]
    ordinal: bool = True

    @property
    def title(self) -> str:
        """The kind and the source."""
        return f"{self.kind} ({self.source})"

    def members(self, name: str, languages: Iterable[str]) -> tuple[str, ...]:
        """The languages of a class."""
        return tuple(language for language in languages if self.classes.get(language) == name)

    def distance(self, language: str) -> int | None:
        """The place of the language's class in the order; 0 or 1 if the order is not one of distance."""
        name = self.classes.get(language)
        if name is None:
            return None
        place = self.order.index(name)
        return place if self.ordinal else min(place, 1)


def paper_groupings(languages: Sequence[str]) -> tuple[Grouping, ...]:
    """The groups of Budhraja et al. (2021), by word order and by resources.

    Example:
        >>> order, resources = paper_groupings(["el", "sw", "fr"])
        >>> dict(order.classes), dict(resources.classes)
        ({'el': 'SOV', 'sw': 'Agglutinative'}, {'el': 'low', 'sw': 'low'})
    """
    lines = [line for line in PAPER_FILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    rows = {row["language"]: row for row in csv.DictReader(lines, delimiter="\t")}
    return tuple(
        Grouping("paper", kind, _classes(rows, kind, languages), order) for kind, order in _PAPER_ORDER.items()
    )


def typology_groupings(path: Path, languages: Sequence[str], source: str) -> tuple[Grouping, ...]:
    """The groups of a table of typology, by word order (WALS, feature 81A) and by resource level.

    Word orders have no order among each other: the one of the source language comes first, and the others are different
    from it.

    Args:
        path: A TSV file with the columns `code`, `word_order_81A` and `resource_level`; empty cells are unknown.
        languages: The languages.
        source: The language that models are tuned on.

    Raises:
        HeadwiseError: The file cannot be read, a column is missing, or it has none of the languages.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise HeadwiseError(f"{path}: 'typology' cannot be read: {error}") from None
    reader = csv.DictReader(lines, delimiter="\t")
    if missing := [name for name in ("code", *_COLUMNS.values()) if name not in (reader.fieldnames or ())]:
        raise HeadwiseError(f"{path}: 'typology' has no column {missing[0]!r}: add it to the first line")
    rows = {row["code"]: row for row in reader}
    if not any(_row(rows, language) for language in languages):
        raise HeadwiseError(f"{path}: has none of the languages {', '.join(languages)}: add a row for each")
    orders = _classes(rows, _COLUMNS[WORD_ORDER], languages)
    own = _classes(rows, _COLUMNS[WORD_ORDER], [source]).get(source)
    names = sorted(set(orders.values()), key=lambda name: (name != own, name))
    levels = _classes(rows, _COLUMNS[RESOURCES], languages)
    return (
        Grouping("typology", WORD_ORDER, orders, tuple(names), ordinal=False),
        Grouping("typology", RESOURCES, levels, _PAPER_ORDER[RESOURCES]),
    )


def _classes(rows: Mapping[str, Mapping[str, str]], column: str, languages: Iterable[str]) -> dict[str, str]:
    """The class of each language that has one."""
    found = {language: _row(rows, language).get(column) or "" for language in languages}
    return {language: name.strip() for language, name in found.items() if name.strip()}


def _row(rows: Mapping[str, Mapping[str, str]], language: str) -> Mapping[str, str]:
    """The row of a language: its own, or that of its code without treebank or country."""
    return rows.get(language) or rows.get(re.split("[_-]", language)[0].lower()) or {}
