"""The journal of a run: an SQLite file of rounds, each recorded completely or not at all."""

import io
import sqlite3
import zipfile
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
_COLUMNS = ("seed", "stream", "number", "first_draw", "draws", "arrays", "checksum")
_INSERT = f"INSERT INTO rounds VALUES ({', '.join('?' * len(_COLUMNS))})"
_REMEDY = "restore it, or choose another folder"


class RoundArrays(dict[str, NDArray[Any]]):
    """The arrays of a recorded round, by name. A name that the round lacks raises an error that says where it is from.

    Args:
        arrays: The arrays.
        place: The journal and the round, for the message.
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]], place: str) -> None:
        super().__init__(arrays)
        self.place = place

    def __missing__(self, name: str) -> NDArray[Any]:
        raise HeadwiseError(f"{self.place}: it has no field {name!r}: {_REMEDY}")


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

    @contextmanager
    def replaying(self) -> Iterator[Mapping[str, NDArray[Any]]]:
        """The arrays, for code that reads them: an error because they do not fit names the journal and the round."""
        try:
            yield self.arrays
        except HeadwiseError:
            raise
        except (ValueError, TypeError, LookupError, ArithmeticError, RuntimeError) as error:
            place = getattr(self.arrays, "place", f"round {self.number} of {self.stream!r}")
            raise HeadwiseError(f"{place}: its arrays do not fit the run ({_reason(error)}): {_REMEDY}") from None


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
        following: dict[int, int] = {}
        dimensions: dict[tuple[frozenset[str], str], int] = {}  # a method may have several kinds of rounds
        for seed, number in keys:
            if type(seed) is not int or number != following.get(seed, 0):
                raise _damaged(self.path, f"round {following.get(seed, 0)} of {stream!r} is missing")
            following[seed] = number + 1
            [(first_draw, draws, packed, checksum)] = self._rows(query, stream, seed, number)
            place = f"round {number} of {stream!r}"
            if not all(type(each) is int and each >= 0 for each in (first_draw, draws)):
                raise _damaged(self.path, f"the draws of {place} are not counts")
            if not isinstance(packed, bytes):
                raise _damaged(self.path, f"{place} is not binary")
            if zlib.crc32(packed) != checksum:
                raise _damaged(self.path, f"the checksum of {place} is wrong")
            arrays = RoundArrays(self._unpacked(packed, place), f"{self.path}: {place}")
            for name, array in arrays.items():  # numpy would add arrays of other shapes without an error
                if dimensions.setdefault((frozenset(arrays), name), array.ndim) != array.ndim:
                    raise _damaged(self.path, f"{name!r} of {place} has other dimensions than before")
            yield Round(stream, number, first_draw, draws, arrays, seed)

    def _unpacked(self, packed: bytes, place: str) -> dict[str, NDArray[Any]]:
        try:
            return _unpack(packed)
        except Exception as error:  # bytes that are no arrays can fail anywhere in safetensors, numpy or zipfile
            raise _damaged(self.path, f"{place} contains no arrays: {_reason(error)}") from None

    def once(self, stream: str, measure: Callable[[], Mapping[str, NDArray[Any]]]) -> Mapping[str, NDArray[Any]]:
        """The arrays of the only round of a stream; if there is no round, they are measured and recorded."""
        for kept in self.rounds(stream):
            return kept.arrays
        found = measure()
        self.record(stream, 0, found, first_draw=0, draws=0)
        return found

    def streams(self) -> tuple[str, ...]:
        """The names of the streams that have a round, in alphabetical order."""
        found = tuple(stream for (stream,) in self._rows("SELECT DISTINCT stream FROM rounds ORDER BY stream"))
        if not all(isinstance(stream, str) for stream in found):
            raise _damaged(self.path, "the name of a stream is not text")
        return found

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
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type != 'index'").fetchall()
        columns = tuple(name for _, name, *_ in connection.execute("PRAGMA table_info(rounds)"))
    if application != _APPLICATION:
        raise _damaged(path, "wrong application id")
    if not 1 <= version <= _VERSION:
        raise HeadwiseError(
            f"{path}: version {version} of the journal, but this headwise reads versions 1 to {_VERSION}: "
            "update headwise"
        )
    if tables != [("rounds",)] or columns != _COLUMNS:
        raise _damaged(path, "its tables are not those of a journal")
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
            raise _damaged(path, _reason(error)) from None
        raise HeadwiseError(
            f"{path}: cannot be used: {_reason(error)}: correct that and resume; earlier rounds are kept"
        ) from None


def _code(error: sqlite3.Error) -> int:
    """The primary error code of SQLite, without the extended bits."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def _reason(error: Exception) -> str:
    """The first line of an error."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def _damaged(path: Path, detail: str) -> HeadwiseError:
    return HeadwiseError(f"{path}: damaged, or not a journal ({detail}): {_REMEDY}")


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
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:  # .npz, written by version 1
        # They were not compressed, so larger contents than the file are not from headwise.
        if sum(each.file_size for each in archive.infolist()) > len(packed):
            raise ValueError("its contents are larger than itself")
    with np.load(io.BytesIO(packed), allow_pickle=False) as arrays:
        found = dict(arrays)
    if not all(isinstance(array, np.ndarray) for array in found.values()):  # numpy returns other members as bytes
        raise ValueError("it has other files than arrays")
    return found
