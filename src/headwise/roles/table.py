"""The statistics of all heads in all languages, as one tidy table."""

import csv
import io
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.errors import HeadwiseError
from headwise.files import read_json, write_bytes
from headwise.roles.statistics.base import Column
from headwise.scores import number
from headwise.support.display import html_table, text_table
from headwise.support.extras import require

Array = NDArray[np.float64]
FORMAT = "headwise-roles"
VERSION = 1
#: Level of the intervals.
CONFIDENCE = 0.95
#: The columns of the table.
FIELDS = ("head", "language", "statistic", "value", "stderr", "low", "high", "count", "examples", "baseline")


@dataclass(frozen=True, eq=False)
class LanguageRoles:
    """The statistics of all heads in one language.

    Attributes:
        heads: Names of the heads.
        columns: The statistics.
        value: Their values, (heads, columns); NaN where a statistic is not defined.
        stderr: Standard errors, with examples as samples, (heads, columns).
        count: Number of tokens, words or sentences that each value is a mean of, (heads, columns).
        examples: Number of examples.
        cut: Number of examples that were cut to the maximum length.
        units: Cost, in passes of one example through the model.
    """

    heads: tuple[str, ...]
    columns: tuple[Column, ...]
    value: Array
    stderr: Array
    count: NDArray[np.int64]
    examples: int
    cut: int
    units: float

    def place(self, statistic: str) -> int | None:
        """The number of the column of a statistic; None if it was not measured."""
        return next((place for place, column in enumerate(self.columns) if column.name == statistic), None)

    def __getitem__(self, statistic: str) -> Array:
        """The values of a statistic, (heads,).

        Raises:
            KeyError: It was not measured.
        """
        place = self.place(statistic)
        if place is None:
            raise KeyError(f"there is no statistic {statistic!r}: there are {', '.join(c.name for c in self.columns)}")
        found: Array = self.value[:, place]
        return found

    def intervals(self) -> tuple[Array, Array]:
        """The lower and upper ends of the intervals of all values, (heads, columns) each."""
        shares = np.array([column.share for column in self.columns], dtype=bool)
        z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
        low, high = self.value - z * self.stderr, self.value + z * self.stderr
        within = wilson(self.value, self.stderr, np.minimum(self.count, self.examples), z)
        return np.where(shares, within[0], low), np.where(shares, within[1], high)


def wilson(share: Array, stderr: Array, samples: NDArray[Any], z: float) -> tuple[Array, Array]:
    """Wilson's interval of a share, with the number of samples that a standard error corresponds to.

    That number is `p·(1 − p) / stderr²`. Where the standard error is 0 because all samples agree, it is `samples`.

    Args:
        share: The shares.
        stderr: Their standard errors.
        samples: Number of independent samples, where the standard error is 0.
        z: Quantile of the normal distribution.

    Example:
        >>> low, high = wilson(np.array([0.5, 1.0]), np.array([0.05, 0.0]), np.array([100, 100]), 1.96)
        >>> low.round(3), high.round(3)
        (array([0.404, 0.963]), array([0.596, 1.   ]))
    """
    share = share.clip(0, 1)  # sums of weights may exceed 1 by rounding
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where(stderr > 1e-12, share * (1 - share) / stderr**2, samples)
        centre = (share + z**2 / (2 * size)) / (1 + z**2 / size)
        half = z / (1 + z**2 / size) * np.sqrt(share * (1 - share) / size + z**2 / (4 * size**2))
    missing = np.isnan(share) | np.isnan(stderr)
    return np.where(missing, np.nan, (centre - half).clip(0, 1)), np.where(missing, np.nan, (centre + half).clip(0, 1))


@dataclass(frozen=True, eq=False)
class HeadRoles(Mapping[str, LanguageRoles]):
    """The statistics of all heads in every language: `roles["de"]["previous"]`.

    Attributes:
        languages: The statistics of each language.
        about: Model, data and versions that they come from.

    Example:
        >>> column = Column("previous")
        >>> one = LanguageRoles(("encoder.0.0",), (column,), np.array([[0.5]]), np.array([[0.05]]), np.array([[400]]),
        ...                     100, 0, 100.0)
        >>> roles = HeadRoles({"de": one}, {"model": "tiny"})
        >>> row = next(roles.rows())
        >>> row["head"], row["statistic"], row["value"], round(row["low"], 3), round(row["high"], 3)
        ('encoder.0.0', 'previous', 0.5, 0.404, 0.596)
    """

    languages: Mapping[str, LanguageRoles]
    about: Mapping[str, Any]

    def __getitem__(self, language: str) -> LanguageRoles:
        if language not in self.languages:
            raise KeyError(f"there is no language {language!r}: there are {', '.join(self.languages)}")
        return self.languages[language]

    def __iter__(self) -> Iterator[str]:
        return iter(self.languages)

    def __len__(self) -> int:
        return len(self.languages)

    @property
    def heads(self) -> tuple[str, ...]:
        """Names of the heads."""
        return next(iter(self.languages.values())).heads

    def rows(self) -> Iterator[dict[str, Any]]:
        """The table, a row for each head, language and statistic that is defined, with the columns `FIELDS`."""
        for language, found in self.languages.items():
            low, high = found.intervals()
            for place, column in enumerate(found.columns):
                for head in np.flatnonzero(found.count[:, place]):
                    numbers = (float(each[head, place]) for each in (found.value, found.stderr, low, high))
                    cells = (found.heads[head], language, column.name, *numbers, int(found.count[head, place]))
                    yield dict(zip(FIELDS, (*cells, found.examples, column.baseline), strict=True))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table as `.parquet`, `.csv` or `.json`, by the ending of the name.

        Raises:
            HeadwiseError: The ending is another one, or the file cannot be written.
        """
        match Path(path).suffix:
            case ".json":
                content = json.dumps(self._to_dict(), ensure_ascii=False).encode()
            case ".csv":
                content = self._csv()
            case ".parquet":
                content = self._parquet()
            case other:
                raise HeadwiseError(f"{path}: the ending {other!r} is not a format of roles: use .parquet, .csv, .json")
        write_bytes(path, content)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "HeadRoles":
        """Read what `save` wrote as `.json`.

        Raises:
            HeadwiseError: There is no such file, or it has another content.
        """
        return cls._from_dict(read_json(path, FORMAT, VERSION))

    def _to_dict(self) -> dict[str, Any]:
        languages = {
            language: {
                "examples": found.examples, "cut": found.cut, "units": found.units,
                "columns": [[column.name, column.share, number(column.baseline)] for column in found.columns],
                **{name: [[number(cell) for cell in row] for row in getattr(found, name)] for name in _ARRAYS},
            }
            for language, found in self.languages.items()
        }  # fmt: skip
        return {
            "format": FORMAT, "version": VERSION, "about": dict(self.about), "heads": self.heads, "languages": languages
        }  # fmt: skip

    @classmethod
    def _from_dict(cls, data: Mapping[str, Any]) -> "HeadRoles":
        heads = tuple(data["heads"])
        languages = {}
        for language, each in data["languages"].items():
            columns = tuple(Column(name, share, _number(baseline)) for name, share, baseline in each["columns"])
            arrays = {
                name: np.array([[_number(cell) for cell in row] for row in each[name]]).reshape(len(heads), -1)
                for name in _ARRAYS
            }
            arrays["count"] = arrays["count"].astype(np.int64)
            languages[language] = LanguageRoles(
                heads, columns, **arrays, examples=each["examples"], cut=each["cut"], units=each["units"]
            )
        return cls(languages, data["about"])

    def _csv(self) -> bytes:
        text = io.StringIO()
        writer = csv.DictWriter(text, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: "" if cell != cell else cell for name, cell in row.items()} for row in self.rows())
        return text.getvalue().encode()

    def _parquet(self) -> bytes:
        purpose = "a table of roles (parquet)"
        arrow, parquet = require("pyarrow", "cli", purpose), require("pyarrow.parquet", "cli", purpose)
        rows = list(self.rows())
        data = {name: [row[name] for row in rows] for name in FIELDS}
        about = json.dumps({"format": FORMAT, "version": VERSION, "about": dict(self.about)})
        table = arrow.table(data).replace_schema_metadata({b"headwise": about.encode()})
        sink = arrow.BufferOutputStream()
        parquet.write_table(table, sink)
        found: bytes = sink.getvalue().to_pybytes()
        return found

    def __repr__(self) -> str:
        return text_table(*self.summary())

    def _repr_html_(self) -> str:
        return html_table(*self.summary())

    def summary(self) -> tuple[list[str], list[list[str]]]:
        """The number of heads of each role in each language; empty where its statistics were not measured."""
        from headwise.roles.labels import ROLES, label_heads

        labels = label_heads(self)
        rows = [
            [language, *(str(len({x.head for x in labels if (x.language, x.role) == (language, role.name)}))
                         if role.measured_in(self[language]) else "" for role in ROLES), str(self[language].examples)]
            for language in self
        ]  # fmt: skip
        return ["language", *(role.name for role in ROLES), "examples"], rows


_ARRAYS = ("value", "stderr", "count")


def _number(value: float | str | None) -> float:
    return float("nan") if value is None else float(value)
