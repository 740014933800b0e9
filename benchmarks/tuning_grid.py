"""What a grid of tuned cells saves: 13 cells of one grid against 13 separate runs that tune and measure.

    python -m benchmarks.tuning_grid [--quick]

Both tune e5-small on English slots of the generated commands, whole and without 1 to 12 heads, and measure another
language. A separate run is a process that starts Python, loads the model and the data, encodes, tunes and measures:
`headwise tune` and `headwise eval` in one command, without writing the model. Grid and separate runs alternate cell by
cell, and CPU time is compared, with the start of Python on both sides. The grid is then run again and killed 5 times.
The last line is JSON: `grid_speedup` is the ratio of the times, and `resumed_equal` is 1 if the killed grid has the
same results to the last digit.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headwise import HeadMask, find_heads, shrink
from headwise.data.catalog import open_dataset
from headwise.engine.evaluation import evaluate
from headwise.models import load_model, load_tokenizer
from headwise.runs import open_run
from headwise.scoring import ScoringPlan
from headwise.studies.grid import Array, Cell, CellTuning, Grid
from headwise.tasks import Task, find_task, labels_of
from headwise.tuning import TuningSettings, tune
from headwise.tuning.untuned import NewClassifier, load_untuned

MODEL, TASK, DATA, SOURCE, TARGET = "e5-small", "slots", "commands", "en", "de"
KILLS = 5


class KilledError(Exception):
    """Stands for a kill."""


@dataclass(frozen=True)
class Compared:
    """A grid and separate runs: the cells, the results, CPU seconds of both, and the steps of an epoch."""

    cells: list[Cell]
    found: dict[Cell, Array]
    shared: float
    alone: float
    epoch_steps: int


def cells_of(heads: Any, quick: bool) -> list[Cell]:
    """The whole model, and models without 1, 2, … of the first heads of all layers."""
    settings = TuningSettings(epochs=2 if quick else 3, learning_rate=1e-4, batch_tokens=128 if quick else 256)
    tuning, count = CellTuning((SOURCE,), settings, 0.05 if quick else 1.0), 3 if quick else 13
    names = sorted(heads.players(), key=lambda name: int(name.rpartition(".")[2]))
    masks = [HeadMask.without(heads, names[:off]) if off else None for off in range(count)]
    return [Cell(TARGET, "test", mask, tuning=tuning, limit=50 if quick else None) for mask in masks]


def tune_alone(number: int, quick: bool) -> Array:
    """One cell as a run of its own: load, shrink, tune, measure."""
    data = open_dataset(DATA, TASK)
    model, tokenizer = load_model(MODEL), load_tokenizer(MODEL)
    cell = cells_of(find_heads(model), quick)[number]
    assert cell.tuning is not None
    if cell.mask is not None:
        model = shrink(model, cell.mask, inplace=True)
    tuning = cell.tuning
    examples = [example for code in (SOURCE, TARGET) for example in data.examples(code, "train")]
    task = find_task(TASK, labels_of(examples))
    tuned = tune(model, tokenizer, data, task, tuning.languages, settings=tuning.settings, share=tuning.share)
    assert isinstance(tuned.task, Task)
    return evaluate(tuned.model, tuned.task, data.examples(TARGET, "test")[: cell.limit], tokenizer).statistics


def run_alone(number: int, quick: bool, folder: Path) -> tuple[Array, float]:
    """The result of one cell in a process of its own, and its CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    path = folder / f"{number}.npy"
    command = [sys.executable, "-m", "benchmarks.tuning_grid", "--alone", str(number), "--out", str(path)]
    subprocess.run([*command, *(["--quick"] if quick else [])], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return np.load(path), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare(quick: bool, folder: Path) -> Compared:
    """Measure the cells in a grid and alone, in turn."""
    setting, classifier = load()
    cells, alone = cells_of(setting.heads, quick), 0.0
    found: dict[Cell, Array] = {}
    with open_run(folder / "grid", {"seed": 0}) as run:
        grid = Grid(setting, run.journal, folder / "grid", classifier)
        for number, cell in enumerate(cells):
            found |= grid.measure([cell])
            expected, seconds = run_alone(number, quick, folder)
            alone += seconds
            shared = time.process_time()  # of this process, with the start of Python
            same = np.array_equal(found[cell], expected)
            print(f"{number} heads removed: grid {shared:.1f} s, alone {alone:.1f} s, same result: {same}", flush=True)
        result = grid.tuning(cells[0])
    return Compared(cells, found, shared, alone, result.steps // len(result.history))


def load() -> tuple[Any, NewClassifier | None]:
    """The setting of the grid."""
    return load_untuned(ScoringPlan(MODEL, TASK, DATA), f"{SOURCE},{TARGET}")


def run_killed(cells: list[Cell], folder: Path, steps_before_kill: int) -> dict[Cell, Array]:
    """The results of a grid that is killed 5 times after a number of steps, and resumed."""
    setting, classifier = load()
    for attempt in range(KILLS + 1):
        steps = 0

        def kill(_done: int, _total: int, status: str, attempt: int = attempt) -> None:
            nonlocal steps
            steps += ": epoch " in status
            if attempt < KILLS and steps == steps_before_kill:
                raise KilledError

        with open_run(folder, {"seed": 0}) as run:
            try:
                return Grid(setting, run.journal, folder, classifier).measure(cells, kill)
            except KilledError:
                print(f"killed after {steps} steps", flush=True)
    raise AssertionError("the last attempt is not killed")


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="3 cells, two epochs on little data: under 2 minutes")
    parser.add_argument("--alone", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.alone is not None:
        np.save(asked.out, tune_alone(asked.alone, asked.quick))
        return
    with tempfile.TemporaryDirectory() as folder:
        compared = compare(asked.quick, Path(folder))
        # Each attempt finishes one epoch and is killed in the next one.
        killed = run_killed(compared.cells, Path(folder) / "killed", 1 + compared.epoch_steps * 5 // 4)
    equal = all(np.array_equal(compared.found[cell], killed[cell]) for cell in compared.cells)
    seconds = {"grid_seconds": round(compared.shared, 1), "separate_seconds": round(compared.alone, 1)}
    ratio = round(compared.alone / compared.shared, 2)
    print(json.dumps({"cells": len(killed), **seconds, "grid_speedup": ratio, "resumed_equal": int(equal)}))


if __name__ == "__main__":
    main()
