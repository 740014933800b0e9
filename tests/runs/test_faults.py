"""What disks and file systems do to journals: torn writes, a full disk, no locks, another file system that fails."""

import contextlib
import errno
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from headwise import HeadwiseError
from headwise.runs import open_run
from tests.runs.writers import contents, fill, finish, kill, start

ROUNDS = 30


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose writer was killed, with all of its rounds in the write-ahead file."""
    folder = tmp_path_factory.mktemp("killed") / "run"
    worker = start(folder, ROUNDS, pause=0.001)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "done\n"
    kill(worker)
    assert (folder / "journal.sqlite-wal").stat().st_size > 100_000
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    folder = tmp_path_factory.mktemp("whole") / "run"
    finish(folder, ROUNDS)
    return list(contents(folder))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("damage", ["cut", "zeroed", "garbled"])
def test_rounds_before_a_torn_write_are_kept_and_the_others_computed_again(
    tmp_path: Path, killed: Path, whole: list[object], damage: str, seed: int
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(killed, folder)
    ahead = folder / "journal.sqlite-wal"
    written, draw = bytearray(ahead.read_bytes()), random.Random(seed)
    at = draw.randrange(32, len(written))
    match damage:
        case "cut":
            del written[at:]
        case "zeroed":  # the file system had extended the file, but not written its blocks
            written[at:] = bytes(len(written) - at)
        case _:
            written[at : at + 64] = draw.randbytes(len(written[at : at + 64]))
    ahead.write_bytes(written)
    (folder / "journal.sqlite-shm").unlink(missing_ok=True)  # after a crash of the machine it is gone
    kept = contents(folder)
    assert kept == whole[: len(kept)] or set(kept) < set(whole), "rounds are whole or missing, never half"
    assert len(kept) < len(whole)
    finish(folder, ROUNDS)
    assert contents(folder) == whole


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 300 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(disk)]
    if os.name != "posix" or shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting a file system needs the rights of root on Linux")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_disk_that_fills_up_keeps_all_recorded_rounds(small_disk: Path) -> None:
    recorded = 0

    def record() -> None:
        nonlocal recorded
        with open_run(small_disk / "run", {"seed": 7}) as run:
            for number in range(100):
                run.journal.record("fr", number, {"sum": np.full(1000, number)}, number, 1)
                recorded += 1

    with pytest.raises(HeadwiseError, match="the disk is full: free some space and resume"):
        record()
    assert 3 < recorded < 100
    subprocess.run(["mount", "-o", "remount,size=3M", str(small_disk)], check=True)
    with open_run(small_disk / "run", {"seed": 7}) as run:
        found = [int(each.arrays["sum"][0]) for each in run.journal.rounds("fr")]
        assert found == list(range(recorded)), "every round that was recorded, and no other"
        run.journal.record("fr", recorded, {"sum": np.ones(1000)}, recorded, 1)


def test_a_disk_that_is_full_from_the_start_is_named(small_disk: Path) -> None:
    with contextlib.suppress(OSError), (small_disk / "ballast").open("wb", buffering=0) as ballast:
        while True:
            ballast.write(bytes(4096))
    with pytest.raises(HeadwiseError, match=f"{small_disk}/run.*(full|cannot be written|No space)"):
        fill(small_disk / "run")


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EIO, errno.ESTALE])
def test_a_file_system_without_locks_is_named(tmp_path: Path, code: int) -> None:
    with (
        patch("fcntl.flock", side_effect=OSError(code, os.strerror(code))),
        pytest.raises(HeadwiseError, match=f"{tmp_path}/run: cannot be .*{os.strerror(code)}: choose another folder"),
    ):
        fill(tmp_path / "run")
    fill(tmp_path / "run")  # nothing is left that would be in the way


def test_a_file_system_that_knows_no_locks_at_all_still_has_one_writer(tmp_path: Path) -> None:
    with patch("fcntl.flock", side_effect=OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))):
        with open_run(tmp_path / "run", {"seed": 7}) as run:
            run.journal.record("fr", 0, {"sum": np.ones(2)}, 0, 1)
            with pytest.raises(HeadwiseError, match="is writing to this run"):
                fill(tmp_path / "run")
        with open_run(tmp_path / "run", {"seed": 7}) as run:
            assert run.journal.count("fr") == 1
