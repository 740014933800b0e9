"""gated: what a gate does to heads, blocks and layers, and that it leaves nothing behind."""

from typing import Any

import pytest
import torch

from headwise import HeadMask, HeadwiseError, find_heads, fold, gated, shrink
from headwise.errors import MaskMismatchError
from headwise.heads import PlayerKind
from tests.families import (
    BY_NAME,
    Case,
    difference,
    inputs_for,
    no_trace_left,
    outputs_of,
    random_mask,
    row_of,
    uneven_mask,
)

KINDS: tuple[PlayerKind, ...] = ("heads", "ffn", "layers")


@pytest.mark.parametrize("players", KINDS)
@torch.no_grad()
def test_gates_of_one_change_nothing(case: Case, players: PlayerKind) -> None:
    model, inputs = case.build(), inputs_for(case)
    plain = outputs_of(model, inputs)
    with no_trace_left(model), gated(model, torch.ones(len(find_heads(model).players(players))), players):
        assert difference(outputs_of(model, inputs), plain) < 1e-6


@torch.no_grad()
def test_a_gate_of_zero_equals_zeroed_output_columns(case: Case) -> None:
    model, inputs = case.build(), inputs_for(case)
    plain = outputs_of(model, inputs)
    mask = uneven_mask(find_heads(model))
    with gated(model, mask):
        masked = outputs_of(model, inputs)
    assert difference(masked, outputs_of(fold(model, mask), inputs)) < 1e-5
    assert difference(masked, plain) > 1e-3


@pytest.mark.parametrize("players", KINDS)
@torch.no_grad()
def test_each_row_runs_under_its_own_gates(case: Case, players: PlayerKind) -> None:
    model, inputs = case.build(), inputs_for(case)
    gates = torch.rand(3, len(find_heads(model).players(players)), generator=torch.Generator().manual_seed(5))
    gates[0] = (gates[0] > 0.5).float()
    with gated(model, gates, players):
        together = outputs_of(model, inputs)
    for row in range(3):
        with gated(model, gates[row], players):
            alone = outputs_of(model, row_of(inputs, row))
        assert difference(together[row : row + 1], alone) < 1e-5


@pytest.mark.parametrize("players", KINDS)
def test_gradients_reach_every_gate(case: Case, players: PlayerKind) -> None:
    model, inputs = case.build(), inputs_for(case)
    gates = torch.full((3, len(find_heads(model).players(players))), 0.7, requires_grad=True)
    with gated(model, gates, players):
        outputs_of(model, inputs).pow(2).sum().backward()
    assert gates.grad is not None
    assert (gates.grad.abs().sum(0) > 0).all()


def test_gradients_of_the_gates_are_those_of_finite_differences() -> None:
    case = BY_NAME["bert"]
    model, inputs = case.build().double(), inputs_for(case)
    gates = torch.rand(12, dtype=torch.double, generator=torch.Generator().manual_seed(2)).requires_grad_()

    def value(gates: torch.Tensor) -> torch.Tensor:
        with gated(model, gates):
            return outputs_of(model, inputs).pow(2).sum()

    assert torch.autograd.gradcheck(value, (gates,), eps=1e-6, atol=1e-3)


def test_two_backward_passes_inside_one_context_are_allowed() -> None:
    case = BY_NAME["bert"]
    model, inputs = case.build(), inputs_for(case)
    gates = torch.ones(12, requires_grad=True)
    with gated(model, gates):
        outputs_of(model, inputs).sum().backward()
        outputs_of(model, inputs).sum().backward()
    assert gates.grad is not None


@torch.no_grad()
def test_a_feed_forward_gate_of_zero_removes_the_block_and_its_bias() -> None:
    case = BY_NAME["bert"]
    model, inputs = case.build(), inputs_for(case)
    gates = torch.tensor([True, False, True])
    with gated(model, gates, "ffn"):
        without = outputs_of(model, inputs)
    dense = model.encoder.layer[1].output.dense
    dense.weight.zero_()
    dense.bias.zero_()
    assert difference(without, outputs_of(model, inputs)) < 1e-6


@torch.no_grad()
def test_a_layer_gate_of_zero_equals_a_model_without_the_layer(case: Case) -> None:
    if case.seq2seq or case.name in ("modernbert", "gemma2", "gemma3", "t5-encoder"):
        pytest.skip("its layers differ in kind, so that one cannot simply be taken out")
    model, inputs = case.build(use_cache=False), inputs_for(case)
    layers = find_heads(model).layers
    with gated(model, torch.tensor([1.0, 0.0, 1.0]), "layers"):
        without = outputs_of(model, inputs)
    stack = model.get_submodule(layers[1].path.rpartition(".")[0])
    del stack[1]
    model.config.num_hidden_layers = 2
    assert difference(without, outputs_of(model, inputs)) < 1e-5


def test_boolean_integer_and_half_gates_are_cast_to_the_activations() -> None:
    case = BY_NAME["xlm-roberta"]
    model, inputs = case.build(), inputs_for(case)
    mask = random_mask(find_heads(model), 0)
    found = []
    for gates in (mask, mask.tensor(), mask.tensor().int(), mask.tensor().half(), mask.tensor().double()):
        with torch.no_grad(), gated(model, gates):
            found.append(outputs_of(model, inputs))
    assert all(torch.equal(found[0], other) for other in found)


def test_gates_keep_their_gradient_after_a_pass_without_one() -> None:
    case = BY_NAME["bert"]
    model, inputs = case.build(), inputs_for(case)
    gates = torch.full((12,), 0.7, requires_grad=True)
    with gated(model, gates):
        with torch.no_grad():
            outputs_of(model, inputs)
        outputs_of(model, inputs).sum().backward()
    assert gates.grad is not None


def test_a_model_can_be_trained_after_a_pass_in_inference_mode() -> None:
    case = BY_NAME["bert"]
    model, inputs = case.build(), inputs_for(case)
    with gated(model, torch.full((12,), 0.7)):
        with torch.inference_mode():
            outputs_of(model, inputs)
        outputs_of(model, inputs).sum().backward()
    assert model.encoder.layer[0].attention.self.query.weight.grad is not None


@torch.no_grad()
def test_gates_are_read_on_entry() -> None:
    case = BY_NAME["bert"]
    model, inputs = case.build(), inputs_for(case)
    gates = torch.ones(12)
    with gated(model, gates):
        before = outputs_of(model, inputs)
        gates.zero_()
        assert torch.equal(outputs_of(model, inputs), before)


@pytest.mark.parametrize("name", ["bert", "llama", "marian"])
def test_gradient_checkpointing_gives_the_same_gradients_inside_the_block(name: str) -> None:
    case = BY_NAME[name]
    found = []
    for checkpointing in (False, True):
        model, inputs = case.build(use_cache=False), inputs_for(case)
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        model.config.dropout = model.config.attention_dropout = 0.0
        if checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        gates = torch.full((len(find_heads(model).players()),), 0.7, requires_grad=True)
        torch.manual_seed(0)
        with gated(model.train(), gates):
            outputs_of(model, inputs).pow(2).mean().backward()
        assert gates.grad is not None
        found.append(gates.grad)
    assert difference(found[0], found[1]) < 1e-5


def test_a_compiled_model_is_refused() -> None:
    model = BY_NAME["bert"].build()
    compiled = torch.compile(model, backend="eager")
    with pytest.raises(HeadwiseError, match="compiled model would ignore"), gated(compiled, torch.ones(12)):  # type: ignore[arg-type]
        pass
    model.compile(backend="eager")
    with pytest.raises(HeadwiseError, match="compiled model would ignore"), gated(model, torch.ones(12)):
        pass


def test_gates_of_another_type_are_refused() -> None:
    gates: Any = [1.0] * 12
    with pytest.raises(HeadwiseError, match="a SoftMask or a tensor, not list"), gated(BY_NAME["bert"].build(), gates):
        pass


@pytest.mark.parametrize("name", ["bert-causal", "gpt2"])
@torch.no_grad()
def test_cross_attention_is_gated_cut_and_folded_too(name: str) -> None:
    case = BY_NAME[name]
    model, inputs = case.build(add_cross_attention=True), inputs_for(case)
    inputs["encoder_hidden_states"] = torch.randn(3, 6, 32, generator=torch.Generator().manual_seed(0))
    mask = uneven_mask(find_heads(model), empty_layer=1)
    assert any(player.startswith("cross.") for player in mask.off)
    with gated(model, mask):
        expected = outputs_of(model, inputs)
    assert difference(expected, outputs_of(model, inputs)) > 1e-3
    assert difference(outputs_of(fold(model, mask), inputs), expected) < 1e-5
    assert difference(outputs_of(shrink(model, mask), inputs), expected) < 1e-5


def test_nothing_stays_behind_when_the_body_raises() -> None:
    model = BY_NAME["marian"].build()
    with no_trace_left(model), pytest.raises(ZeroDivisionError), gated(model, torch.ones(2, 36)):
        _ = 1 / 0


def test_nothing_stays_behind_when_a_forward_pass_raises() -> None:
    case = BY_NAME["bert"]
    model = case.build()
    with no_trace_left(model), pytest.raises(HeadwiseError), gated(model, torch.ones(2, 12)):
        model(**inputs_for(case, rows=3))


def test_nested_gates_are_refused_and_the_outer_ones_stay() -> None:
    case = BY_NAME["bert"]
    model, inputs = case.build(), inputs_for(case)
    with torch.no_grad(), no_trace_left(model), gated(model, torch.zeros(12)):
        before = outputs_of(model, inputs)
        with pytest.raises(HeadwiseError, match="already gated"), gated(model, torch.ones(3), "layers"):
            pass
        assert torch.equal(outputs_of(model, inputs), before)


@pytest.mark.parametrize("shape", [(11,), (3, 13), (2, 3, 12), ()])
def test_gates_of_another_size_are_refused(shape: tuple[int, ...]) -> None:
    with (
        pytest.raises(HeadwiseError, match=r"do not fit.*12 heads.*\(12,\) or \(rows, 12\)"),
        gated(BY_NAME["bert"].build(), torch.ones(shape)),
    ):
        pass


def test_a_batch_with_another_number_of_rows_is_refused() -> None:
    case = BY_NAME["bert"]
    model = case.build()
    with (
        pytest.raises(HeadwiseError, match="the gates have 2 rows, but the batch has 4"),
        gated(model, torch.ones(2, 12)),
    ):
        model(**inputs_for(case, rows=4))


def test_a_mask_of_other_weights_is_refused_unless_moved() -> None:
    model, other = BY_NAME["bert"].build(), BY_NAME["bert"].build(seed=1)
    mask = HeadMask.full(find_heads(other))
    with pytest.raises(MaskMismatchError, match="moved_to"), gated(model, mask):
        pass
    with gated(model, mask.moved_to(find_heads(model))):
        pass


def test_a_mask_of_layers_gates_layers() -> None:
    case = BY_NAME["bert"]
    model, inputs = case.build(), inputs_for(case)
    mask = HeadMask.without(find_heads(model), ["encoder.layer.1"], kind="layers")
    with torch.no_grad(), gated(model, mask):
        by_mask = outputs_of(model, inputs)
    with torch.no_grad(), gated(model, torch.tensor([1, 0, 1]), "layers"):
        assert torch.equal(outputs_of(model, inputs), by_mask)
