"""The run folder: its settings (`config.yaml`), its results (`journal.sqlite`), and one writer at a time."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.errors import HeadwiseError
from headwise.files import new_folder
from headwise.runs.config import CONFIG, check_same, merged_config, plain, read_config, seeds_of, write_config
from headwise.runs.journal import Journal, copy_rounds, new_journal, old_journal, read_journal

if TYPE_CHECKING:
    from filelock import BaseFileLock

_JOURNAL = "journal.sqlite"
_LOCK = "writer.lock"
_HOLDER = "writer.pid"
#: Folders of a run with files that are read together.
_RESULTS = ("scores", "masks", "refined")


@dataclass(frozen=True, eq=False)
class Run:
    """An open run folder. Other results are written to `folder`, beside the journal.

    Attributes:
        folder: The folder.
        config: Everything needed to repeat the run, as plain data; `seed` is a list in a merged run.
        journal: Its results so far.
    """

    folder: Path
    config: Mapping[str, Any]
    journal: Journal


@contextmanager
def open_run(
    folder: str | os.PathLike[str],
    config: Mapping[str, Any],
    extendable: Sequence[str] = ("budget",),
    settled: bool = False,
) -> Iterator[Run]:
    """Start a run, or continue the one in the folder, as its only writer.

    The config of a run without any recorded round is replaced by the new one.

    Args:
        folder: The folder of the run; created if it does not exist.
        config: Everything needed to repeat the run, as JSON data; `seed` is an integer.
        extendable: Keys whose number may be larger than when the run started.
        settled: Keep the stored config even if no round is recorded, because the results are in other files.

    Raises:
        HeadwiseError: The folder contains a run with another config, another process is writing to it, it cannot be
            written or is among the results of another run, or its journal is damaged.

    Example:
        >>> import numpy as np, tempfile
        >>> folder = Path(tempfile.mkdtemp()) / "run"
        >>> with open_run(folder, {"seed": 7, "budget": 10}) as run:
        ...     run.journal.record("fr", 0, {"sum": np.ones(3)}, first_draw=0, draws=10)
        >>> with open_run(folder, {"seed": 7, "budget": 20}) as run:
        ...     run.journal.count("fr")
        1
    """
    folder = Path(folder)
    wanted = plain(config)
    [seed] = seeds_of(wanted, "the config of a new run", several=False)
    path = folder / _JOURNAL
    _check_place(folder)
    with ExitStack() as stack:
        stack.enter_context(_locked(folder))
        if (folder / CONFIG).exists():
            stored = read_config(folder)
            journal = stack.enter_context(old_journal(path, seed))
            # A study may have scored in the folder before its first round; another kind of run must not use it.
            if settled or journal.streams() or stored.get("study") != wanted.get("study"):
                check_same(folder, stored, wanted, extendable)
        else:
            stored = {}
            journal = stack.enter_context(new_journal(path, seed))
        if stored != wanted:
            # After the journal: a config without one means that the journal was lost.
            write_config(folder, wanted)
        yield Run(folder, wanted, journal)


@contextmanager
def read_run(folder: str | os.PathLike[str]) -> Iterator[Run]:
    """Read a run without changing it; another process may be writing to it.

    Raises:
        HeadwiseError: There is no run in the folder, or it cannot be read.

    Example:
        >>> import numpy as np, tempfile
        >>> folder = Path(tempfile.mkdtemp()) / "run"
        >>> with open_run(folder, {"seed": 7}) as run:
        ...     run.journal.record("fr", 0, {"sum": np.ones(3)}, first_draw=0, draws=10)
        >>> with read_run(folder) as run:
        ...     run.config, [(found.number, found.arrays["sum"].tolist()) for found in run.journal.rounds("fr")]
        ({'seed': 7}, [(0, [1.0, 1.0, 1.0])])
    """
    folder = Path(folder)
    config = read_config(folder)
    with read_journal(folder / _JOURNAL) as journal:
        yield Run(folder, config, journal)


def merge_runs(folders: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str]) -> None:
    """Copy the rounds of runs that differ only in their seed into a new run folder.

    Args:
        folders: The runs; a merged run may be merged again.
        out: The new folder. Its rounds keep their seeds, and its config lists them.

    Raises:
        HeadwiseError: The configs differ in another key, two runs share a seed, or `out` is not empty.

    Example:
        >>> import numpy as np, tempfile
        >>> top = Path(tempfile.mkdtemp())
        >>> for seed in (1, 2):
        ...     with open_run(top / str(seed), {"seed": seed}) as run:
        ...         run.journal.record("fr", 0, {"sum": np.ones(3)}, first_draw=0, draws=10)
        >>> merge_runs([top / "1", top / "2"], top / "both")
        >>> with read_run(top / "both") as run:
        ...     run.config, [found.seed for found in run.journal.rounds("fr")]
        ({'seed': [1, 2]}, [1, 2])
    """
    configs = [(Path(folder), read_config(Path(folder))) for folder in folders]
    merged = merged_config(configs)
    with new_folder(out) as draft:
        with new_journal(draft / _JOURNAL, None) as target:
            for folder, _ in configs:
                with read_journal(folder / _JOURNAL) as source:
                    copy_rounds(source, target)
        write_config(draft, merged)


def _check_place(folder: Path) -> None:
    """Raise an error if a folder is among the results of another run, which it would damage."""
    for inner in (folder.absolute(), *folder.absolute().parents):
        run = inner.parent
        if inner.name in _RESULTS and (run / CONFIG).is_file() and (run / _JOURNAL).is_file():
            raise HeadwiseError(f"{folder}: this is inside the results of the run {run}: choose another folder")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Create the folder if necessary and hold its lock, which the system releases when the process ends."""
    from filelock import FileLock  # here: reading a run does not need it

    lock, holder = FileLock(folder / _LOCK, mode=0o644), folder / _HOLDER
    try:
        _take(lock, holder)
        yield
    finally:
        if lock.is_locked:
            holder.unlink(missing_ok=True)
            lock.release()


def _take(lock: "BaseFileLock", holder: Path) -> None:
    """Acquire the lock, or raise an error that names the process that has it."""
    from filelock import Timeout

    folder = holder.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(blocking=False)
        # Not in the lock file: on Windows, other processes cannot read a locked file.
        holder.write_text(str(os.getpid()), encoding="utf-8")
    except Timeout:
        raise HeadwiseError(
            f"{folder}: {_writer(holder)} is writing to this run: wait until it ends, or choose another folder"
        ) from None
    except OSError as error:
        raise HeadwiseError(f"{folder}: cannot be written: {error.strerror}: choose another folder") from None


def _writer(holder: Path) -> str:
    """The process that holds the lock, for an error message."""
    with suppress(OSError, ValueError):
        return f"process {int(holder.read_text(encoding='utf-8'))}"
    return "another process"  # it has the lock, but has not written its id yet
