"""One mask after the other: the values of plain passes, at the cost of the layers from the first change upwards."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from headwise import HeadwiseError
from headwise.engine import EngineSettings, LocalEngine
from headwise.engine.resuming import ResumingEngine, StoppedError
from headwise.games import GenerationGame
from headwise.tasks.text_metrics import ChrF
from tests.engine.worlds import ANSWERING, make_engine, plain_values
from tests.families import BY_NAME, Case


def full(engine: LocalEngine) -> NDArray[np.bool_]:
    return np.ones(len(engine.players), dtype=bool)


def without(engine: LocalEngine, *names: str) -> NDArray[np.bool_]:
    return np.array([name not in names for name in engine.players.names])


@pytest.mark.parametrize("case", ANSWERING, ids=lambda case: case.name)
def test_values_are_those_of_plain_passes_in_every_family(case: Case) -> None:
    engine = make_engine(case)
    resuming, draw = ResumingEngine(engine), np.random.default_rng(0)
    gates, every = full(engine), np.arange(len(engine.examples))
    for head in draw.permutation(len(gates))[:4]:  # heads of several layers, one after the other
        gates[head] ^= True
        found = resuming.values(gates)
        plain = plain_values(engine, np.tile(gates, (len(every), 1)), every)
        torch.testing.assert_close(found.values, plain, atol=1e-5, rtol=1e-4)
        whole = engine.values(np.tile(gates, (len(every), 1)), every)
        assert torch.equal(found.values, whole.values), "the same bits as the engine"


def test_a_toggle_costs_the_layers_from_its_head_upwards() -> None:
    engine = make_engine(BY_NAME["xlm-roberta"])  # 3 layers, 5 examples
    resuming = ResumingEngine(engine)
    assert resuming.values(full(engine)).cost.units == 5
    costs = {layer: resuming.values(without(engine, f"encoder.{layer}.1")).cost for layer in range(3)}
    assert {layer: cost.layer_passes for layer, cost in costs.items()} == {0: 15, 1: 10, 2: 5}
    assert sum(cost.units for cost in costs.values()) / 3 == pytest.approx(5 * (3 + 2 + 1) / 9)


def test_the_layers_that_are_counted_are_those_that_run() -> None:
    engine = make_engine(BY_NAME["xlm-roberta"])
    resuming, ran = ResumingEngine(engine), []
    for layer, module in enumerate(engine.model.roberta.encoder.layer):
        module.attention.register_forward_hook(lambda *_, layer=layer: ran.append(layer))
    resuming.values(full(engine))
    ran.clear()
    resuming.values(without(engine, "encoder.1.0"))
    assert set(ran) == {1, 2}
    ran.clear()
    assert resuming.values(full(engine)).cost.units == 0
    assert ran == []


def test_a_second_change_starts_from_the_mask_before_it() -> None:
    engine = make_engine(BY_NAME["xlm-roberta"])
    resuming = ResumingEngine(engine)
    resuming.values(full(engine))
    resuming.values(without(engine, "encoder.0.0"))
    assert resuming.values(without(engine, "encoder.0.0", "encoder.2.3")).cost.layer_passes == 5
    assert resuming.values(without(engine, "encoder.2.3")).cost.layer_passes == 5, "the whole model is still known"


@pytest.mark.parametrize(("share", "passes"), [(0.0, 15), (0.4, 10), (0.7, 5), (1.0, 5)])
def test_with_little_memory_low_layers_are_kept(share: float, passes: int) -> None:
    engine = make_engine(BY_NAME["xlm-roberta"])
    whole = ResumingEngine(engine)
    expected = whole.values(without(engine, "encoder.2.0")).values
    batches = whole._batches
    resuming = ResumingEngine(engine, int(share * sum(outputs.bytes for _, outputs in batches)) + len(batches))
    resuming.values(full(engine))
    found = resuming.values(without(engine, "encoder.2.0"))
    assert torch.equal(found.values, expected)
    assert found.cost.layer_passes == passes
    assert all(outputs.bytes <= outputs.limit for _, outputs in resuming._batches)


def test_a_stopped_computation_keeps_what_it_has() -> None:
    engine = make_engine(BY_NAME["xlm-roberta"], settings=EngineSettings(token_budget=8))  # one example per batch
    resuming, asked = ResumingEngine(engine), []

    def after_two() -> bool:
        asked.append(True)
        return len(asked) > 2

    with pytest.raises(StoppedError):
        resuming.values(full(engine), after_two)
    assert resuming.values(full(engine)).cost.units == 3


def test_nothing_stays_on_the_model_also_after_an_error() -> None:
    engine = make_engine(BY_NAME["xlm-roberta"])
    resuming, layers = ResumingEngine(engine), engine.model.roberta.encoder.layer
    resuming.values(full(engine))

    def fail(*_: Any) -> None:
        raise RuntimeError("broken")

    handle = layers[2].register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError):
        resuming.values(without(engine, "encoder.0.0"))
    handle.remove()
    assert all("forward" not in vars(layer) for layer in layers)
    every = np.arange(5)
    expected = engine.values(np.tile(without(engine, "encoder.0.0"), (5, 1)), every).values
    assert torch.equal(resuming.values(without(engine, "encoder.0.0")).values, expected)


def test_generated_texts_cannot_be_resumed() -> None:
    game = GenerationGame(ChrF(), None, ("",) * 5, 1)
    with pytest.raises(HeadwiseError, match="single sequences"):
        ResumingEngine(make_engine(BY_NAME["t5"], game))
