"""What every study returns: tables, sections of the report, and its figures as plain data."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from headwise.errors import HeadwiseError
from headwise.files import read_json
from headwise.report import Section
from headwise.scores import HeadScores
from headwise.studies.tables import StudyTable

#: The types of the figures that all studies share.
_TYPES: Mapping[str, type] = {"metric": str, "languages": dict, "seconds": dict, "notes": list}


class Study(Protocol):
    """What a study found."""

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
        """The time that scoring took, by language."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes that must be stated with the results."""

    def tables(self) -> tuple[StudyTable, ...]:
        """Its tables, the most important first."""

    def sections(self) -> tuple[Section, ...]:
        """Its own sections of the report."""

    def to_dict(self) -> dict[str, Any]:
        """Its figures as plain data that JSON can hold."""


@contextmanager
def read_figures(folder: Path, name: str, form: str, version: int) -> Iterator[dict[str, Any]]:
    """Read the figures of a finished study; a mistake in them that the body finds is an error that names the file.

    Raises:
        HeadwiseError: There are none, or something in them is missing or is not what it should be.
    """
    if not (folder / name).is_file():
        raise HeadwiseError(f"{folder}: no finished study there: run headwise study with --out {folder} to the end")
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
    """Make sure that what was read as figures are numbers.

    Example:
        >>> check_numbers(1, 2.5, "3")
        Traceback (most recent call last):
        TypeError: '3' is not a number
    """
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{value!r} is not a number")
