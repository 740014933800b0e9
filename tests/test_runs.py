"""Runs survive what happens to runs: kills, second writers, other configs, full disks, damaged files."""

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import headwise
from headwise import HeadwiseError
from headwise.runs import Run, merge_runs, open_run, read_run
from headwise.runs.config import plain, read_config, write_config

#: Without `headwise/__init__.py`, which needs seconds for torch and transformers.
LIGHT = f"""
import sys, types
package = types.ModuleType("headwise")
package.__path__ = [{str(Path(headwise.__file__).parent)!r}]
sys.modules["headwise"] = package
"""

#: Sums over draws, round by round; each round depends on all before it, so that a lost or doubled one would show.
WORKER = (
    LIGHT
    + """
import time
import numpy as np
import yaml
from headwise.draws import Draws
from headwise.runs import open_run

folder, rounds, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
print("ready", flush=True)
with open_run(folder, {"seed": 7, "budget": rounds}) as run:
    for stream in ("fr", "sw"):
        draws, total = Draws(7, stream), np.zeros(5)
        for found in run.journal.rounds(stream):
            total = found.arrays["total"]
        for number in range(run.journal.count(stream), rounds):
            total = np.sin(total) + draws.uniform(8 * number, 8, 5).sum(axis=0)
            run.journal.record(stream, number, {"total": total}, first_draw=8 * number, draws=8)
            time.sleep(pause)
    print("done", flush=True)
    if pause:
        time.sleep(60)
"""
)


def start(folder: Path, rounds: int, pause: float) -> subprocess.Popen[str]:
    """A worker about to open its run; with a pause between rounds it keeps the run open after the last."""
    command = [sys.executable, "-c", WORKER, str(folder), str(rounds), str(pause)]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "ready\n"
    return worker


def kill(worker: subprocess.Popen[str]) -> None:
    worker.kill()
    worker.communicate()
    assert worker.returncode == -signal.SIGKILL


def finish(folder: Path, rounds: int) -> None:
    worker = start(folder, rounds, 0)
    assert worker.communicate()[0] == "done\n"
    assert worker.returncode == 0


def contents(folder: Path) -> list[tuple[Any, ...]]:
    """Every row of the journal, bytes and all."""
    with read_run(folder) as run:
        return run.journal.connection.execute("SELECT * FROM rounds ORDER BY seed, stream, number").fetchall()


def fill(folder: Path, seed: int = 7, rounds: int = 3, **config: Any) -> None:
    with open_run(folder, {"seed": seed, **config}) as run:
        for number in range(run.journal.count("fr"), rounds):
            run.journal.record("fr", number, {"sum": np.full(4, seed + number)}, 10 * number, 10)


def sums(folder: Path) -> list[float]:
    with read_run(folder) as run:
        return [float(found.arrays["sum"][0]) for found in run.journal.rounds("fr")]


def test_a_run_killed_twenty_times_ends_as_one_never_killed(tmp_path: Path) -> None:
    chance, progress = random.Random(1), []
    for _ in range(20):
        worker = start(tmp_path / "killed", 150, pause=0.003)
        time.sleep(chance.uniform(0, 0.05))
        kill(worker)
        with contextlib.suppress(HeadwiseError), read_run(tmp_path / "killed") as run:  # killed before it began
            progress.append(sum(run.journal.count(stream) for stream in run.journal.streams()))
    assert progress == sorted(progress)
    assert len(set(progress)) > 5, "the kills missed the work"
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


def test_a_second_writer_is_refused_and_readers_are_not(tmp_path: Path) -> None:
    worker = start(tmp_path, 2, pause=0.001)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "done\n"
    with pytest.raises(HeadwiseError, match=f"{tmp_path}: the process {worker.pid} is writing"):
        fill(tmp_path, budget=2)
    assert len(contents(tmp_path)) == 4
    kill(worker)
    with (
        open_run(tmp_path, {"seed": 7, "budget": 2}),
        pytest.raises(HeadwiseError, match=f"the process {os.getpid()} is writing"),
        open_run(tmp_path, {"seed": 7, "budget": 2}),
    ):
        pass


def test_a_reader_sees_rounds_as_they_come(tmp_path: Path) -> None:
    with open_run(tmp_path, {"seed": 7}) as writer, read_run(tmp_path) as reader:
        writer.journal.record("fr", 0, {}, 0, 5)
        rounds = reader.journal.rounds("fr")
        assert next(rounds).number == 0
        writer.journal.record("fr", 1, {}, 5, 5)
        assert reader.journal.count("fr") == 2
        with pytest.raises(HeadwiseError, match="for reading only"):
            reader.journal.record("fr", 2, {}, 10, 5)
    assert {path.name for path in tmp_path.iterdir()} == {"config.yaml", "journal.sqlite", "writer.lock"}


def test_reading_and_drawing_need_neither_torch_nor_transformers() -> None:
    check = "import headwise.runs, headwise.draws; sys.exit(bool({'torch', 'transformers', 'yaml'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", LIGHT + check], check=False).returncode == 0


ARRAYS: dict[str, NDArray[Any]] = {
    "floats": np.array([0.1, -0.0, np.nan, np.inf, 5e-324]),
    "half": np.arange(6, dtype=np.float16).reshape(2, 3),
    "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "strided": np.arange(10)[::3],
    "big endian": np.arange(3, dtype=">i4"),
    "number": np.array(3),
    "empty": np.zeros((0, 4), dtype=bool),
    "words": np.array(["vélo", "自転車"]),
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
    assert list(found.arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert found.arrays[name].dtype == array.dtype
        assert found.arrays[name].shape == array.shape
        assert found.arrays[name].tobytes() == array.tobytes()


def test_rounds_are_neither_repeated_nor_left_out_nor_pickled(tmp_path: Path) -> None:
    with open_run(tmp_path, {"seed": 7}) as run:
        run.journal.record("fr", 0, {"sum": np.ones(2)}, 0, 10)
        for number in (0, 2):
            with pytest.raises(HeadwiseError, match=f"the next round of 'fr' is 1, not {number}"):
                run.journal.record("fr", number, {"sum": np.zeros(2)}, 0, 10)
        with pytest.raises(ValueError, match="Object arrays"):
            run.journal.record("fr", 1, {"sum": np.array([{}])}, 0, 10)
        run.journal.record("fr", 1, {"sum": np.full(2, 2)}, 10, 10)
    assert sums(tmp_path) == [1, 2]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": "m2"}, "'model' = 'm1', not 'm2'"),
        ({"seed": 8}, "'seed' = 7, not 8"),
        ({"task": {"name": "pos", "split": "test"}}, "'task.split' = 'dev', not 'test'"),
        ({"rounds": 3}, "'rounds' = nothing, not 3"),
        ({"budget": "much"}, "'budget' = 100, not 'much'"),
        ({"budget": 99}, "'budget' is 100 there and can only grow, not become 99"),
    ],
)
def test_another_config_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    config = {"model": "m1", "task": {"name": "pos", "split": "dev"}, "seed": 7, "budget": 100}
    with open_run(tmp_path, config):
        pass
    with pytest.raises(HeadwiseError, match=said) as caught, open_run(tmp_path, {**config, **change}):
        pass
    assert str(caught.value).startswith(f"{tmp_path}: ")
    with open_run(tmp_path, dict(reversed(config.items()))) as run:
        assert run.config == config


def test_a_run_can_be_extended(tmp_path: Path) -> None:
    fill(tmp_path, rounds=2, budget=20)
    fill(tmp_path, rounds=4, budget=40)
    assert sums(tmp_path) == [7, 8, 9, 10]
    with read_run(tmp_path) as run:
        assert run.config == {"seed": 7, "budget": 40}
    with pytest.raises(HeadwiseError, match="'budget'"), open_run(tmp_path, {"seed": 7, "budget": 50}, extendable=()):
        pass


@pytest.mark.parametrize("seed", [None, "7", 7.5, True, 2**63, [1, 2]])
def test_a_run_needs_a_seed(tmp_path: Path, seed: Any) -> None:
    with pytest.raises(HeadwiseError, match="'seed' must be a whole number"), open_run(tmp_path, {"seed": seed}):
        pass


@pytest.mark.parametrize("value", [np.ones(2), {1, 2}, float("nan"), Path("x")])
def test_a_config_is_plain_data(tmp_path: Path, value: Any) -> None:
    with pytest.raises(HeadwiseError, match="plain data"), open_run(tmp_path, {"seed": 7, "x": value}):
        pass


TEXT = st.text(max_size=8)
LEAF = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
TREE = st.recursive(LEAF, lambda x: st.lists(x, max_size=3) | st.dictionaries(TEXT, x, max_size=3), max_leaves=6)


@settings(deadline=None)
@given(st.dictionaries(TEXT, TREE, max_size=3))
def test_a_config_is_read_as_it_was_written(config: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_config(Path(folder), plain(config))
        assert read_config(Path(folder)) == config


def test_runs_of_several_seeds_are_merged(tmp_path: Path) -> None:
    for seed in (3, 1, 2):
        fill(tmp_path / str(seed), seed, rounds=seed, budget=5)
    merge_runs([tmp_path / "3", tmp_path / "1"], tmp_path / "some")
    merge_runs([tmp_path / "some", tmp_path / "2"], tmp_path / "all")
    with read_run(tmp_path / "all") as run:
        assert run.config == {"seed": [1, 2, 3], "budget": 5}
        assert run.journal.count("fr") == 6
        keys = [(found.seed, found.number) for found in run.journal.rounds("fr")]
    assert keys == [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)]
    assert sums(tmp_path / "all") == [1, 2, 3, 3, 4, 5]
    assert contents(tmp_path / "all") == [row for seed in "123" for row in contents(tmp_path / seed)]
    with pytest.raises(HeadwiseError, match=r"'seed' = \[1, 2, 3\], not 1"):
        fill(tmp_path / "all", 1, budget=5)


def test_runs_that_do_not_belong_together_are_not_merged(tmp_path: Path) -> None:
    fill(tmp_path / "a", 1, task={"name": "pos"})
    fill(tmp_path / "b", 1, task={"name": "pos"})
    fill(tmp_path / "c", 2, task={"name": "ner"})
    with pytest.raises(HeadwiseError, match=f"{tmp_path}/b: its seed 1 is that of {tmp_path}/a too"):
        merge_runs([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    with pytest.raises(HeadwiseError, match="only once"):
        merge_runs([tmp_path / "a", tmp_path / "a"], tmp_path / "out")
    with pytest.raises(HeadwiseError, match=f"c: 'task.name' is 'ner', but 'pos' in {tmp_path}/a"):
        merge_runs([tmp_path / "a", tmp_path / "c"], tmp_path / "out")
    with pytest.raises(HeadwiseError, match="at least one"):
        merge_runs([], tmp_path / "out")
    with pytest.raises(HeadwiseError, match="b: the folder is not empty"):
        merge_runs([tmp_path / "a"], tmp_path / "b")
    (tmp_path / "b" / "config.yaml").write_text("seed: one\ntask: {name: pos}\n")
    with pytest.raises(HeadwiseError, match=r"b/config\.yaml: 'seed' must be"):
        merge_runs([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_merging_a_damaged_run_names_it_and_leaves_nothing(tmp_path: Path) -> None:
    fill(tmp_path / "a", 1)
    fill(tmp_path / "b", 2, rounds=100)
    journal = tmp_path / "b" / "journal.sqlite"
    damage(journal, at=3 * journal.stat().st_size // 4, count=8192)
    with pytest.raises(HeadwiseError, match=f"{journal}: damaged"):
        merge_runs([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


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
    said = f"HeadwiseError: {tmp_path}/run/journal.sqlite: cannot be used: disk I/O error: mend that and resume"
    assert said in ended.stderr.splitlines()[-1]
    assert 0 < len(contents(tmp_path / "run")) < 100
    finish(tmp_path / "run", 50)
    finish(tmp_path / "whole", 50)
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(HeadwiseError, match=f"{folder}: cannot be written: .*: choose another"):
            fill(folder)
        with pytest.raises(HeadwiseError, match=f"{folder}: no run there"):
            sums(folder)


@contextlib.contextmanager
def read_only(*folders: Path) -> Iterator[None]:
    """Folders read-only for the user we are; root, who may write anywhere, is nobody meanwhile."""
    root = os.geteuid() == 0
    for folder in folders:
        folder.chmod(0o555)
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        for folder in folders:
            folder.chmod(0o755)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder whose parents anyone may enter, unlike pytest's."""
    with tempfile.TemporaryDirectory() as top:
        Path(top).chmod(0o755)
        yield Path(top)


def test_a_read_only_folder_is_read_but_not_written(open_folder: Path) -> None:
    run = open_folder / "run"
    fill(run)
    with read_only(run, open_folder):
        assert sums(run) == [7, 8, 9]
        with pytest.raises(HeadwiseError, match=f"{run}: cannot be written: Permission denied"):
            fill(run)
        with pytest.raises(HeadwiseError, match=f"{open_folder}/new: cannot be written: Permission denied"):
            fill(open_folder / "new")


def test_what_a_killed_writer_left_is_read_from_a_read_only_folder_or_missed_loudly(open_folder: Path) -> None:
    run = open_folder / "run"
    worker = start(run, 4, pause=0.001)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "done\n"
    kill(worker)
    assert (run / "journal.sqlite-wal").stat().st_size > 0
    with read_only(run):
        assert len(contents(run)) == 8
    (run / "journal.sqlite-shm").unlink()
    with read_only(run), pytest.raises(HeadwiseError, match="copy the folder to where you may write"):
        contents(run)
    assert len(contents(run)) == 8


def damage(file: Path, at: int, count: int) -> None:
    data = bytearray(file.read_bytes())
    data[at : at + count] = bytes(byte ^ 0xFF for byte in data[at : at + count])
    file.write_bytes(data)


@pytest.mark.parametrize("part", [0.0, 0.01, 0.3, 0.9])
def test_a_truncated_journal_is_named(tmp_path: Path, part: float) -> None:
    fill(tmp_path, rounds=100)
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
    with pytest.raises(HeadwiseError, match="lacks headwise's mark"):
        fill(tmp_path)
    assert journal.read_bytes() == before
    journal.write_text("Dear diary, " * 100)
    with pytest.raises(HeadwiseError, match="file is not a database"):
        fill(tmp_path)


def test_a_journal_of_another_version_is_refused(tmp_path: Path) -> None:
    fill(tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / "journal.sqlite")) as journal:
        journal.execute("PRAGMA user_version = 2")
    for use in (fill, sums):
        with pytest.raises(HeadwiseError, match="version 2 of the journal, but this headwise reads version 1"):
            use(tmp_path)


def test_half_a_run_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    fill(tmp_path / "no journal")
    (tmp_path / "no journal" / "journal.sqlite").unlink()
    for use in (fill, sums):
        with pytest.raises(HeadwiseError, match=r"journal.sqlite: no such file, though the run has a config"):
            use(tmp_path / "no journal")
    fill(tmp_path / "no config")
    (tmp_path / "no config" / "config.yaml").unlink()
    with pytest.raises(HeadwiseError, match="its run's config is gone"):
        fill(tmp_path / "no config")
    with pytest.raises(HeadwiseError, match="no run there"):
        sums(tmp_path / "no config")


def test_a_start_cut_short_is_started_again(tmp_path: Path) -> None:
    (tmp_path / "journal.sqlite").touch()
    (tmp_path / "config.yaml.new").write_text("seed: ")
    fill(tmp_path)
    assert sums(tmp_path) == [7, 8, 9]


@pytest.mark.parametrize(("text", "said"), [("seed: [", "not YAML"), ("seven", "no keys"), ("", "no keys")])
def test_a_broken_config_is_named(tmp_path: Path, text: str, said: str) -> None:
    fill(tmp_path)
    (tmp_path / "config.yaml").write_text(text)
    for use in (fill, sums):
        with pytest.raises(HeadwiseError, match=f"{tmp_path}/config.yaml: .*{said}"):
            use(tmp_path)
