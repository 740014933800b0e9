"""The results of studies that tune after pruning: tables, plots, and the claims of a paper."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headwise.report import Cloud, Curve, Section
from headwise.scores import HeadScores
from headwise.scoring.run_folder import SCORING, load_scores
from headwise.studies.claims import VERDICTS, Claim, claims_sections, claims_table, paragraph
from headwise.studies.plots import CloudPlot, CurvePlot, Plot
from headwise.studies.study import check_numbers, read_figures
from headwise.studies.tables import Figure, StudyTable, TableCell, section_of

VERSION = 1
#: The paper of most of these studies.
PAPER = "Budhraja et al. (2021)"
CITATION = (
    "Budhraja, Pande, Kumar, Khapra (2021): On the Prunability of Attention Heads in Multilingual BERT. "
    "Numbers of the paper are for mBERT after 10 epochs of tuning."
)


@dataclass(frozen=True)
class TunedStudy:
    """The results of a study that tunes after pruning.

    Attributes:
        folder: The run folder.
        kind: Name of the kind of study.
        metric: The metric's name.
        results: The tables, the most important first.
        claims: The claims, and whether they hold.
        curves: Plots of curves.
        clouds: Plots of clouds.
        notes: Notes to print with the results.
        paper: What makes the claims: a paper, or the study itself.
        scores: The scores of the heads by language, if heads are ranked.
        seconds: The time of scoring, by language.
    """

    folder: Path
    kind: str
    metric: str
    results: tuple[StudyTable, ...]
    claims: tuple[Claim, ...]
    curves: tuple[CurvePlot, ...] = ()
    clouds: tuple[CloudPlot, ...] = ()
    notes: tuple[str, ...] = ()
    paper: str = PAPER
    scores: Mapping[str, HeadScores] = field(default_factory=dict, compare=False)
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def paragraph(self) -> str:
        """Which claims hold here, in one paragraph."""
        return paragraph(self.claims, self.paper)

    def tables(self) -> tuple[StudyTable, ...]:
        """The tables of the results, and the claims with their paragraph as a note."""
        return (*self.results, dataclasses.replace(claims_table(self.claims, self.paper), note=self.paragraph))

    def plots(self) -> tuple[Plot, ...]:
        """The curves and the clouds."""
        return (*self.curves, *self.clouds)

    def sections(self) -> tuple[Section, ...]:
        """The curves, the claims, the clouds and the tables."""
        return (
            *(each.section(self.metric) for each in self.curves),
            *claims_sections(self.claims, self.paper),
            *(each.section(self.metric) for each in self.clouds),
            *(section_of(table) for table in self.results if table.printed),
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
            "paper": self.paper,
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
            tuple(CurvePlot(**{**each, "curves": _curves(each["curves"])}) for each in data["curves"]),
            tuple(CloudPlot(each["title"], each["text"], _clouds(each["clouds"])) for each in data["clouds"]),
            tuple(data["notes"]),
            data.get("paper", PAPER),
            load_rankings(folder),
        )


def load_rankings(folder: Path) -> dict[str, HeadScores]:
    """The scores by language of all rankings in a run folder; those of the plan's own method first, if it has them."""
    found: dict[str, HeadScores] = {}
    for path in sorted(folder.glob(f"{SCORING}*")):  # the shortest name is the first
        found = {**load_scores(path), **found}
    return found


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
