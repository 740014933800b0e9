"""The benchmark of alternatives: its table against counts by hand, and the number of trained parameters."""

import torch
from benchmarks.alternatives import Row, count_trained, summary

from headwise.tuning import TuningSettings
from tests.tuning.test_loop import build

ROWS = [
    Row("pos", "zh", "biases", 70.0, 2.0, 1.0, 3.0, 0.01, 100, 400, 50.0, 1.0, {"tr": -1.0, "de": 0.5}),
    Row("pos", "tr", "biases", 60.0, -1.0, -2.0, -0.5, 0.02, 100, 400, 150.0, 2.0, {"zh": 0.0, "de": -2.5}),
    Row("pos", "zh", "likely", 70.0, 0.5, -0.5, 1.5, 0.3, 144, 18, 10.0, 0.5, {}),
]


def test_the_summary_has_means_and_the_worst_change() -> None:
    found = summary(ROWS)["pos"]
    assert found["biases"] == {
        **{"gain": 0.5, "better": 1, "worse": 1, "of": 2, "parameters": 100, "bytes": 400, "units": 100},
        **{"minutes": 1.5, "others_mean": -0.75, "others_worst": -2.5},
    }
    assert (found["likely"]["better"], found["likely"]["worse"]) == (0, 0)
    assert "others_mean" not in found["likely"]


def test_trained_parameters_are_counted_and_the_model_stays() -> None:
    model = build()
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    classifier = 17 * 32 + 17
    inside = [(name, weight) for name, weight in before.items() if name.startswith("bert.")]
    biases = sum(weight.numel() for name, weight in inside if name.endswith("bias"))
    assert count_trained(model, TuningSettings(biases_only=True)) == biases + classifier
    layers = 3 * (4 * (32 + 32) + 2 * (32 + 24))  # input and output sizes of the linear layers
    assert count_trained(model, TuningSettings(lora_rank=2)) == 2 * layers + classifier
    assert all(torch.equal(before[name], weight) for name, weight in model.named_parameters())
