"""The results of studies that tune after pruning: tables, plots, and the claims of a paper."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headwise.report import Cloud, Curve, Section, curves_section, scatter_section
from headwise.report.html import element
from headwise.scores import HeadScores
from headwise.studies.claims import VERDICTS, Claim, claims_table, paragraph
from headwise.studies.study import check_numbers, read_figures
from headwise.studies.tables import Figure, StudyTable, TableCell, section_of

VERSION = 1
#: The paper of these studies.
PAPER = "Budhraja et al. (2021)"
CITATION = (
    "Budhraja, Pande, Kumar, Khapra (2021): On the Prunability of Attention Heads in Multilingual BERT. "
    "Numbers of the paper are for mBERT after 10 epochs of tuning."
)


@dataclass(frozen=True)
class CurvePlot:
    """Curves over the share of removed heads.

    Attributes:
        title: Title of the section.
        text: The text above the plots.
        curves: The curves; each `language` is a panel, each `ranking` a line.
    """

    title: str
    text: str
    curves: tuple[Curve, ...]


@dataclass(frozen=True)
class CloudPlot:
    """Clouds of points.

    Attributes:
        title: Title of the section.
        text: The text above the plots.
        clouds: The plots.
    """

    title: str
    text: str
    clouds: tuple[Cloud, ...]


@dataclass(frozen=True)
class TunedStudy:
    """The results of a study that tunes after pruning.

    Attributes:
        folder: The run folder.
        kind: Name of the kind of study.
        metric: The metric's name.
        results: The tables, the most important first.
        claims: The claims of the paper, and whether they hold.
        curves: Plots of curves.
        clouds: Plots of clouds.
        notes: Notes to print with the results.
    """

    folder: Path
    kind: str
    metric: str
    results: tuple[StudyTable, ...]
    claims: tuple[Claim, ...]
    curves: tuple[CurvePlot, ...] = ()
    clouds: tuple[CloudPlot, ...] = ()
    notes: tuple[str, ...] = ()
    scores: Mapping[str, HeadScores] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def paragraph(self) -> str:
        """Which claims hold here, in one paragraph."""
        return paragraph(self.claims, PAPER)

    def tables(self) -> tuple[StudyTable, ...]:
        """The tables of the results, and the claims with their paragraph as a note."""
        return (*self.results, dataclasses.replace(claims_table(self.claims), note=self.paragraph))

    def sections(self) -> tuple[Section, ...]:
        """The claims, the plots and the tables."""
        counts = ((verdict, sum(claim.verdict == verdict for claim in self.claims)) for verdict in VERDICTS)
        headline = f"Claims of {PAPER}: {', '.join(f'{count} {verdict}' for verdict, count in counts)}."
        return (
            Section("Which claims hold here", element("p", self.paragraph), headline),
            *(curves_section(each.curves, self.metric, "% of head", each.title, each.text) for each in self.curves),
            *(scatter_section(each.clouds, each.title, each.text) for each in self.clouds),
            *map(section_of, (*self.results, claims_table(self.claims))),
        )

    def to_dict(self) -> dict[str, Any]:
        """The results as plain data."""
        parts = {
            name: [dataclasses.asdict(each) for each in getattr(self, name)]
            for name in ("results", "claims", "curves", "clouds")
        }
        return {
            "format": _format(self.kind),
            "version": VERSION,
            "metric": self.metric,
            **parts,
            "paragraph": self.paragraph,
            "notes": list(self.notes),
        }


def load_tuned_study(folder: Path, kind: str) -> TunedStudy:
    """The finished study of a kind in a run folder.

    Raises:
        HeadwiseError: There is none, or it is not finished.
    """
    with read_figures(folder, f"{kind}.json", _format(kind), VERSION) as data:
        return TunedStudy(
            folder,
            kind,
            data["metric"],
            tuple(_table(each) for each in data["results"]),
            tuple(_claim(each) for each in data["claims"]),
            tuple(CurvePlot(each["title"], each["text"], _curves(each["curves"])) for each in data["curves"]),
            tuple(CloudPlot(each["title"], each["text"], _clouds(each["clouds"])) for each in data["clouds"]),
            tuple(data["notes"]),
        )


def _format(kind: str) -> str:
    return f"headwise-{kind}-study"


def _table(data: Mapping[str, Any]) -> StudyTable:
    rows = tuple(tuple(_cell(cell) for cell in row) for row in data["rows"])
    return StudyTable(**{**data, "columns": tuple(data["columns"]), "rows": rows})


def _cell(data: Any) -> TableCell:
    if isinstance(data, dict):
        check_numbers(*(data[name] for name in ("value", "difference", "p_value", "spread") if data[name] is not None))
        return Figure(**data)
    if data is not None and not isinstance(data, str):
        check_numbers(data)
    found: TableCell = data
    return found


def _claim(data: Mapping[str, Any]) -> Claim:
    claim = Claim(**data)
    if claim.verdict not in VERDICTS:
        raise ValueError(f"{claim.verdict!r} is not one of {', '.join(VERDICTS)}")
    return claim


def _curves(data: Any) -> tuple[Curve, ...]:
    points = ("removed", "value", "low", "high")
    check_numbers(*(number for each in data for name in points for number in each[name]))
    return tuple(Curve(each["language"], each["ranking"], *(tuple(each[name]) for name in points)) for each in data)


def _clouds(data: Any) -> tuple[Cloud, ...]:
    check_numbers(
        *(number for each in data for group in each["groups"].values() for point in group for number in point)
    )
    return tuple(
        Cloud(each["title"], {name: tuple((x, y) for x, y in group) for name, group in each["groups"].items()})
        for each in data
    )
