"""Tuned cells as tasks of a cluster: the results of the process of the study, and finished cells are kept."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise.engine.ray_tasks import TaskResources
from headwise.errors import HeadwiseError
from headwise.masks import HeadMask
from headwise.runs import open_run
from headwise.scoring import Setting, load_setting
from headwise.studies.grid import Cell, CellTuning, Grid
from headwise.tuning import TuningSettings
from tests.engine.clusters import FakeCluster
from tests.scoring.world import save_model, save_training_data


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    folder = tmp_path_factory.mktemp("world")
    save_training_data(folder / "data")
    return load_setting(str(save_model(folder / "model")), "pos", str(folder / "data"))


def make_cells(setting: Setting) -> list[Cell]:
    """Two tuned models, one of them without two heads and also measured after its first epoch, and two plain cells."""
    mask = HeadMask.without(setting.heads, ["encoder.0.1", "encoder.2.2"])
    tuning = CellTuning(("en",), TuningSettings(epochs=2, learning_rate=1e-2, batch_tokens=16))
    return [
        *(Cell(language, "test", mask, tuning=tuning) for language in ("en", "sw")),
        Cell("sw", "test", mask, tuning=tuning, epoch=1),
        Cell("sw", "test", tuning=tuning, only=(1, 0)),
        *(Cell(language, "test", mask) for language in ("en", "sw")),
    ]


def on(setting: Setting, cluster: FakeCluster) -> Setting:
    from dataclasses import replace

    return replace(setting, make_engine=cluster.make_engine)


def test_cells_on_a_cluster_have_the_results_of_this_process(setting: Setting, tmp_path: Path) -> None:
    cells = make_cells(setting)
    with open_run(tmp_path / "here", {"seed": 0}) as run:
        here = Grid(setting, run.journal, tmp_path / "here")
        expected, tuning = here.measure(cells), here.tuning(cells[0])
    shown: list[Any] = []
    with FakeCluster(2) as cluster, open_run(tmp_path / "cluster", {"seed": 0}) as run:
        grid = Grid(on(setting, cluster), run.journal, tmp_path / "cluster")
        found = grid.measure(cells, lambda *each: shown.append(each))
        assert cluster.tasks == 2, "one task for each tuned model"
        assert grid.tuning(cells[0]).history == tuning.history
        assert not (tmp_path / "cluster" / "tuning").exists()
    assert list(found) == cells
    assert all(np.array_equal(found[cell], expected[cell]) for cell in cells)
    assert not np.array_equal(expected[cells[1]], expected[cells[2]]), "the second epoch changed something"
    assert shown[-1][:2] == (6, 6)


def test_a_study_that_was_stopped_keeps_the_cells_of_finished_tasks(setting: Setting, tmp_path: Path) -> None:
    cells = make_cells(setting)
    with open_run(tmp_path / "whole", {"seed": 0}) as run:
        expected = Grid(setting, run.journal).measure(cells)

    def stop(_done: int, _total: int, status: str) -> None:
        if status.endswith("tuned and tested"):
            raise KeyboardInterrupt

    with FakeCluster(1) as cluster, open_run(tmp_path / "run", {"seed": 0}) as run:
        with pytest.raises(KeyboardInterrupt):
            Grid(on(setting, cluster), run.journal).measure(cells, stop)
        assert cluster.tasks == 1
    with FakeCluster(1) as cluster, open_run(tmp_path / "run", {"seed": 0}) as run:
        found = Grid(on(setting, cluster), run.journal).measure(cells)
        assert cluster.tasks == 1, "only the other model is tuned"
    assert all(np.array_equal(found[cell], expected[cell]) for cell in cells)


def test_an_epoch_after_the_end_of_tuning_is_named(setting: Setting, tmp_path: Path) -> None:
    tuning = CellTuning(("en",), TuningSettings(epochs=5, learning_rate=1e-9, patience=1))
    with FakeCluster(1) as cluster, open_run(tmp_path / "run", {"seed": 0}) as run:
        grid = Grid(on(setting, cluster), run.journal)
        with pytest.raises(HeadwiseError, match="tuning stopped after epoch 2: set patience to 0"):
            grid.measure([Cell("en", "test", tuning=tuning, epoch=5)])


def test_a_model_that_was_tuned_here_is_only_measured(setting: Setting, tmp_path: Path) -> None:
    tuning = CellTuning(("en",), TuningSettings(epochs=1))
    with open_run(tmp_path / "here", {"seed": 0}) as run:
        expected = Grid(setting, run.journal).measure([Cell("sw", "test", tuning=tuning)])
    with FakeCluster(2) as cluster, open_run(tmp_path / "run", {"seed": 0}) as run:
        grid = Grid(on(setting, cluster), run.journal, tmp_path / "run")
        grid.tuned_setting(tuning)
        found = grid.measure([Cell("sw", "test", tuning=tuning)])
        assert cluster.tasks == 0
    one, other = (next(iter(each.values())) for each in (found, expected))
    assert np.array_equal(one, other)


def test_a_cell_that_needs_more_than_the_cluster_has_is_named() -> None:
    with pytest.raises(HeadwiseError, match="needs 4 CPUs and 0 GPUs, but the cluster has 2 CPUs and 0 GPUs"):
        TaskResources(cpus=4).most_at_once({"CPU": 2.0})
    with pytest.raises(HeadwiseError, match=r"needs 1 CPUs and 0\.5 GPUs"):
        TaskResources(gpus=0.5).most_at_once({"CPU": 2.0})
