"""Writers of runs, in this process or in one to be killed, and what they leave: read back, or damaged."""

import contextlib
import signal
import sqlite3
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np

import headwise
from headwise.runs import open_run, read_run

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
import filelock
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


def tamper(folder: Path, **columns: Any) -> None:
    """Change columns of round 1 of 'fr' by hand; changed arrays get the right checksum."""
    if isinstance(packed := columns.get("arrays"), str | bytes):
        columns["checksum"] = zlib.crc32(packed.encode() if isinstance(packed, str) else packed)
    changes = ", ".join(f"{name} = ?" for name in columns)
    with contextlib.closing(sqlite3.connect(folder / "journal.sqlite")) as journal, journal:
        journal.execute(f"UPDATE rounds SET {changes} WHERE stream = 'fr' AND number = 1", (*columns.values(),))


def damage(file: Path, at: int, count: int) -> None:
    data = bytearray(file.read_bytes())
    data[at : at + count] = bytes(byte ^ 0xFF for byte in data[at : at + count])
    file.write_bytes(data)
