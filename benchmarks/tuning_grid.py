"""What a grid of tuned cells saves: 13 cells of one grid against 13 separate runs that tune and measure.

    python -m benchmarks.tuning_grid [--quick]

Both tune e5-small on English slots of the generated commands, whole and without 1 to 12 heads, and measure another
language. A separate run loads the model and the data, encodes, tunes and measures, like `headwise tune` and
`headwise eval`, but in one process, so that starting Python is not counted. Grid and separate runs alternate cell by
cell, and CPU time is compared. The grid is then run again and killed 5 times. The last line is JSON: `grid_speedup` is
the ratio of the times, and `resumed_equal` is 1 if the killed grid has the same results to the last digit.
"""

import argparse
import json
import tempfile
import time
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


def cells_of(heads: Any, count: int, tuning: CellTuning) -> list[Cell]:
    """The whole model, and models without 1, 2, … of the first heads of all layers."""
    names = sorted(heads.players(), key=lambda name: int(name.rpartition(".")[2]))
    masks = [HeadMask.without(heads, names[:off]) if off else None for off in range(count)]
    return [Cell(TARGET, "test", mask, tuning=tuning) for mask in masks]


def tune_alone(cell: Cell) -> Array:
    """One cell as a run of its own: load, shrink, tune, measure."""
    assert cell.tuning is not None
    data = open_dataset(DATA, TASK)
    model, tokenizer = load_model(MODEL), load_tokenizer(MODEL)
    if cell.mask is not None:
        model = shrink(model, cell.mask.moved_to(find_heads(model)), inplace=True)
    tuning = cell.tuning
    examples = [example for code in (SOURCE, TARGET) for example in data.examples(code, "train")]
    task = find_task(TASK, labels_of(examples))
    tuned = tune(model, tokenizer, data, task, tuning.languages, settings=tuning.settings, share=tuning.share)
    assert isinstance(tuned.task, Task)
    return evaluate(tuned.model, tuned.task, data.examples(TARGET, "test"), tokenizer).statistics


def compare(cells: list[Cell], folder: Path) -> tuple[dict[Cell, Array], float, float]:
    """The results of the grid, and the CPU seconds of the grid and of separate runs, interleaved."""
    found: dict[Cell, Array] = {}
    start = time.process_time()
    setting, classifier = load()
    shared, alone = time.process_time() - start, 0.0
    with open_run(folder, {"seed": 0}) as run:
        grid = Grid(setting, run.journal, folder, classifier)
        for number, cell in enumerate(cells):
            start = time.process_time()
            found |= grid.measure([cell])
            shared += time.process_time() - start
            start = time.process_time()
            expected = tune_alone(cell)
            alone += time.process_time() - start
            same = np.array_equal(found[cell], expected)
            print(
                f"{number} heads removed: {shared:.1f} s in the grid, {alone:.1f} s alone, same result: {same}",
                flush=True,
            )
    return found, shared, alone


def load() -> tuple[Any, NewClassifier | None]:
    """The setting of the grid."""
    return load_untuned(ScoringPlan(MODEL, TASK, DATA), f"{SOURCE},{TARGET}")


def run_killed(cells: list[Cell], folder: Path) -> dict[Cell, Array]:
    """The results of a grid that is killed at regular numbers of steps and resumed."""
    setting, classifier = load()
    for attempt in range(KILLS + 1):
        steps = 0

        def kill(_done: int, _total: int, status: str, attempt: int = attempt) -> None:
            nonlocal steps
            steps += ": epoch " in status
            if attempt < KILLS and steps == 3 + 2 * attempt:
                raise KilledError

        with open_run(folder, {"seed": 0}) as run:
            try:
                return Grid(setting, run.journal, folder, classifier).measure(cells, kill)
            except KilledError:
                print(f"killed after {steps} steps", flush=True)
    raise AssertionError("the last attempt is not killed")


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="4 cells, one epoch on a tenth of the data")
    quick = parser.parse_args().quick
    settings = TuningSettings(epochs=1 if quick else 3, learning_rate=1e-4, batch_tokens=256)
    tuning = CellTuning((SOURCE,), settings, 0.1 if quick else 1.0)
    cells = cells_of(load()[0].heads, 4 if quick else 13, tuning)
    with tempfile.TemporaryDirectory() as folder:
        found, shared, alone = compare(cells, Path(folder) / "grid")
        killed = run_killed(cells, Path(folder) / "killed")
    equal = all(np.array_equal(found[cell], killed[cell]) for cell in cells)
    figures = {"cells": len(cells), "grid_seconds": round(shared, 1), "separate_seconds": round(alone, 1)}
    print(json.dumps({**figures, "grid_speedup": round(alone / shared, 2), "resumed_equal": int(equal)}))


if __name__ == "__main__":
    main()
