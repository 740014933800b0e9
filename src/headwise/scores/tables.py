"""Scores as one parquet table, for pandas, DuckDB and spreadsheets: a row for each player and language."""

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headwise.errors import HeadwiseError
from headwise.files import write_bytes
from headwise.scores import FORMAT, VERSION, HeadScores
from headwise.support.extras import require

#: Columns that are read back. The first column, `language`, repeats the metadata and is only for human readers.
_COLUMNS = ("player", "value", "stderr", "count", "decision")
#: Columns that tables with shrunk values have.
_SHRUNK = ("shrunk", "shrunk_error")
_KEY = b"headwise"


def save_table(scores: Sequence[HeadScores], path: str | os.PathLike[str]) -> None:
    """Write scores into one parquet file, atomically; their provenance is in its metadata.

    Args:
        scores: The sets of scores, in the order of the rows.
        path: The file.

    Raises:
        HeadwiseError: The package pyarrow is missing, or the file cannot be written.

    Example:
        >>> from headwise.scores import Provenance
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> scores = HeadScores(("encoder.0.0", "encoder.0.1"), (0.5, -0.25), (0.1, 0.1), (9, 9),
        ...                     ("helpful", "harmful"), Provenance("stars", "full", language="zh"))
        >>> save_table([scores], Path(folder.name) / "scores.parquet")
        >>> load_table(Path(folder.name) / "scores.parquet") == (scores,)
        True
        >>> folder.cleanup()
    """
    arrow, parquet = _pyarrow()
    data: dict[str, list[Any]] = {
        "language": [each.provenance.language for each in scores for _ in each.players],
        "player": [name for each in scores for name in each.players],
        "value": [float(value) for each in scores for value in each.value],
        "stderr": [float(error) for each in scores for error in each.stderr],
        "count": [int(count) for each in scores for count in each.count],
        "decision": [decision for each in scores for decision in each.decision],
    }
    types = [arrow.string(), arrow.string(), arrow.float64(), arrow.float64(), arrow.int64(), arrow.string()]
    if all(each.shrunk for each in scores):
        data |= {name: [float(value) for each in scores for value in getattr(each, name)] for name in _SHRUNK}
        types += [arrow.float64()] * len(_SHRUNK)
    sets = [
        {"players": each.kind, "rows": len(each.players), "provenance": dataclasses.asdict(each.provenance)}
        for each in scores
    ]
    about = json.dumps({"format": FORMAT, "version": VERSION, "scores": sets})
    schema = arrow.schema(list(zip(data, types, strict=True)), metadata={_KEY: about.encode()})
    sink = arrow.BufferOutputStream()
    parquet.write_table(arrow.table(data, schema=schema), sink)
    write_bytes(path, sink.getvalue().to_pybytes())


def load_table(path: str | os.PathLike[str]) -> tuple[HeadScores, ...]:
    """Read the scores that `save_table` wrote.

    Raises:
        HeadwiseError: The file is missing or not a table of scores, or the package pyarrow is missing.
    """
    arrow, parquet = _pyarrow()
    try:
        table = parquet.read_table(arrow.BufferReader(Path(path).read_bytes()))
        about = dict(json.loads((table.schema.metadata or {})[_KEY]))
    except FileNotFoundError:
        raise HeadwiseError(f"{path}: no such file") from None
    except OSError as error:
        raise HeadwiseError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from None
    except (arrow.ArrowException, KeyError, TypeError, ValueError, RecursionError):
        raise HeadwiseError(f"{path}: not a table of scores: read one that headwise wrote") from None
    if (about.get("format"), about.get("version")) != (FORMAT, VERSION):
        raise HeadwiseError(f"{path}: version {about.get('version')} of {about.get('format')}: this reads {VERSION}")
    try:
        columns = [*_COLUMNS, *(name for name in _SHRUNK if name in table.column_names)]
        return _sets(table.select(columns).to_pylist(), about["scores"])
    except (arrow.ArrowException, KeyError, TypeError, ValueError, OverflowError) as error:
        raise HeadwiseError(f"{path}: not a complete table of scores: {error!r}") from None


def _sets(rows: list[dict[str, Any]], about: list[dict[str, Any]]) -> tuple[HeadScores, ...]:
    """Split the rows into sets of scores."""
    if sum(each["rows"] for each in about) != len(rows):
        raise ValueError(f"{len(rows)} rows")
    found, start = [], 0
    for each in about:
        found.append(HeadScores.from_dict({**each, "rows": rows[start : start + each["rows"]]}))
        start += each["rows"]
    return tuple(found)


def _pyarrow() -> tuple[Any, Any]:
    """The modules `pyarrow` and `pyarrow.parquet`.

    Raises:
        HeadwiseError: It is missing.
    """
    purpose = "a table of scores (parquet)"
    return require("pyarrow", "cli", purpose), require("pyarrow.parquet", "cli", purpose)
