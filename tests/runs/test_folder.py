"""Run folders: one writer and any readers, merged by seed, and never taken for what they are not."""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwise import HeadwiseError
from headwise.runs import merge_runs, open_run, read_run
from tests.runs.writers import LIGHT, contents, damage, fill, kill, start, sums


def test_a_second_writer_is_refused_and_readers_are_not(tmp_path: Path) -> None:
    worker = start(tmp_path, 2, pause=0.001)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "done\n"
    with pytest.raises(HeadwiseError, match=f"{tmp_path}: process {worker.pid} is writing"):
        fill(tmp_path, budget=2)
    assert len(contents(tmp_path)) == 4
    kill(worker)
    with (
        open_run(tmp_path, {"seed": 7, "budget": 2}),
        pytest.raises(HeadwiseError, match=f"process {os.getpid()} is writing"),
        open_run(tmp_path, {"seed": 7, "budget": 2}),
    ):
        pass


def test_a_dead_writer_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    worker = start(tmp_path, 2, pause=0.001)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "done\n"
    kill(worker)
    assert (tmp_path / "writer.pid").read_text() == str(worker.pid)  # left behind, and not believed
    with open_run(tmp_path, {"seed": 7, "budget": 2}):
        assert (tmp_path / "writer.pid").read_text() == str(os.getpid())
    assert not (tmp_path / "writer.pid").exists()


def test_a_writer_without_a_number_is_still_a_writer(tmp_path: Path) -> None:
    with open_run(tmp_path, {"seed": 7}):
        (tmp_path / "writer.pid").unlink()
        with (
            pytest.raises(HeadwiseError, match=f"^{tmp_path}: another process is writing to this run: wait until"),
            open_run(tmp_path, {"seed": 7}),
        ):
            pass


def test_an_error_inside_a_run_releases_the_lock_and_is_not_taken_for_one_of_the_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="elsewhere"), open_run(tmp_path, {"seed": 7}):
        raise FileNotFoundError("elsewhere")
    fill(tmp_path)
    assert sums(tmp_path) == [7, 8, 9]


def test_a_reader_sees_rounds_as_they_come(tmp_path: Path) -> None:
    with open_run(tmp_path, {"seed": 7}) as writer, read_run(tmp_path) as reader:
        writer.journal.record("fr", 0, {}, 0, 5)
        rounds = reader.journal.rounds("fr")
        assert next(rounds).number == 0
        writer.journal.record("fr", 1, {}, 5, 5)
        assert reader.journal.count("fr") == 2
        with pytest.raises(HeadwiseError, match="read-only"):
            reader.journal.record("fr", 2, {}, 10, 5)
    assert {path.name for path in tmp_path.iterdir()} == {"config.yaml", "journal.sqlite", "writer.lock"}


def test_reading_and_drawing_need_neither_torch_nor_transformers() -> None:
    check = "import headwise.runs, headwise.draws; sys.exit(bool({'torch', 'transformers', 'yaml'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", LIGHT + check], check=False).returncode == 0


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
    with pytest.raises(HeadwiseError, match=f"{tmp_path}/b: its seed 1 is also the seed of {tmp_path}/a"):
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


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(HeadwiseError, match=f"{folder}: cannot be written: .*: choose another"):
            fill(folder)
        with pytest.raises(HeadwiseError, match=f"{folder}: not a run folder"):
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
    with read_only(run), pytest.raises(HeadwiseError, match="copy the folder to a writable place"):
        contents(run)
    assert len(contents(run)) == 8


def test_half_a_run_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    fill(tmp_path / "no journal")
    (tmp_path / "no journal" / "journal.sqlite").unlink()
    for use in (fill, sums):
        with pytest.raises(HeadwiseError, match=r"journal.sqlite: no such file, but the run has a config"):
            use(tmp_path / "no journal")
    fill(tmp_path / "no config")
    (tmp_path / "no config" / "config.yaml").unlink()
    with pytest.raises(HeadwiseError, match="the config of its run is missing"):
        fill(tmp_path / "no config")
    with pytest.raises(HeadwiseError, match="not a run folder"):
        sums(tmp_path / "no config")


def test_a_start_cut_short_is_started_again(tmp_path: Path) -> None:
    (tmp_path / "journal.sqlite").touch()
    (tmp_path / "config.yaml.new").write_text("seed: ")
    fill(tmp_path)
    assert sums(tmp_path) == [7, 8, 9]
