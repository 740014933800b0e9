"""The result of every study: tables, sections of the report, and plain data."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from headwise.errors import HeadwiseError
from headwise.files import read_json
from headwise.report import Section
from headwise.scores import HeadScores
from headwise.studies.tables import StudyTable

#: Types of the fields that all studies have in common.
_TYPES: Mapping[str, type] = {"metric": str, "languages": dict, "seconds": dict, "notes": list}


class Study(Protocol):
    """The results of a study."""

    @property
    def folder(self) -> Path:
        """The run folder."""

    @property
    def metric(self) -> str:
        """The metric's name."""

    @property
    def scores(self) -> Mapping[str, HeadScores]:
        """The scores of each language."""

    @property
    def seconds(self) -> Mapping[str, float]:
        """The time of scoring, by language."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes to print with the results."""

    def tables(self) -> tuple[StudyTable, ...]:
        """The tables, the most important first."""

    def sections(self) -> tuple[Section, ...]:
        """The sections of the report that are specific to the study."""

    def to_dict(self) -> dict[str, Any]:
        """The results as plain data for JSON."""


@contextmanager
def read_figures(folder: Path, name: str, form: str, version: int) -> Iterator[dict[str, Any]]:
    """Read the results of a finished study; errors in the body of the `with` statement name the file.

    Raises:
        HeadwiseError: There is no finished study, or its file is incomplete or has values of a wrong type.
    """
    if not (folder / name).is_file():
        raise HeadwiseError(f"{folder}: there is no finished study: run headwise study with --out {folder} to the end")
    data = read_json(folder / name, form, version)
    try:
        for key, kind in _TYPES.items():
            if not isinstance(data.get(key, kind()), kind):
                raise TypeError(f"{key!r} is {data[key]!r}")
        check_numbers(*data.get("seconds", {}).values())
        yield data
    except HeadwiseError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise HeadwiseError(f"{folder / name}: not complete: {error!r}: run the study again") from None


def check_numbers(*values: Any) -> None:
    """Raise an error if a value is not a number.

    Example:
        >>> check_numbers(1, 2.5, "3")
        Traceback (most recent call last):
        TypeError: '3' is not a number
    """
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{value!r} is not a number")
