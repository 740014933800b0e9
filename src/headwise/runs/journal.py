"""The journal of a run: an SQLite file of rounds, each recorded completely or not at all."""

import io
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from headwise.errors import HeadwiseError

#: "HEDW": distinguishes journals from other SQLite files.
_APPLICATION = 0x48454457
#: Version 1 stored arrays as .npz files, which can still be read.
_VERSION = 2
_SCHEMA = f"""
BEGIN IMMEDIATE;
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_VERSION};
CREATE TABLE rounds (
    seed INTEGER NOT NULL,
    stream TEXT NOT NULL,
    number INTEGER NOT NULL,
    first_draw INTEGER NOT NULL,
    draws INTEGER NOT NULL,
    arrays BLOB NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (stream, seed, number)
);
COMMIT;
"""
_INSERT = "INSERT INTO rounds VALUES (?, ?, ?, ?, ?, ?, ?)"


@dataclass(frozen=True, eq=False)
class Round:
    """The results of one round of a stream.

    Attributes:
        stream: What the round belongs to, such as a language.
        number: Its position in the stream, from 0.
        first_draw: Index of its first draw.
        draws: Number of draws.
        arrays: The recorded arrays, by name.
        seed: Seed of the run that it comes from.
    """

    stream: str
    number: int
    first_draw: int
    draws: int
    arrays: Mapping[str, NDArray[Any]]
    seed: int


@dataclass(frozen=True, eq=False)
class Journal:
    """The rounds of a run, in independent streams.

    Attributes:
        path: The file.
        connection: The SQLite connection.
        seed: Seed of the rounds that are recorded; None if the journal is read-only.
    """

    path: Path
    connection: sqlite3.Connection
    seed: int | None

    def record(self, stream: str, number: int, arrays: Mapping[str, NDArray[Any]], first_draw: int, draws: int) -> None:
        """Add a round in one transaction. Once this returns, the round survives a killed process.

        Args:
            stream: What the round belongs to.
            number: Its position in the stream, which must be `count(stream)`.
            arrays: The arrays to store, of numbers or booleans.
            first_draw: Index of its first draw.
            draws: Number of draws.

        Raises:
            HeadwiseError: The run is read-only, the number is not the next one, an array contains neither numbers nor
                booleans, or the disk is full.
        """
        if self.seed is None:
            raise HeadwiseError(f"{self.path}: read-only: use open_run to record rounds")
        packed = _pack(arrays)
        with _explaining(self.path), self.connection:
            self.connection.execute("BEGIN IMMEDIATE")
            if number != (following := self.count(stream)):
                raise HeadwiseError(f"{self.path}: the next round of {stream!r} is {following}, not {number}")
            # int, because SQLite would store numpy's numbers as bytes.
            row = (self.seed, stream, int(number), int(first_draw), int(draws), packed, zlib.crc32(packed))
            self.connection.execute(_INSERT, row)

    def rounds(self, stream: str) -> Iterator[Round]:
        """The rounds of a stream in order; in a merged run, ordered by seed first."""
        # One query per round: an open query would delay the writer's checkpoints until the caller is done.
        keys = self._rows("SELECT seed, number FROM rounds WHERE stream = ? ORDER BY seed, number", stream)
        query = "SELECT first_draw, draws, arrays, checksum FROM rounds WHERE stream = ? AND seed = ? AND number = ?"
        for seed, number in keys:
            [(first_draw, draws, packed, checksum)] = self._rows(query, stream, seed, number)
            if zlib.crc32(packed) != checksum:
                raise _damaged(self.path, f"the checksum of round {number} of {stream!r} is wrong")
            yield Round(stream, number, first_draw, draws, _unpack(packed), seed)

    def once(self, stream: str, measure: Callable[[], Mapping[str, NDArray[Any]]]) -> Mapping[str, NDArray[Any]]:
        """The arrays of the only round of a stream; if there is no round, they are measured and recorded."""
        for kept in self.rounds(stream):
            return kept.arrays
        found = measure()
        self.record(stream, 0, found, first_draw=0, draws=0)
        return found

    def streams(self) -> tuple[str, ...]:
        """The names of the streams that have a round, in alphabetical order."""
        return tuple(stream for (stream,) in self._rows("SELECT DISTINCT stream FROM rounds ORDER BY stream"))

    def count(self, stream: str) -> int:
        """The number of rounds of a stream."""
        [(count,)] = self._rows("SELECT COUNT(*) FROM rounds WHERE stream = ?", stream)
        return int(count)

    def _rows(self, query: str, *values: Any) -> list[Any]:
        with _explaining(self.path):
            return self.connection.execute(query, values).fetchall()


@contextmanager
def new_journal(path: Path, seed: int | None) -> Iterator[Journal]:
    """The journal of a new run. An existing file, left by an interrupted start, must be empty."""
    with closing(_connect(path, "mode=rwc")) as connection:
        with _explaining(path):
            if connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone() == (0,):
                connection.executescript(_SCHEMA)
        _prepare(path, connection)
        journal = Journal(path, connection, seed)
        if journal.streams():
            raise HeadwiseError(f"{path}: the config of its run is missing: restore it, or choose another folder")
        yield journal


@contextmanager
def old_journal(path: Path, seed: int) -> Iterator[Journal]:
    """The journal of a run that is continued."""
    with closing(_connect(path, "mode=rw")) as connection:
        _prepare(path, connection)
        yield Journal(path, connection, seed)


@contextmanager
def read_journal(path: Path) -> Iterator[Journal]:
    """The journal of a run, read-only; another process may be writing to it."""
    with closing(_connect(path, _options_for_reading(path))) as connection:
        _identify(path, connection)
        yield Journal(path, connection, None)


def copy_rounds(source: Journal, target: Journal) -> None:
    """Add all rounds of a journal to another in one transaction."""
    with _explaining(target.path), target.connection:
        target.connection.execute("BEGIN IMMEDIATE")
        target.connection.executemany(_INSERT, _all_rows(source))


def _all_rows(journal: Journal) -> Iterator[Any]:
    with _explaining(journal.path):
        yield from journal.connection.execute("SELECT * FROM rounds")


def _options_for_reading(path: Path) -> str:
    # mode=rw can also read files that it cannot write; unlike mode=ro, it removes its temporary files.
    options = "mode=rw"
    with _explaining(path), closing(_connect(path, options)) as connection:
        try:
            connection.execute("SELECT COUNT(*) FROM sqlite_master")
        except sqlite3.OperationalError as error:
            if _code(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                raise
            # In a read-only folder, SQLite cannot create the file that coordinates readers and a writer.
            _check_complete(path)
            options = "immutable=1"
    return options


def _check_complete(path: Path) -> None:
    """Raise an error if a killed writer left rounds in the write-ahead file: they would be ignored silently."""
    ahead = path.with_name(f"{path.name}-wal")
    if ahead.exists() and ahead.stat().st_size:
        raise HeadwiseError(f"{ahead}: cannot be read in a read-only folder: copy the folder to a writable place")


def _connect(path: Path, options: str) -> sqlite3.Connection:
    if "rwc" not in options and not path.exists():
        raise HeadwiseError(f"{path}: no such file, but the run has a config: restore it, or choose another folder")
    with _explaining(path):
        return sqlite3.connect(f"{path.resolve().as_uri()}?{options}", uri=True, isolation_level=None, timeout=30)


def _prepare(path: Path, connection: sqlite3.Connection) -> None:
    """Prepare the journal for writing: readers do not block it, and each round is on disk before the next starts."""
    version = _identify(path, connection)
    with _explaining(path):
        if version < _VERSION:
            connection.execute(f"PRAGMA user_version = {_VERSION}")  # older versions of headwise cannot read new rounds
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")


def _identify(path: Path, connection: sqlite3.Connection) -> int:
    """Check that the file is a readable journal, and return its version."""
    with _explaining(path):
        [(application,)] = connection.execute("PRAGMA application_id")
        [(version,)] = connection.execute("PRAGMA user_version")
    if application != _APPLICATION:
        raise _damaged(path, "wrong application id")
    if not 1 <= version <= _VERSION:
        raise HeadwiseError(
            f"{path}: version {version} of the journal, but this headwise reads versions 1 to {_VERSION}: "
            "update headwise"
        )
    return int(version)


@contextmanager
def _explaining(path: Path) -> Iterator[None]:
    """Turn errors of SQLite into a `HeadwiseError`."""
    try:
        yield
    except sqlite3.Error as error:
        if _code(error) == sqlite3.SQLITE_FULL:
            raise HeadwiseError(
                f"{path}: the disk is full: free some space and resume; earlier rounds are kept"
            ) from None
        if _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise _damaged(path, str(error)) from None
        raise HeadwiseError(
            f"{path}: cannot be used: {error}: correct that and resume; earlier rounds are kept"
        ) from None


def _code(error: sqlite3.Error) -> int:
    """The primary error code of SQLite, without the extended bits."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def _damaged(path: Path, detail: str) -> HeadwiseError:
    return HeadwiseError(f"{path}: damaged, or not a journal ({detail}): restore it, or choose another folder")


def _pack(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Arrays of numbers and booleans as the bytes of a safetensors file."""
    # In C order: safetensors would write the memory of any other array unchanged, without an error.
    ordered = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    try:
        return save(ordered)
    except SafetensorError as error:
        raise HeadwiseError(f"a journal stores only arrays of numbers and booleans: {error}") from None


def _unpack(packed: bytes) -> dict[str, NDArray[Any]]:
    if packed[8:9] == b"{":  # safetensors: eight bytes for the length of the header, then its JSON
        return load(packed)
    with np.load(io.BytesIO(packed), allow_pickle=False) as archive:  # written by version 1
        return dict(archive)
