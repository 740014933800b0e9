"""Layer-wise relevance propagation: a backward pass that propagates relevance instead of gradients.

The relevance of a neuron `u` is `R = u · g`, where `g` is what arrives at `u` in a backward pass with other rules than
those of derivatives. So one backward pass gives the relevance of every neuron. The relevance of a head, the sum over
its neurons, is the gradient with respect to its gate at 1.

Inside `propagating(model, rule)`, PyTorch calls `_Propagation` for every operation, in any model, and it replaces the
backward pass of the few operations whose rule differs from the derivative. Results of the forward pass do not change.
Everything computed from embeddings requires gradients, and weights do not: so neurons and biases are told apart.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from headwise.errors import HeadwiseError
from headwise.heads import HeadMap, base_model

RuleName = Literal["voita", "attnlrp", "cp"]

#: Implementations of attention that consist of operations with a rule.
_ATTENTION = ("eager", "sdpa")


@dataclass(frozen=True)
class Rule:
    """How relevance is propagated.

    Attributes:
        constant_attention: Attention weights are constants, so that relevance flows through values only.
        bias_to_inputs: The share of a bias is given to the inputs of its layer, so that sums are conserved. Otherwise
            the bias keeps it.
        shares: A product divides relevance by `u_i / Σu`; otherwise every factor gets one half.
    """

    constant_attention: bool
    bias_to_inputs: bool
    shares: bool


RULES: dict[str, Rule] = {
    "voita": Rule(constant_attention=True, bias_to_inputs=True, shares=True),
    "attnlrp": Rule(constant_attention=False, bias_to_inputs=False, shares=False),
    "cp": Rule(constant_attention=True, bias_to_inputs=False, shares=False),
}


@contextmanager
def propagating(model: nn.Module, rule: RuleName = "cp", epsilon: float = 1e-6) -> Iterator[None]:
    """Run forward passes whose backward pass propagates relevance.

    Call `backward` or `torch.autograd.grad` inside or after the block. Weights get no gradients. Nothing remains on the
    model afterwards.

    Args:
        model: Any model; see `check_propagation` for transformers models.
        rule: One of `RULES`.
        epsilon: Added to denominators, with the sign of the denominator.

    Example:
        >>> layer = nn.Linear(2, 1, bias=False)
        >>> _ = layer.weight.data.copy_(torch.tensor([[3.0, -1.0]]))
        >>> neurons = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> with propagating(layer):
        ...     output = layer(neurons)
        >>> output.backward()
        >>> (neurons * neurons.grad).detach().round(decimals=3)  # 1 = 3 - 2
        tensor([ 3., -2.])
    """
    if rule not in RULES:
        raise HeadwiseError(f"there is no rule {rule!r} of relevance propagation: choose one of {', '.join(RULES)}")
    mode = _Propagation(RULES[rule], epsilon)
    with ExitStack() as stack:
        for weight in model.parameters():
            if weight.requires_grad:
                stack.callback(weight.requires_grad_, True)
                weight.requires_grad_(False)
        for module in model.modules():
            if type(module).__module__ == "transformers.activations":  # some consist of several operations
                stack.callback(module.register_forward_hook(mode.activate).remove)
        stack.enter_context(mode)
        yield


def check_propagation(model: nn.Module, heads: HeadMap) -> None:
    """Check that the rules cover every operation of a model.

    Raises:
        HeadwiseError: The family is not covered, or its attention is computed by a kernel without a rule.
    """
    if not heads.family.relevance:
        raise HeadwiseError(
            f"relevance propagation is not tested on {heads.family.name}: to add the family, set relevance=True in its "
            "row of headwise/architectures.py and add it to the cases of tests/test_propagation.py"
        )
    used = getattr(base_model(model).config, "_attn_implementation", None) or "eager"
    if used not in _ATTENTION:
        raise HeadwiseError(
            f"relevance cannot be propagated through {used!r} attention: load the model with attn_implementation='sdpa'"
        )


class _Substitute(torch.autograd.Function):
    """Returns `value`; the backward pass multiplies the gradient by `factor` and passes it to `source`."""

    @staticmethod
    def forward(ctx: Any, source: Tensor, value: Tensor, factor: Tensor) -> Tensor:  # noqa: ARG004 - source gets the gradient
        ctx.save_for_backward(factor)
        ctx.mark_dirty(value)  # returned as it is, so that the model may change it in place
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None, None]:
        (factor,) = ctx.saved_tensors
        return gradients[0] * factor, None, None


def _rescale(source: Tensor, factor: Tensor) -> Tensor:
    """The same tensor; the gradient that passes through it is multiplied by the factor."""
    found: Tensor = _Substitute.apply(source, source.detach(), factor.detach())  # type: ignore[no-untyped-call]
    return found


def _carries(value: object) -> bool:
    """Whether relevance flows through a value."""
    return isinstance(value, Tensor) and value.requires_grad


class _Propagation(TorchFunctionMode):
    """Replaces the backward pass of operations. It is not active inside its own methods."""

    def __init__(self, rule: Rule, epsilon: float) -> None:
        super().__init__()
        self.rule, self.epsilon = rule, epsilon

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        del types
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        # The function torch.mul and the method Tensor.mul have the same name.
        rule = self._RULES.get(name) if torch.is_grad_enabled() else None
        return func(*args, **kwargs) if rule is None else rule(self, func, *args, **kwargs)

    def _ratio(self, over: Tensor, under: Tensor) -> Tensor:
        """`over / (under + ε·sign(under))`, where the sign of 0 is 1."""
        return over.detach() / (under.detach() + torch.where(under < 0, -self.epsilon, self.epsilon))

    def _sum(self, output: Tensor) -> Tensor:
        """A sum `z` of inputs (and a bias): each input `a` gets `a·R / (z + ε·sign(z))`."""
        return _rescale(output, self._ratio(output, output)) if output.requires_grad else output

    def _add_bias_shares(self, output: Tensor, bias: Tensor | None, sizes: Callable[[], Tensor]) -> Tensor:
        """Give the shares of a bias to the inputs, in proportion to the sizes of what they add to each output.

        Args:
            output: The output `Σ_i a_i + bias`.
            bias: The bias, or None.
            sizes: Computes `Σ_i |a_i|` of each output. Unlike `Σ_i a_i`, this is not close to 0 by cancellation.
        """
        if bias is None or not self.rule.bias_to_inputs or not output.requires_grad:
            return output
        size = sizes()
        share = size * self._ratio(bias, size)  # the bias, with the derivatives of what the inputs add
        return output + (share - share.detach())

    def embedding(self, func: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
        """Embeddings: the first neurons. They are copied, because models add to them in place."""
        return func(*args, **kwargs).requires_grad_().clone()

    def linear(self, func: Callable[..., Tensor], x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """A linear layer."""
        output = func(x, weight, bias)
        return self._sum(self._add_bias_shares(output, bias, lambda: func(x.abs(), weight.abs())))

    def addmm(self, func: Callable[..., Tensor], bias: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        """A linear layer of GPT-2."""
        output = func(bias, x, weight)
        return self._sum(self._add_bias_shares(output, bias, lambda: x.abs() @ weight.abs()))

    def add(self, func: Callable[..., Tensor], x: Any, y: Any, **kwargs: Any) -> Tensor:
        """A sum. A constant vector is a bias, such as that of the logits of Marian and BART."""
        output = func(x, y, **kwargs)
        if not self.rule.bias_to_inputs or _carries(x) == _carries(y) or not isinstance(y, Tensor):
            return output
        return _rescale(output, self._ratio(output, x if _carries(x) else y))

    def layer_norm(
        self,
        _func: Callable[..., Tensor],
        x: Tensor,
        shape: tuple[int, ...],
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        eps: float = 1e-5,
    ) -> Tensor:
        """Layer norm: linear, with a constant standard deviation."""
        axes = tuple(range(-len(shape), 0))
        centred = x - x.mean(axes, keepdim=True)
        output = centred * (centred.detach().square().mean(axes, keepdim=True) + eps).rsqrt()
        output = output if weight is None else output * weight
        output = output if bias is None else output + bias
        # Output j is x_j - Σ_i x_i / n times a constant, which cancels in the shares of the bias.
        inputs = math.prod(shape)
        return self._add_bias_shares(
            output, bias, lambda: x.abs() * (1 - 2 / inputs) + x.abs().mean(axes, keepdim=True)
        )

    def constant(self, func: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
        """The inverse root mean square of RMS norm, the only use of `rsqrt`: a constant."""
        return func(*args, **kwargs).detach()

    def softmax(self, func: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
        """Attention weights: constant, or with their derivative, which gives `x_i·(R_i − s_i·ΣR)`."""
        output = func(*args, **kwargs)
        return output.detach() if self.rule.constant_attention else output

    def matmul(self, func: Callable[..., Tensor], x: Tensor, y: Tensor) -> Tensor:
        """A matrix product: linear if one factor is constant, otherwise one half to each factor."""
        output = func(x, y)
        if not (_carries(x) and _carries(y)):
            return self._sum(output)
        return _rescale(output, self._ratio(output, 2 * output))

    def attention(
        self,
        _func: Callable[..., Tensor],
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,  # noqa: ARG002 - models are in evaluation mode
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        """Fused attention, by its parts."""
        if enable_gqa:
            groups = query.shape[-3] // key.shape[-3]
            key, value = (each.repeat_interleave(groups, dim=-3) for each in (key, value))
        with torch.set_grad_enabled(not self.rule.constant_attention):
            scores = self.matmul(torch.matmul, query, key.transpose(-2, -1))  # (batch, heads, tokens, tokens)
            scores = scores * (query.shape[-1] ** -0.5 if scale is None else scale)
            if is_causal:
                attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
            if attn_mask is not None and attn_mask.dtype == torch.bool:
                scores = scores.masked_fill(~attn_mask, torch.finfo(scores.dtype).min)
            elif attn_mask is not None:
                scores = scores + attn_mask
            weights = functional.softmax(scores, dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))
        return self.matmul(torch.matmul, weights.to(value.dtype), value)

    def product(self, func: Callable[..., Tensor], x: Any, y: Any) -> Tensor:
        """A product of neurons, such as that of a gated feed-forward block."""
        if not (_carries(x) and _carries(y)):
            return func(x, y)
        if self.rule.shares:
            x, y = torch.broadcast_tensors(x, y)
            return func(_rescale(x.clone(), self._ratio(x, x + y)), _rescale(y.clone(), self._ratio(y, x + y)))
        output = func(x, y)
        return _rescale(output, self._ratio(output, 2 * output))

    def activation(self, func: Callable[..., Tensor], x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """An activation `y = f(x)`, which passes its relevance on: `g·y/x`."""
        return self.activate(None, (x,), func(x.detach(), *args, **kwargs))

    def activate(self, _module: nn.Module | None, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
        """The rule of activations as a hook of a module."""
        if not (_carries(args[0]) and torch.is_grad_enabled()):
            return output
        found: Tensor = _Substitute.apply(  # type: ignore[no-untyped-call]
            args[0], output.detach(), self._ratio(output, args[0])
        )
        return found

    _RULES: ClassVar[dict[str, Callable[..., Any]]] = {
        "embedding": embedding,
        "linear": linear,
        "addmm": addmm,
        "add": add,
        "layer_norm": layer_norm,
        "rsqrt": constant,
        "softmax": softmax,
        "matmul": matmul,
        "bmm": matmul,
        "scaled_dot_product_attention": attention,
        "mul": product,
        **dict.fromkeys(("gelu", "relu", "silu", "tanh", "sigmoid"), activation),
    }
