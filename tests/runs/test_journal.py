"""Journals keep their rounds through what happens to runs: kills, full disks, damaged and foreign files."""

import contextlib
import io
import pickle
import random
import sqlite3
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise import HeadwiseError
from headwise.runs import Run, open_run, read_run
from tests.runs.writers import WORKER, contents, damage, fill, finish, kill, start, sums, tamper


@pytest.mark.parametrize("least", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_a_run_killed_again_and_again_ends_as_one_never_killed(least: int, tmp_path: Path) -> None:
    chance, progress, kills = random.Random(1), list[int](), 0
    while kills < least or (len(set(progress)) < least // 3 and kills < 100):  # busy machines need more kills
        kills += 1
        worker = start(tmp_path / "killed", 150, pause=0.003)
        time.sleep(chance.uniform(0, 0.05))
        kill(worker)
        with contextlib.suppress(HeadwiseError), read_run(tmp_path / "killed") as run:  # killed before it began
            progress.append(sum(run.journal.count(stream) for stream in run.journal.streams()))
    assert progress == sorted(progress)
    assert len(set(progress)) >= least // 3, "the kills missed the work"
    assert progress[-1] < 300, "the work was over before the kills"
    finish(tmp_path / "killed", 150)
    finish(tmp_path / "whole", 150)
    assert len(contents(tmp_path / "whole")) == 300
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


def test_a_recorded_round_outlives_its_process(tmp_path: Path) -> None:
    worker = start(tmp_path / "run", 4, pause=0.001)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "done\n"
    kill(worker)
    assert len(contents(tmp_path / "run")) == 8


ARRAYS: dict[str, Any] = {
    "floats": np.array([0.1, -0.0, np.nan, np.inf, 5e-324]),
    "half": np.arange(6, dtype=np.float16).reshape(2, 3),
    "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "strided": np.arange(10)[::3],
    "number": np.array(3),
    "scalar": np.float64(2.5),
    "flag": np.array(True),
    "empty": np.zeros((0, 4), dtype=bool),
    "vélo 自転車": np.arange(3, dtype=np.int8),
    "file": np.array([1], dtype=np.uint8),
}


def test_arrays_come_back_as_they_were(tmp_path: Path) -> None:
    with open_run(tmp_path, {"seed": 7}) as run:
        run.journal.record("fr", 0, ARRAYS, first_draw=np.int64(5), draws=np.int64(6))  # type: ignore[arg-type]
        run.journal.record("de", 0, {}, 0, 1)
    with read_run(tmp_path) as run:
        assert run.journal.streams() == ("de", "fr")
        assert [run.journal.count(stream) for stream in ("de", "fr", "xx")] == [1, 1, 0]
        [found] = run.journal.rounds("fr")
    assert (found.stream, found.number, found.first_draw, found.draws, found.seed) == ("fr", 0, 5, 6, 7)
    assert set(found.arrays) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert found.arrays[name].dtype == array.dtype
        assert found.arrays[name].shape == array.shape
        assert found.arrays[name].tobytes() == array.tobytes()
        assert found.arrays[name].flags.writeable


def test_rounds_are_neither_repeated_nor_left_out_nor_pickled(tmp_path: Path) -> None:
    with open_run(tmp_path, {"seed": 7}) as run:
        run.journal.record("fr", 0, {"sum": np.ones(2)}, 0, 10)
        for number in (0, 2):
            with pytest.raises(HeadwiseError, match=f"the next round of 'fr' is 1, not {number}"):
                run.journal.record("fr", number, {"sum": np.zeros(2)}, 0, 10)
        for wrong in (np.array([{}]), np.array(["vélo"]), np.array([None])):
            with pytest.raises(HeadwiseError, match="a journal stores only arrays of numbers and booleans"):
                run.journal.record("fr", 1, {"sum": wrong}, 0, 10)
        run.journal.record("fr", 1, {"sum": np.full(2, 2)}, 10, 10)
    assert sums(tmp_path) == [1, 2]


def limit(run: Run, pages: int) -> None:
    run.journal.connection.execute(f"PRAGMA max_page_count = {pages}")


def test_a_full_disk_keeps_the_rounds_before(tmp_path: Path) -> None:
    with open_run(tmp_path, {"seed": 7}) as run:
        run.journal.record("fr", 0, {"sum": np.ones(9)}, 0, 1)
        limit(run, 10)
        with pytest.raises(HeadwiseError, match=f"{tmp_path}/journal.sqlite: the disk is full"):
            run.journal.record("fr", 1, {"sum": np.ones(100_000)}, 1, 1)
        assert run.journal.count("fr") == 1
        limit(run, 1_000_000)
        run.journal.record("fr", 1, {"sum": np.full(100_000, 2)}, 1, 1)
    assert sums(tmp_path) == [1, 2]


def test_a_disk_that_fails_keeps_the_rounds_before(tmp_path: Path) -> None:
    limit = """
import resource, signal
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
"""
    command = [sys.executable, "-c", limit + WORKER, str(tmp_path / "run"), "50", "0"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    said = f"HeadwiseError: {tmp_path}/run/journal.sqlite: cannot be used: disk I/O error: correct that and resume"
    assert said in ended.stderr.splitlines()[-1]
    assert 0 < len(contents(tmp_path / "run")) < 100
    finish(tmp_path / "run", 50)
    finish(tmp_path / "whole", 50)
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")


@pytest.mark.parametrize("part", [0.0, 0.01, 0.3, 0.9])
def test_a_truncated_journal_is_named(tmp_path: Path, part: float) -> None:
    fill(tmp_path, rounds=400)  # enough for several pages of keys, which counting rounds reads
    journal = tmp_path / "journal.sqlite"
    journal.write_bytes(journal.read_bytes()[: int(part * journal.stat().st_size)])
    for use in (fill, sums):
        with pytest.raises(HeadwiseError, match=f"{journal}: damaged, or not a journal"):
            use(tmp_path)


def test_a_damaged_round_is_named(tmp_path: Path) -> None:
    fill(tmp_path)
    journal = tmp_path / "journal.sqlite"
    damage(journal, at=journal.read_bytes().rindex(np.full(4, 8).tobytes()), count=1)
    with pytest.raises(HeadwiseError, match="the checksum of round 1 of 'fr' is wrong"):
        sums(tmp_path)


def test_foreign_files_are_left_alone(tmp_path: Path) -> None:
    journal = tmp_path / "journal.sqlite"
    with contextlib.closing(sqlite3.connect(journal)) as foreign:
        foreign.execute("CREATE TABLE birds (name)")
    before = journal.read_bytes()
    with pytest.raises(HeadwiseError, match="wrong application id"):
        fill(tmp_path)
    assert journal.read_bytes() == before
    journal.write_text("Dear diary, " * 100)
    with pytest.raises(HeadwiseError, match="file is not a database"):
        fill(tmp_path)


def test_a_journal_of_a_later_version_is_refused(tmp_path: Path) -> None:
    fill(tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / "journal.sqlite")) as journal:
        journal.execute("PRAGMA user_version = 3")
    for use in (fill, sums):
        with pytest.raises(HeadwiseError, match="version 3 of the journal, but this headwise reads versions 1 to 2"):
            use(tmp_path)


def make_version_1(folder: Path) -> None:
    """Turn the journal of a run into one of version 1, which kept arrays as .npz files."""
    with read_run(folder) as run:
        rounds = [found for stream in run.journal.streams() for found in run.journal.rounds(stream)]
    with contextlib.closing(sqlite3.connect(folder / "journal.sqlite")) as journal, journal:
        for found in rounds:
            packed = io.BytesIO()
            np.savez(packed, allow_pickle=False, **found.arrays)
            change = "UPDATE rounds SET arrays = ?, checksum = ? WHERE stream = ? AND number = ?"
            blob = packed.getvalue()
            journal.execute(change, (blob, zlib.crc32(blob), found.stream, found.number))
        journal.execute("PRAGMA user_version = 1")


def version(folder: Path) -> int:
    with contextlib.closing(sqlite3.connect(folder / "journal.sqlite")) as journal:
        return int(journal.execute("PRAGMA user_version").fetchone()[0])


def test_a_journal_of_version_1_is_read_and_continued(tmp_path: Path) -> None:
    with open_run(tmp_path, {"seed": 7}) as run:
        run.journal.record("en", 0, {}, 0, 0)
        run.journal.record("fr", 0, {"sum": np.array([7.0]), "units": np.array(2.5)}, 0, 10)
    make_version_1(tmp_path)
    assert sums(tmp_path) == [7]
    assert version(tmp_path) == 1, "reading must not change the file"
    fill(tmp_path)
    assert version(tmp_path) == 2
    assert sums(tmp_path) == [7, 8, 9]
    with read_run(tmp_path) as run:
        assert next(iter(run.journal.rounds("en"))).arrays == {}
        assert next(iter(run.journal.rounds("fr"))).arrays["units"].shape == ()


class Bomb:
    """An object that leaves a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def archive(**members: bytes) -> bytes:
    """A .npz file with any contents, compressed."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return packed.getvalue()


def plain(array: Any, allow_pickle: bool = False) -> bytes:
    """A .npy file."""
    packed = io.BytesIO()
    np.save(packed, array, allow_pickle=allow_pickle)
    return packed.getvalue()


HUGE = plain(np.zeros(1)).replace(b"(1,)", b"(9999999999999,)".ljust(4))
HEADER = b'{"sum": {"dtype": "F64", "shape": [9], "data_offsets": [0, 72]}}'
#: Blobs that are no arrays, each with the right checksum.
BLOBS: dict[str, Any] = {
    "text": "sum",
    "empty": b"",
    "a number": 7,
    "half of a header": HEADER[:20],
    "a header without data": len(HEADER).to_bytes(8, "little") + HEADER,
    "an array of no archive": plain(np.ones(3)),
    "an archive of text": archive(sum=b"one"),
    "an archive of a huge array": archive(sum=HUGE),
    "an archive that unpacks to much more": archive(sum=plain(np.zeros(1_000_000))),
}


@pytest.mark.parametrize("name", BLOBS)
def test_a_blob_without_arrays_is_named_though_its_checksum_is_right(tmp_path: Path, name: str) -> None:
    fill(tmp_path)
    tamper(tmp_path, arrays=BLOBS[name])
    with pytest.raises(HeadwiseError, match=r"journal\.sqlite: damaged, .*round 1 of 'fr'.*: restore it") as error:
        sums(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("wrap", [lambda blob: blob, lambda blob: archive(sum=blob)])
def test_pickles_are_not_executed(tmp_path: Path, wrap: Callable[[bytes], bytes]) -> None:
    fill(tmp_path)
    for blob in (pickle.dumps(Bomb(tmp_path / "boom")), plain(np.array([Bomb(tmp_path / "boom")]), allow_pickle=True)):
        tamper(tmp_path, arrays=wrap(blob))
        with pytest.raises(HeadwiseError, match="round 1 of 'fr' contains no arrays"):
            sums(tmp_path)
    assert not (tmp_path / "boom").exists()


def test_a_round_that_lacks_a_field_is_named(tmp_path: Path) -> None:
    fill(tmp_path)
    with read_run(tmp_path) as run:
        found = next(run.journal.rounds("fr"))
        with pytest.raises(HeadwiseError, match=r"journal\.sqlite: round 0 of 'fr': it has no field 'units'"):
            found.arrays["units"]
        assert found.arrays.get("units") is None
        message = r"round 0 of 'fr': its arrays do not fit the run \(operands could not .*: restore it"
        with pytest.raises(HeadwiseError, match=message), found.replaying() as arrays:
            np.zeros(3) + arrays["sum"]


def test_arrays_of_other_dimensions_are_named(tmp_path: Path) -> None:
    with open_run(tmp_path, {"seed": 7}) as run:
        run.journal.record("fr", 0, {"sum": np.ones(4)}, 0, 10)
        run.journal.record("fr", 1, {"sum": np.ones((4, 1))}, 10, 10)
    with pytest.raises(HeadwiseError, match="'sum' of round 1 of 'fr' has other dimensions than before"):
        sums(tmp_path)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"number": 5}, "round 1 of 'fr' is missing"),
        ({"number": "one"}, "round 1 of 'fr' is missing"),
        ({"seed": "seven"}, "round 1 of 'fr' is missing"),
        ({"draws": "many"}, "the draws of round 1 of 'fr' are not counts"),
        ({"first_draw": -1}, "the draws of round 1 of 'fr' are not counts"),
        ({"checksum": "right"}, "the checksum of round 1 of 'fr' is wrong"),
    ],
)
def test_rows_that_were_changed_by_hand_are_named(tmp_path: Path, columns: dict[str, Any], said: str) -> None:
    fill(tmp_path)
    tamper(tmp_path, **columns)
    with pytest.raises(HeadwiseError, match=said):
        sums(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE rounds",
        "ALTER TABLE rounds RENAME TO others",
        "ALTER TABLE rounds DROP COLUMN checksum",
        "CREATE TRIGGER more AFTER INSERT ON rounds BEGIN DELETE FROM rounds; END",
    ],
)
def test_other_tables_are_no_journal(tmp_path: Path, change: str) -> None:
    fill(tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / "journal.sqlite")) as journal:
        journal.execute(change)
    for use in (fill, sums):
        with pytest.raises(HeadwiseError, match="its tables are not those of a journal"):
            use(tmp_path)


def test_a_stream_without_a_name_is_named(tmp_path: Path) -> None:
    fill(tmp_path)
    tamper(tmp_path, stream=b"\x00\xff")
    with read_run(tmp_path) as run, pytest.raises(HeadwiseError, match="the name of a stream is not text"):
        run.journal.streams()
