"""The grid: every cell is measured once, with the same result as a direct evaluation."""

import copy
from pathlib import Path

import numpy as np
import pytest

from headwise import HeadMask, SoftMask, gated, shrink
from headwise.engine.evaluation import MaskJudge, evaluate
from headwise.runs import open_run
from headwise.scoring import Setting, load_setting
from headwise.studies.grid import Cell, CellTuning, Grid
from headwise.tasks import Task
from headwise.tuning import TuningSettings, tune
from tests.scoring.world import save_model, save_training_data


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    folder = tmp_path_factory.mktemp("world")
    save_training_data(folder / "data")
    return load_setting(str(save_model(folder / "model")), "pos", str(folder / "data"))


def by_hand(setting: Setting, model: object, language: str) -> np.ndarray:
    assert isinstance(setting.task, Task)
    return evaluate(model, setting.task, setting.dataset.examples(language, "test"), setting.tokenizer).statistics


def test_a_cell_equals_a_plain_evaluation_under_its_mask(setting: Setting, tmp_path: Path) -> None:
    masks = [HeadMask.without(setting.heads, off) for off in (["encoder.0.1"], ["encoder.1.0", "encoder.2.3"])]
    cells = [Cell(language, "test", mask) for language in ("en", "sw") for mask in (None, *masks)]
    with open_run(tmp_path / "run", {"seed": 0}) as run:
        found = Grid(setting, run.journal).measure([*cells, cells[0]])
    assert list(found) == cells
    for cell, statistics in found.items():
        with gated(setting.model, cell.mask or HeadMask.full(setting.heads)):
            assert np.array_equal(statistics, by_hand(setting, setting.model, cell.language))


def test_cells_may_have_soft_masks(setting: Setting, tmp_path: Path) -> None:
    gates = np.linspace(-0.5, 2, len(setting.heads.players()))
    soft = [SoftMask.of(setting.heads, (factor * gates).tolist()) for factor in (1, 0.5)]
    cells = [Cell("en", "test", mask) for mask in (*soft, soft[0].hard(), None)]
    with open_run(tmp_path / "run", {"seed": 0}) as run:
        found = Grid(setting, run.journal).measure(cells)
        assert len({Grid(setting, run.journal)._key(cell) for cell in cells}) == 4
    for cell, statistics in found.items():
        with gated(setting.model, cell.mask or HeadMask.full(setting.heads)):
            assert np.array_equal(statistics, by_hand(setting, setting.model, "en"))


def test_masks_with_the_same_heads_off_are_one_measurement(setting: Setting, tmp_path: Path) -> None:
    masks = [HeadMask.without(setting.heads, ["encoder.0.1"], language=language) for language in ("en", "sw", None)]
    with open_run(tmp_path / "run", {"seed": 0}) as run:
        found = Grid(setting, run.journal).measure(Cell("en", "test", mask) for mask in masks)
    assert len(found) == 3
    assert len({statistics.tobytes() for statistics in found.values()}) == 1


def test_some_examples_are_rows_of_all(setting: Setting, tmp_path: Path) -> None:
    whole, some = Cell("en", "test"), Cell("en", "test", only=(2, 0))
    with open_run(tmp_path / "run", {"seed": 0}) as run:
        found = Grid(setting, run.journal).measure([whole, some])
    assert np.array_equal(found[some], found[whole][[2, 0]])


def test_what_is_in_the_journal_is_not_measured_again(
    setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = [Cell("en", "test", HeadMask.without(setting.heads, [f"encoder.0.{head}"])) for head in range(4)]
    with open_run(tmp_path / "run", {"seed": 0}) as run:
        first = Grid(setting, run.journal).measure(cells)
        monkeypatch.setattr(MaskJudge, "measure", None)
        again = Grid(setting, run.journal).measure(cells)
    assert all(np.array_equal(first[cell], again[cell]) for cell in cells)


def test_a_tuned_cell_equals_pruning_tuning_and_evaluating_directly(setting: Setting, tmp_path: Path) -> None:
    mask, settings = HeadMask.without(setting.heads, ["encoder.0.1", "encoder.2.2"]), TuningSettings(epochs=2)
    tuning = CellTuning(("en",), settings)
    cells = [Cell(language, "test", mask, tuning=tuning) for language in ("en", "sw")]
    before = {name: weight.clone() for name, weight in setting.model.state_dict().items()}
    with open_run(tmp_path / "run", {"seed": 0}) as run:
        found = Grid(setting, run.journal).measure(cells)
    small = shrink(copy.deepcopy(setting.model), mask)
    tuned = tune(small, setting.tokenizer, setting.dataset, setting.task, ("en",), settings=settings).model
    for cell in cells:
        assert np.array_equal(found[cell], by_hand(setting, tuned, cell.language))
    assert all((weight == before[name]).all() for name, weight in setting.model.state_dict().items())


def test_cells_with_different_tuning_have_different_keys(setting: Setting, tmp_path: Path) -> None:
    with open_run(tmp_path / "run", {"seed": 0}) as run:
        grid = Grid(setting, run.journal)
        plain = Cell("en", "test")
        others = [
            Cell("en", "test", tuning=CellTuning(("en",), TuningSettings(epochs=1, seed=seed), share))
            for seed, share in ((0, 1.0), (1, 1.0), (0, 0.5))
        ]
        assert len({grid._key(cell) for cell in (plain, *others)}) == 4
