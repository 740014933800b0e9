"""Tuned cells: they share what does not differ, continue where they were stopped, and equal tuning by hand."""

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, BertForTokenClassification, BertModel

from headwise import HeadMask, HeadwiseError, shrink
from headwise.engine.evaluation import evaluate
from headwise.runs import open_run
from headwise.scoring import ScoringPlan, Setting, load_setting
from headwise.studies.grid import Cell, CellTuning, Grid
from headwise.studies.parts import Part
from headwise.studies.tuned import MODELS, STATES
from headwise.tasks import Task
from headwise.tuning import TuningSettings, tune
from headwise.tuning.untuned import load_untuned
from tests.scoring.world import save_model, save_training_data

SETTINGS = TuningSettings(epochs=3, learning_rate=1e-2, batch_tokens=8)
TUNING = CellTuning(("en",), SETTINGS)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tagger in `model`, the same encoder without a classifier in `encoder`, and treebanks with training data."""
    folder = tmp_path_factory.mktemp("world")
    save_training_data(folder / "data")
    save_model(folder / "model")
    encoder = BertForTokenClassification.from_pretrained(folder / "model").bert
    encoder.save_pretrained(folder / "encoder")
    AutoTokenizer.from_pretrained(folder / "model").save_pretrained(folder / "encoder")
    return folder


@pytest.fixture(scope="module")
def setting(world: Path) -> Setting:
    return load_setting(str(world / "model"), "pos", str(world / "data"))


def masks(setting: Setting) -> list[HeadMask]:
    return [HeadMask.without(setting.heads, off) for off in (["encoder.0.1"], ["encoder.1.0", "encoder.2.3"])]


def test_every_example_is_encoded_once_for_all_tuned_cells(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: Counter[Any] = Counter()
    encode = Task.encode

    def counted(task: Task, examples: Any, tokenizer: Any) -> Any:
        encoded.update((len(examples), example) for example in examples)
        return encode(task, examples, tokenizer)

    monkeypatch.setattr(Task, "encode", counted)
    fresh = load_setting(str(world / "model"), "pos", str(world / "data"))
    tunings = [TUNING, CellTuning(("en", "sw"), SETTINGS), CellTuning(("en", "sw"), SETTINGS, 0.5)]
    cells = [Cell("fi", "test", mask, tuning=tuning) for mask in (None, *masks(fresh)) for tuning in tunings]
    with open_run(tmp_path / "run", {"seed": 0}) as run:
        Grid(fresh, run.journal).measure(cells)
    # Train and dev have the same sentences and share their encoding; the Finnish sentences are encoded as test data.
    assert set(encoded.values()) == {1}
    assert len(encoded) == 4 + 4 + 2


def test_frozen_embeddings_are_shared_and_nothing_else(setting: Setting, tmp_path: Path) -> None:
    with open_run(tmp_path / "run", {"seed": 0}) as run:
        models = Grid(setting, run.journal)._models
        copied, frozen = setting.model, models.start(None, TUNING)
        whole = models.start(None, CellTuning(("en",), dataclasses.replace(SETTINGS, freeze_embeddings=False)))
    same = {
        name
        for name, each in frozen.named_parameters()
        if each.data_ptr() == dict(copied.named_parameters())[name].data_ptr()
    }
    assert same == {"bert.embeddings.word_embeddings.weight"}
    assert all(each.requires_grad for each in (*copied.parameters(), *whole.parameters()))
    assert not {each.data_ptr() for each in whole.parameters()} & {each.data_ptr() for each in copied.parameters()}


def test_the_tuning_is_part_of_the_measurement(setting: Setting, tmp_path: Path) -> None:
    [mask, _] = masks(setting)
    cell = Cell("sw", "test", mask, tuning=TUNING)
    with open_run(tmp_path / "run", {"seed": 0}) as run:
        grid = Grid(setting, run.journal)
        with pytest.raises(HeadwiseError, match="not measured yet"):
            grid.tuning(cell)
        grid.measure([cell])
        found = Grid(setting, run.journal).tuning(cell)
    small = shrink(setting.model, mask)
    expected = tune(small, setting.tokenizer, setting.dataset, setting.task, ("en",), settings=SETTINGS).result
    assert found == expected
    assert len(found.history) == 3
    assert found.seconds > 0


def test_a_cell_may_be_measured_after_an_earlier_epoch(setting: Setting, tmp_path: Path) -> None:
    cells = [Cell("en", "dev", tuning=TUNING, epoch=epoch) for epoch in (1, 2, 3, None)]
    with open_run(tmp_path / "run", {"seed": 0}) as run:
        grid = Grid(setting, run.journal)
        found = grid.measure(cells)
        result = grid.tuning(cells[0])
    assert isinstance(setting.task, Task)
    values = [float(setting.task.metric.value(found[cell].sum(0))) for cell in cells]
    assert values == [*(epoch.value for epoch in result.history), result.best_value]
    assert len(set(values)) > 1
    with pytest.raises(HeadwiseError, match="epoch"):
        Cell("en", "dev", tuning=TUNING, epoch=4)


class KilledError(Exception):
    """Stands for a kill."""


def test_a_killed_grid_continues_in_its_cell_and_gives_the_same_bits(setting: Setting, tmp_path: Path) -> None:
    cells = [Cell("en", "test", mask, tuning=TUNING) for mask in (None, *masks(setting))]
    cells += [dataclasses.replace(cell, language="sw", epoch=2) for cell in cells]
    with open_run(tmp_path / "whole", {"seed": 0}) as run:
        grid = Grid(setting, run.journal)
        expected, results = grid.measure(cells), [grid.tuning(cell) for cell in cells]
    folder, epochs = tmp_path / "killed", []
    for stop in (2, 5, 7, 12, 10**9):
        calls = 0

        def kill(_done: int, _total: int, status: str, stop: int = stop) -> None:
            nonlocal calls
            epochs.append(status.partition(": epoch ")[2][:1])
            calls += ": epoch " in status
            if calls == stop:
                raise KilledError

        with open_run(folder, {"seed": 0}) as run:
            grid = Grid(setting, run.journal, folder)
            try:
                found = grid.measure(cells, kill)
            except KilledError:
                continue
            again = [grid.tuning(cell) for cell in cells]
    assert stop == 10**9
    assert all(np.array_equal(found[cell], expected[cell]) for cell in cells)
    assert again == results
    assert not (folder / STATES).exists()
    steps = results[0].steps // 3
    # Each kill repeats at most the epoch that it interrupted.
    assert sum(map(bool, epochs)) <= 3 * 3 * steps + 4 * steps
    assert "2" in epochs
    assert "3" in epochs


def test_keys_do_not_depend_on_what_does_not_matter(setting: Setting, tmp_path: Path) -> None:
    [mask, _] = masks(setting)
    named = HeadMask.without(setting.heads, ["encoder.0.1"], language="sw")
    cell = Cell("en", "test", mask, tuning=TUNING)
    same = [
        dataclasses.replace(cell, mask=named, series="other"),
        dataclasses.replace(cell, tuning=CellTuning(("en", "en"), dataclasses.replace(SETTINGS, patience=3))),
        dataclasses.replace(cell, tuning=CellTuning(("en",), SETTINGS, 0.5, own=(("en", 1.0),))),
        dataclasses.replace(cell, limit=10**6),
    ]
    other = [
        dataclasses.replace(cell, mask=None),
        dataclasses.replace(cell, epoch=1),
        dataclasses.replace(cell, limit=2),
        *(
            dataclasses.replace(cell, tuning=tuning)
            for tuning in (
                None,
                CellTuning(("en", "sw"), SETTINGS),
                CellTuning(("sw", "en"), SETTINGS),
                CellTuning(("en",), SETTINGS, 0.5),
                CellTuning(("en",), dataclasses.replace(SETTINGS, patience=1)),
                CellTuning(("en",), dataclasses.replace(SETTINGS, seed=1)),
            )
        ),
    ]
    with open_run(tmp_path / "run", {"seed": 0}) as run:
        grid = Grid(setting, run.journal)
        assert {grid._key(each) for each in same} == {grid._key(cell)}
        assert len({grid._key(each) for each in (cell, *other)}) == 1 + len(other)


def test_a_model_without_a_classifier_gets_the_one_of_its_seed(world: Path, tmp_path: Path) -> None:
    setting, classifier = load_untuned(ScoringPlan(str(world / "encoder"), "pos", str(world / "data")), "en,sw")
    assert classifier is not None
    assert set(classifier.names) == {"classifier.weight", "classifier.bias"}
    seeds = [CellTuning(("en",), dataclasses.replace(SETTINGS, seed=seed)) for seed in (0, 1)]
    cells = [Cell("sw", "test", mask, tuning=tuning) for tuning in seeds for mask in (None, masks(setting)[0])]
    with open_run(tmp_path / "run", {"seed": 0}) as run:
        grid = Grid(setting, run.journal, classifier=classifier)
        starts = [grid._models.start(cell.mask, tuning).classifier.weight for cell in cells if (tuning := cell.tuning)]
        found = grid.measure(cells)
    assert torch.equal(starts[0], starts[1])
    assert torch.equal(starts[2], starts[3])
    assert not torch.equal(starts[0], starts[2])
    assert isinstance(setting.task, Task)
    for cell, tuning in zip(cells[::2], seeds, strict=True):
        bare = BertModel.from_pretrained(world / "encoder")
        tuned = tune(bare, setting.tokenizer, setting.dataset, "pos", ("en",), settings=tuning.settings)
        examples = setting.dataset.examples("sw", "test")
        assert np.array_equal(found[cell], evaluate(tuned.model, setting.task, examples, setting.tokenizer).statistics)


def test_a_tuned_setting_is_kept_and_measured(
    setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, cell = tmp_path / "run", Cell("en", "test", tuning=TUNING)
    with open_run(folder, {"seed": 0}) as run:
        first = Grid(setting, run.journal, folder).tuned_setting(TUNING)
        monkeypatch.setattr("headwise.studies.tuned.train_encoded", None)
        grid = Grid(setting, run.journal, folder)
        again, measured = grid.tuned_setting(TUNING), grid.measure([cell])[cell]
        assert len(grid.tuning(cell).history) == 3
    assert all(
        torch.equal(one, other) for one, other in zip(first.model.parameters(), again.model.parameters(), strict=True)
    )
    examples = setting.dataset.examples("en", "test")
    assert isinstance(setting.task, Task)
    assert np.array_equal(measured, evaluate(first.model, setting.task, examples, setting.tokenizer).statistics)


@pytest.mark.parametrize("damage", ["cut", "other shapes"])
def test_damaged_weights_of_a_kept_model_are_tuned_again(setting: Setting, tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "run"
    with open_run(folder, {"seed": 0}) as run:
        first = Grid(setting, run.journal, folder).tuned_setting(TUNING)
        [file] = (folder / MODELS).glob("*/*.safetensors")
        if damage == "cut":
            file.write_bytes(file.read_bytes()[:100])
        else:
            save_file({name: each[:1].clone() for name, each in load_file(file).items()}, file)
        again = Grid(setting, run.journal, folder).tuned_setting(TUNING)
    pairs = zip(first.model.parameters(), again.model.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


def test_cells_may_be_tuned_by_adapters(setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tuning = CellTuning(("en",), dataclasses.replace(SETTINGS, lora_rank=2))
    assert "lora_rank" not in TUNING.content, "cells that were measured before are found again"
    [mask, _] = masks(setting)
    cells = [Cell("sw", "test", mask, tuning=tuning, epoch=epoch) for epoch in (1, None)]
    with open_run(tmp_path / "run", {"seed": 0}) as run:
        grid = Grid(setting, run.journal, tmp_path / "run")
        measured = grid.measure(cells)
        tuned = grid.tuned_setting(tuning)
        monkeypatch.setattr("headwise.studies.tuned.train_encoded", None)
        again = Grid(setting, run.journal, tmp_path / "run").tuned_setting(tuning)
    assert all(torch.equal(a, b) for a, b in zip(tuned.model.parameters(), again.model.parameters(), strict=True))
    assert isinstance(setting.task, Task)
    small = tune(
        shrink(setting.model, mask), setting.tokenizer, setting.dataset, setting.task, ("en",), settings=tuning.settings
    )  # fmt: skip
    found = evaluate(small.model, setting.task, setting.dataset.examples("sw", "test"), setting.tokenizer)
    assert np.array_equal(measured[cells[1]], found.statistics)
    assert len(measured[cells[0]]) == len(found.statistics)


def test_shards_divide_the_cells_and_keep_series_together(setting: Setting) -> None:
    cells = [
        Cell(language, "test", mask, tuning=TUNING, series=series)
        for series in ("lowest", "highest", "random")
        for mask in (None, *masks(setting))
        for language in ("en", "sw")
    ]
    parts = [Part(shard=shard, shards=2) for shard in (1, 2)]
    chosen = [part.choose(cells) for part in parts]
    assert sorted(map(len, chosen)) == [6, 12]
    assert not {cell.series for cell in chosen[0]} & {cell.series for cell in chosen[1]}
    # A cell that is added later goes to the shard of its series.
    assert [len(part.choose([cells[-1]])) for part in parts] == [1, 0]
    assert {cell.language for cell in Part("high*sw").choose(cells)} == {"sw"}
    with pytest.raises(HeadwiseError, match="1/4"):
        Part.read(None, "one of four")
    with pytest.raises(HeadwiseError, match="5/5"):
        Part.read(None, "6/5")
