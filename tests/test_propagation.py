"""Relevance propagation: rules by hand, sums that are conserved in every family, and no trace afterwards."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from headwise import HeadwiseError, find_heads
from headwise.propagation import RULES, RuleName, check_propagation, propagating
from tests.families import BY_NAME, CASES, ON_V4, Case, inputs_for, no_trace_left, outputs_of

NAMES: tuple[RuleName, ...] = ("voita", "attnlrp", "cp")
COVERED = [case for case in CASES if find_heads(case.build()).family.relevance]
NOTHING = nn.Identity()


def relevance(
    rule: RuleName, function: Callable[..., Tensor], *inputs: Any, epsilon: float = 1e-9, model: nn.Module = NOTHING
) -> list[list[float]]:
    """The relevance of every input for the sum of a function's results."""
    leaves = [torch.tensor(each, dtype=torch.float64, requires_grad=True) for each in inputs]
    with propagating(model, rule, epsilon):
        target = function(*leaves).sum()
    gradients = torch.autograd.grad(target, leaves)
    return [(leaf * gradient).tolist() for leaf, gradient in zip(leaves, gradients, strict=True)]


def constant(*values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_epsilon_has_the_sign_of_the_sum() -> None:
    # z = 1·2 - 3·1 = -1, so R = -1 is divided by z - 0.1.
    (found,) = relevance("cp", lambda x: functional.linear(x, constant([1, -3])), [2.0, 1.0], epsilon=0.1)
    assert found == pytest.approx([2 / 1.1, -3 / 1.1])
    (found,) = relevance("cp", lambda x: functional.linear(x, constant([1, -1])), [2.0, 1.0], epsilon=0.1)
    assert found == pytest.approx([2 / 1.1, -1 / 1.1])


@pytest.mark.parametrize(("rule", "by_hand"), [("voita", [6.0, 4.0]), ("attnlrp", [3.0, 2.0]), ("cp", [3.0, 2.0])])
def test_a_bias_keeps_its_share_or_gives_it_to_the_inputs(rule: RuleName, by_hand: list[float]) -> None:
    # z = 1·3 + 2·1 + 5 = 10: the inputs have 3/10 and 2/10, and 3/5 and 2/5 of the share of the bias.
    weight, bias = constant([1, 2]), constant(5)
    for function in (
        lambda x: functional.linear(x, weight, bias),
        lambda x: torch.addmm(bias, x[None], weight.T),  # GPT-2's linear layer
    ):
        assert relevance(rule, function, [3.0, 1.0])[0] == pytest.approx(by_hand)


def test_a_constant_that_is_added_is_a_bias() -> None:  # such as the bias of Marian's logits
    assert relevance("voita", lambda x: x + constant(5, -1), [3.0, 4.0])[0] == pytest.approx([8.0, 3.0])
    assert relevance("cp", lambda x: x + constant(5, -1), [3.0, 4.0])[0] == pytest.approx([3.0, 4.0])


def test_the_share_of_a_bias_is_given_by_the_sizes_of_what_inputs_add() -> None:
    # z = 3 - 2 + 5 = 6: the inputs have 3 and -2, and 3/5 and 2/5 of 5. Shares of 3/(3 - 2) could become any number.
    (found,) = relevance("voita", lambda x: functional.linear(x, constant([1, -2]), constant(5)), [3.0, 1.0])
    assert found == pytest.approx([6.0, 0.0], abs=1e-6)


@pytest.mark.parametrize(("rule", "by_hand"), [("voita", [2.25, 0.75]), ("attnlrp", [1.5, 1.5]), ("cp", [1.5, 1.5])])
def test_a_product_divides_relevance_by_size_or_in_halves(rule: RuleName, by_hand: list[float]) -> None:
    (u,), (v,) = relevance(rule, torch.mul, [3.0], [1.0])
    assert [u, v] == pytest.approx(by_hand)


@pytest.mark.parametrize(
    ("rule", "by_hand"), [("voita", [-0.125, 2.625]), ("attnlrp", [-0.5, 1.5]), ("cp", [-0.5, 1.5])]
)
def test_layer_norm_is_linear_with_a_constant_deviation(rule: RuleName, by_hand: list[float]) -> None:
    # x = (1, 3): mean 2, deviation 1. y - shift = (x1 - x2, 1.5·(x2 - x1)) = (-2, 3) and y = (-1, 3.5).
    # cp: R1 = 1·(1 - 1.5), R2 = 3·(-1 + 1.5). voita: the inputs add 1 and -3, or -1.5 and 4.5, to the outputs. So the
    # shifts 1 and 0.5 are given to them as 1/4 and 3/4.
    (found,) = relevance(
        rule, lambda x: functional.layer_norm(x, (2,), constant(2, 3), constant(1, 0.5), eps=0.0), [1.0, 3.0]
    )
    assert found == pytest.approx(by_hand)


@pytest.mark.parametrize("rule", NAMES)
def test_rms_norm_passes_relevance_on(rule: RuleName) -> None:
    def rms_norm(x: Tensor) -> Tensor:
        return constant(2, 5) * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True)))

    (found,) = relevance(rule, rms_norm, [3.0, -4.0])
    root = math.sqrt(12.5)
    assert found == pytest.approx([2 * 3 / root, 5 * -4 / root])


@pytest.mark.parametrize("rule", NAMES)
@pytest.mark.parametrize("function", [functional.gelu, functional.silu, torch.tanh, functional.relu, torch.sigmoid])
def test_activations_pass_relevance_on(rule: RuleName, function: Callable[[Tensor], Tensor]) -> None:
    (found,) = relevance(rule, function, [1.5, -0.7])
    assert found == pytest.approx(function(constant(1.5, -0.7)).tolist())


def test_activations_of_several_operations_pass_relevance_on() -> None:
    model: Any = BY_NAME["gpt2"].build()  # its activation multiplies x by a function of x
    activation = model.transformer.h[0].mlp.act
    assert type(activation).__name__ == "NewGELUActivation"
    (found,) = relevance("attnlrp", activation, [1.5, -0.7], model=model)
    assert found == pytest.approx(activation(constant(1.5, -0.7)).tolist())


def test_the_softmax_of_attnlrp() -> None:
    (found,) = relevance("attnlrp", lambda x: torch.softmax(x, -1) * constant(2, 6), [1.0, 2.0])
    s = [1 / (1 + math.e), math.e / (1 + math.e)]
    r = [2 * s[0], 6 * s[1]]
    assert found == pytest.approx([1 * (r[0] - s[0] * sum(r)), 2 * (r[1] - s[1] * sum(r))])


def test_a_matrix_product_gives_half_of_the_relevance_to_each_factor() -> None:
    a, b = [[1.0, 2.0]], [[3.0], [-1.0]]  # z = 3 - 2 = 1, so that each product a·b has a·b of R = 1
    left, right = relevance("attnlrp", torch.matmul, a, b)
    np.testing.assert_allclose(left, [[1.5, -1.0]])
    np.testing.assert_allclose(right, [[1.5], [-1.0]])


@pytest.mark.parametrize("rule", NAMES)
def test_purely_linear_networks_have_gradient_times_input(rule: RuleName) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(*(nn.Linear(5, 5, bias=False) for _ in range(4))).double()
    values = torch.randn(3, 5).tolist()
    (found,) = relevance(rule, network, values, model=network)
    leaf = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(network(leaf).sum(), leaf)
    np.testing.assert_allclose(found, (leaf * gradient).detach(), rtol=1e-6)


@pytest.mark.parametrize("rule", ["voita", "cp"])
def test_attention_weights_are_held_constant(rule: RuleName) -> None:
    torch.manual_seed(1)
    x = torch.randn(1, 4, 3, dtype=torch.float64)
    weights = torch.softmax(x @ x.transpose(-2, -1) / math.sqrt(3), -1)  # as they are without a change of x
    reader = torch.randn(4, 3, dtype=torch.float64)

    def with_constant_weights(changed: Tensor) -> float:
        return float((weights @ changed * reader).sum())

    (found,) = relevance(rule, lambda y: functional.scaled_dot_product_attention(y, y, y) * reader, x.tolist())
    by_differences = torch.zeros_like(x)
    for place in np.ndindex(*x.shape):
        step = torch.zeros_like(x)
        step[place] = 1e-4
        by_differences[place] = (with_constant_weights(x + step) - with_constant_weights(x - step)) / 2e-4
    np.testing.assert_allclose(found, x * by_differences, rtol=1e-6, atol=1e-9)
    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad((functional.scaled_dot_product_attention(leaf, leaf, leaf) * reader).sum(), leaf)
    assert (leaf * (gradient - by_differences)).abs().max() > 0.1  # the weights matter here


@pytest.mark.parametrize("rule", NAMES)
def test_nothing_is_infinite_where_denominators_vanish(rule: RuleName) -> None:
    def network(x: Tensor, y: Tensor) -> Tensor:
        found = functional.linear(x * y, constant([1, -1], [2, 0]), constant(3, 0))  # sums of 0, and opposite factors
        return functional.layer_norm(functional.gelu(found), (2,), constant(1, 1), constant(1, -1)) + constant(1, -1)

    for values in ([0.0, 0.0], [1.0, -1.0], [1.0, 1.0], [1e-30, -1e-30]):
        assert np.isfinite(relevance(rule, network, values, [-1.0, 1.0], epsilon=1e-6)).all()


@dataclass
class Cuts:
    """What crosses from each layer to the next, in the order of the forward pass.

    Attributes:
        inputs: Stack, layer and input of each layer.
        encoded: Decoder layer, and what its cross-attention reads of the encoder.
        softmaxes: Number of layers that have begun, input and output of each softmax.
    """

    inputs: list[tuple[str, int, Tensor]] = field(default_factory=list)
    encoded: list[tuple[int, Tensor]] = field(default_factory=list)
    softmaxes: list[tuple[int, Tensor, Tensor]] = field(default_factory=list)


class SoftmaxRecorder(TorchFunctionMode):
    """Records the inputs and outputs of softmax; their rule is applied by the mode outside."""

    def __init__(self, cuts: Cuts) -> None:
        super().__init__()
        self.cuts = cuts

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") == "softmax" and output.requires_grad:
            self.cuts.softmaxes.append((len(self.cuts.inputs), args[0], output))
        return output


@contextmanager
def recording(model: Any, cuts: Cuts) -> Iterator[None]:
    """Record what crosses from each layer to the next; the first layer's input gets a gradient."""
    heads = find_heads(model)

    def copied(value: Tensor) -> Tensor:
        return value.clone() if value.requires_grad else value.detach().clone().requires_grad_()

    def before_layer(stack: str, layer: int) -> Any:
        def hook(_module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
            hidden = copied(args[0] if args else kwargs["hidden_states"])
            cuts.inputs.append((stack, layer, hidden))
            return ((hidden, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": hidden})

        return hook

    def before_cross(layer: int) -> Any:
        def hook(_module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
            encoded = copied(kwargs["key_value_states"])
            cuts.encoded.append((layer, encoded))
            return args, {**kwargs, "key_value_states": encoded}

        return hook

    handles = [
        model.get_submodule(block.path).register_forward_pre_hook(
            before_layer(block.stack, block.layer), with_kwargs=True
        )
        for block in heads.layers
    ] + [
        model.get_submodule(site.attention).register_forward_pre_hook(before_cross(site.layer), with_kwargs=True)
        for site in heads.sites
        if site.stack == "cross"
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def relevance_of(target: Tensor, tensors: list[Tensor]) -> list[float]:
    """The summed relevance of each tensor."""
    gradients = torch.autograd.grad(target, tensors, retain_graph=True, allow_unused=True)
    # The score of a masked token is about -1e308 or -inf, and no relevance flows to it.
    return [
        0.0 if gradient is None else float((each.detach().masked_fill(each < -1e30, 0.0) * gradient).sum())
        for each, gradient in zip(tensors, gradients, strict=True)
    ]


def sums_per_cut(model: Any, inputs: dict[str, Tensor], rule: RuleName) -> tuple[float, list[float]]:
    """The target, and the relevance that crosses each cut, plus what softmax has absorbed above the cut."""
    cuts = Cuts()
    for weight in model.parameters():
        weight.requires_grad_(False)
    with propagating(model, rule, 1e-12), SoftmaxRecorder(cuts), recording(model, cuts):
        target = outputs_of(model, inputs).max(-1).values.sum()
    states = relevance_of(target, [hidden for *_, hidden in cuts.inputs])
    encoded = relevance_of(target, [each for _, each in cuts.encoded]) if cuts.encoded else []
    before = relevance_of(target, [each for _, each, _ in cuts.softmaxes]) if cuts.softmaxes else []
    after = relevance_of(target, [each for *_, each in cuts.softmaxes]) if cuts.softmaxes else []
    found = []
    for number, (stack, layer, _) in enumerate(cuts.inputs):
        crossing = states[number]
        if cuts.encoded and stack == "encoder":  # the decoder's own inputs are beside the encoder's layers
            crossing += next(r for r, (s, at, _) in zip(states, cuts.inputs, strict=True) if (s, at) == ("decoder", 0))
        elif cuts.encoded:
            crossing += sum(r for r, (at, _) in zip(encoded, cuts.encoded, strict=True) if at >= layer)
        losses = zip(cuts.softmaxes, before, after, strict=True)
        found.append(crossing + sum(above - below for (at, *_), below, above in losses if at > number))
    return float(target.detach()), found


def without_biases(model: nn.Module) -> nn.Module:
    """The model with all biases 0, including T5's position bias and the bias of Marian's logits."""
    with torch.no_grad():
        for name, weight in [*model.named_parameters(), *model.named_buffers()]:
            if name.endswith("bias") or "relative_attention_bias" in name:
                weight.zero_()
    return model


@pytest.mark.parametrize("rule", NAMES)
@pytest.mark.parametrize("case", COVERED, ids=lambda case: case.name)
def test_sums_are_conserved_from_layer_to_layer(case: Case, rule: RuleName) -> None:
    model = case.build(attn_implementation="eager").double()
    if rule != "voita":
        without_biases(model)
    target, found = sums_per_cut(model, inputs_for(case), rule)
    assert len(found) == len(find_heads(model).layers)
    np.testing.assert_allclose(found, target, rtol=1e-4)


def test_voita_is_stable_in_deep_models_with_large_biases() -> None:
    case = BY_NAME["xlm-roberta"]
    model = case.build(num_hidden_layers=12)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("bias"):
                weight.normal_(0.0, 0.5)
    target, found = sums_per_cut(model, inputs_for(case), "voita")
    np.testing.assert_allclose(found, target, rtol=1e-3)  # in single precision


@pytest.mark.parametrize("rule", ["attnlrp", "cp"])
def test_biases_absorb_relevance_in_all_rules_but_voita(rule: RuleName) -> None:
    target, found = sums_per_cut(BY_NAME["bert"].build().double(), inputs_for(BY_NAME["bert"]), rule)
    assert np.abs(np.array(found) - target).max() > 0.01 * abs(target)


@pytest.mark.parametrize("rule", NAMES)
@pytest.mark.parametrize("case", COVERED, ids=lambda case: case.name)
def test_fused_attention_has_the_same_relevance(case: Case, rule: RuleName) -> None:
    if ON_V4 and case.name == "bert-causal":
        pytest.skip("transformers 4.57 has no mask of this model for fused attention in double precision")
    # Fused attention ignores the limit of Gemma 2's attention scores, so it is switched off.
    changes: dict[str, Any] = {"attn_logit_softcapping": None} if case.name == "gemma2" else {}
    inputs, found = inputs_for(case), {}
    for implementation in ("eager", "sdpa"):
        if implementation == "sdpa" and not case.build()._supports_sdpa:
            pytest.skip("the family has no fused attention")
        model, cuts = case.build(attn_implementation=implementation, **changes).double(), Cuts()
        with torch.no_grad():
            plain = outputs_of(model, inputs)
        with propagating(model, rule), recording(model, cuts):
            outputs = outputs_of(model, inputs)
        np.testing.assert_allclose(outputs.detach(), plain, rtol=1e-4, atol=1e-5)  # the forward pass is the same
        (gradient,) = torch.autograd.grad(outputs.max(-1).values.sum(), cuts.inputs[0][2])
        found[implementation] = gradient * inputs["attention_mask"][..., None]
    scale = found["eager"].abs().max()
    # Eager attention and RMS norms compute in single precision. The factors u / (u + u') of voita magnify the errors.
    tolerance = 1e-2 if rule == "voita" else 1e-4
    np.testing.assert_allclose(found["sdpa"] / scale, found["eager"] / scale, atol=tolerance)


def test_nothing_remains_after_an_error() -> None:
    model: Any = BY_NAME["gpt2"].build()
    inputs = inputs_for(BY_NAME["gpt2"])
    before, gradient = model(**inputs).logits, []
    with no_trace_left(model), pytest.raises(IndexError), propagating(model):
        model(torch.tensor([[999]]))  # beyond the vocabulary
    assert all(weight.requires_grad for weight in model.parameters())
    assert torch._C._len_torch_function_stack() == 0
    for function in (functional.gelu, lambda x: functional.layer_norm(x, (2,))):
        leaf = torch.tensor([1.0, 3.0], requires_grad=True)
        (found,) = torch.autograd.grad(function(leaf)[0], leaf)
        gradient.append(found)
    assert gradient[0][0] != pytest.approx(float(functional.gelu(torch.tensor(1.0))))  # a derivative, not y / x
    assert gradient[1].tolist() == pytest.approx([0.0, 0.0], abs=1e-4)  # the deviation varies again
    assert torch.equal(model(**inputs).logits, before)


def test_families_without_a_test_are_refused() -> None:
    model = BY_NAME["bloom"].build()
    with pytest.raises(HeadwiseError, match="not tested on BLOOM: to add the family, set relevance=True in its row"):
        check_propagation(model, find_heads(model))
    for case in COVERED:
        model = case.build()
        check_propagation(model, find_heads(model))


def test_other_implementations_of_attention_are_refused() -> None:
    model: Any = BY_NAME["llama"].build()
    model.config._attn_implementation_internal = "flex_attention"
    with pytest.raises(
        HeadwiseError, match="'flex_attention' attention: load the model with attn_implementation='sdpa'"
    ):
        check_propagation(model, find_heads(model))


def test_unknown_rules_are_refused() -> None:
    with pytest.raises(HeadwiseError, match="no rule 'alpha' of relevance propagation: choose one of voita, att"):
        propagating(NOTHING, "alpha").__enter__()  # type: ignore[arg-type]
    assert tuple(RULES) == NAMES
