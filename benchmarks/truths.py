"""Stored true values, so that a method can be compared with them without hours of computation."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headwise import HeadScores
from headwise.files import write_bytes
from headwise.heads import hash_weights
from headwise.methods import Problem

Array = NDArray[np.float64]
_COLUMNS = ("weights", "examples", "bfloat16", "language", "seeds", "units", "player", "value", "stderr")


@dataclass(frozen=True)
class Truth:
    """The true values that a method is compared with.

    Attributes:
        values: The values, (players,).
        stderr: Their standard errors, (players,).
        units: Their cost in units.
        seeds: Seeds of the runs that they come from; runs with these seeds must not be compared with them.
    """

    values: Array
    stderr: Array
    units: float
    seeds: tuple[int, ...]


def truth_of(run: HeadScores) -> Truth:
    """The values of one run."""
    seed = run.provenance.seed or 0
    return Truth(run.values(), np.array(run.stderr), run.provenance.units, (seed,))


def pooled(truths: Sequence[Truth]) -> Truth:
    """The mean weighted by units; it is unbiased because the weights do not depend on the values."""
    units = np.array([each.units for each in truths])
    weights = (units / units.sum())[:, None]  # (truths, 1)
    values = (weights * np.array([each.values for each in truths])).sum(0)
    errors = weights * np.array([each.stderr for each in truths])  # (truths, players)
    seeds = tuple(seed for each in truths for seed in each.seeds)
    return Truth(values, (errors**2).sum(0) ** 0.5, float(units.sum()), seeds)


def load_truth(path: Path, problem: Problem) -> Truth:
    """Load the true values of a problem from a table."""
    if not path.is_file():
        raise SystemExit(f"--truth {path}: no such file")
    if (found := find_truth(path, problem)) is None:
        kind = "bfloat16" if problem.settings.bfloat16 else "single precision"
        raise SystemExit(f"{path}: has no values of this model in {kind} and these examples of {problem.language}")
    return found


def find_truth(path: Path, problem: Problem) -> Truth | None:
    """The true values of a problem in a table; None if it has none."""
    rows = {row["player"]: row for row in _rows(path) if _is_of(row, _key(problem))}
    if set(rows) != set(problem.players.names):
        return None
    ordered = [rows[name] for name in problem.players.names]
    values, errors = (np.array([float(row[name]) for row in ordered]) for name in ("value", "stderr"))
    return Truth(values, errors, float(ordered[0]["units"]), tuple(map(int, ordered[0]["seeds"].split())))


def add_truth(path: Path, problem: Problem, truth: Truth) -> None:
    """Add the true values of a problem to a table, replacing existing ones."""
    key = _key(problem)
    kept = [row for row in _rows(path) if not _is_of(row, key)] if path.exists() else []
    shared = {**key, "seeds": " ".join(map(str, truth.seeds)), "units": f"{truth.units:.0f}"}
    numbers = zip(problem.players.names, truth.values, truth.stderr, strict=True)
    new = [
        {**shared, "player": name, "value": f"{value:.4e}", "stderr": f"{error:.1e}"} for name, value, error in numbers
    ]
    file = io.StringIO()
    table = csv.DictWriter(file, _COLUMNS, lineterminator="\n")
    table.writeheader()
    table.writerows([*kept, *new])
    write_bytes(path, file.getvalue().encode())


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _is_of(row: dict[str, str], key: dict[str, str]) -> bool:
    return all(row.get(name) == value for name, value in key.items())


def _key(problem: Problem) -> dict[str, str]:
    """The columns that identify a problem."""
    return {
        "weights": str(hash_weights(problem.model)),
        "examples": str(problem.data),
        "bfloat16": str(problem.settings.bfloat16),
        "language": str(problem.language),
    }
