"""Results by language, shown as a table in a notebook and in a terminal."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headwise.engine.evaluation import Measurement
from headwise.means import MeanOutputs
from headwise.scores import HeadScores
from headwise.scores.rules import tells_likely
from headwise.scoring import ScoringPlan, Setting
from headwise.support.display import html_table, text_table


class LanguageResults(Mapping[str, Any]):
    """Results by language, shown as a table.

    Args:
        found: The result of each language.
        columns: The names of the table's columns.
        rows: The rows of the table.

    Example:
        >>> LanguageResults({"de": 88.7}, ("language", "accuracy"), [("de", "88.7")])
        language  accuracy
        de            88.7
    """

    def __init__(self, found: Mapping[str, Any], columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self._found, self._columns, self._rows = dict(found), columns, rows

    def __getitem__(self, language: str) -> Any:
        if language not in self._found:
            raise KeyError(f"there is no language {language!r}: there are {', '.join(self._found)}")
        return self._found[language]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        return text_table(self._columns, self._rows)

    def _repr_html_(self) -> str:
        return html_table(self._columns, self._rows)


class ScoresByLanguage(LanguageResults):
    """The scores of each language, with the model and data that they belong to, so that masks can be refined.

    Args:
        found: The scores of each language.
        setting: The model and the data.
        plan: How they were scored.
        means: The mean outputs of each language, if they were the baseline.
        folder: The run folder; None if nothing is kept on disk.
    """

    def __init__(
        self,
        found: Mapping[str, HeadScores],
        setting: Setting,
        plan: ScoringPlan,
        means: Mapping[str, MeanOutputs] | None = None,
        folder: Path | None = None,
    ) -> None:
        rows = [
            [language, *(str(len(scores.decided(each))) for each in ("harmful", "helpful", "undecided")),
             str(len(scores.mask("likely").off)) if tells_likely(scores) else "", f"{scores.provenance.units:,.0f}"]
            for language, scores in found.items()
        ]  # fmt: skip
        super().__init__(found, ("language", "harmful", "helpful", "undecided", "likely harmful", "units"), rows)
        self.setting, self.plan, self.means, self.folder = setting, plan, dict(means or {}), folder


def evaluation_table(found: Mapping[str, Measurement]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of a table of evaluations by language."""
    metrics = [result.metric for result in next(iter(found.values())).results]
    columns = ["language", *(column for metric in metrics for column in (metric, "95% interval")), "examples"]
    rows = [
        [language, *(cell for r in each.results for cell in (f"{r.value:.2f}", f"{r.low:.2f} to {r.high:.2f}")),
         str(each.results[0].examples)]
        for language, each in found.items()
    ]  # fmt: skip
    return columns, rows
