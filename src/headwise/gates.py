"""Gates: switch off or scale heads, feed-forward blocks or layers while a model runs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import handle_torch_function, has_torch_function_variadic

from headwise.errors import HeadwiseError
from headwise.heads import HeadMap, PlayerKind, base_model, find_heads
from headwise.means import MeanOutputs, require_means
from headwise.soft_masks import AnyMask


@contextmanager
def gated(
    model: nn.Module,
    gates: AnyMask | Tensor,
    players: PlayerKind = "heads",
    heads: HeadMap | None = None,
    baseline: MeanOutputs | Sequence[MeanOutputs] | None = None,
) -> Iterator[None]:
    """Run a model under gates.

    A head's gate multiplies its output before the site's output projection. A feed-forward block's gate
    multiplies what the block adds to the residual stream, including its bias. A layer's gate interpolates between
    the layer's input (0, the layer is skipped) and its output (1). With mean outputs as the baseline, the gate g of a
    head or block replaces its output by g·output + (1 - g)·mean. Inside `generate`, copies of a row made by beam
    search or sampling use the gates of that row. Gates are read on entry, except those that require gradients. With
    gradient checkpointing, call `backward` inside the block, because it runs the layers again.

    Args:
        model: A transformers model, or a PEFT model around one.
        gates: A mask, hard or soft; a tensor (players,) for the whole batch; or a tensor (rows, players) with one row
            for each row of the batch. Real gates may require gradients.
        players: What the gates belong to: `heads`, `ffn` or `layers`. Ignored for a mask, which has its own kind.
        heads: The model's head map; found by `find_heads` by default.
        baseline: What the output of a head or block becomes if its gate is 0: its mean (mean ablation), from one
            `MeanOutputs` for the whole batch or one for each row. By default it becomes 0.

    Raises:
        HeadwiseError: The gates or the baseline do not fit the model or the batch, or the model is already gated.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        ...                     intermediate_size=8)
        >>> model = BertModel(config).eval()
        >>> tokens = torch.tensor([[1, 2, 3]])
        >>> with torch.no_grad(), gated(model, torch.tensor([1.0, 0.0])):
        ...     one_head = model(tokens).last_hidden_state
        >>> bool((one_head == model(tokens).last_hidden_state).all())
        False
    """
    heads = heads or find_heads(model)
    if isinstance(gates, AnyMask):
        gates.check(heads)
        players, gates = gates.kind, gates.tensor()
    if not isinstance(gates, Tensor):
        raise HeadwiseError(f"gates must be a HeadMask, a SoftMask or a tensor, not {type(gates).__name__}")
    base = base_model(model)
    names = heads.players(players)
    if gates.dim() not in (1, 2) or gates.shape[-1] != len(names):
        raise HeadwiseError(
            f"gates of shape {tuple(gates.shape)} do not fit {heads.model}: it has {len(names)} {players}, "
            f"so expected ({len(names)},) or (rows, {len(names)})"
        )
    require_ungated(base, "combine the gates into one")
    if hasattr(base, "_orig_mod") or getattr(base, "_compiled_call_impl", None) is not None:
        raise HeadwiseError("a compiled model would ignore the gates: gate the model before compiling it")
    gates = gates if gates.requires_grad else gates.detach().clone()
    rows = Rows(*_with_means(gates, baseline, players, heads))
    with attach_gates(base, heads, players, rows), _repeating_in_generate(base, rows):
        yield


@contextmanager
def attach_gates(base: nn.Module, heads: HeadMap, players: PlayerKind, rows: "Rows") -> Iterator[None]:
    """Attach gates to a transformers model without checks; `gated` adds the checks."""
    with ExitStack() as stack:
        for module, hook in _make_hooks(base, heads, players, rows):
            stack.callback(hook.attach(module).remove)
        yield


def require_ungated(model: nn.Module, remedy: str) -> None:
    """Check that a model has no gates attached.

    Raises:
        HeadwiseError: The model is inside `gated(...)`.
    """
    hooks = (hook for module in model.modules() for hook in _hooks_of(module))
    if any(isinstance(hook, _Hook) for hook in hooks):
        raise HeadwiseError(f"the model is already gated: leave the other gated(...) first, or {remedy}")


def _with_means(
    gates: Tensor, baseline: MeanOutputs | Sequence[MeanOutputs] | None, players: PlayerKind, heads: HeadMap
) -> tuple[Tensor, Mapping[str, Tensor]]:
    """The gates, and the means by site or block: (features,), or (rows, features) for a baseline per row."""
    if baseline is None:
        return gates, {}
    require_means(players)
    several = [baseline] if isinstance(baseline, MeanOutputs) else list(baseline)
    for each in {id(each): each for each in several}.values():
        each.check(heads)
    if isinstance(baseline, MeanOutputs):
        return gates, baseline.values
    gates = gates.expand(len(several), -1) if gates.dim() == 1 else gates
    if len(gates) != len(several):
        raise HeadwiseError(f"the gates have {len(gates)} rows, but the baseline has {len(several)}")
    return gates, {name: torch.stack([each.values[name] for each in several]) for name in several[0].values}


class Rows:
    """The gates of each row of a batch.

    Args:
        gates: The gates, (players,) or (rows, players).
        means: The mean outputs by site or block, (features,) or (rows, features); empty for the baseline zero.
    """

    def __init__(self, gates: Tensor, means: Mapping[str, Tensor] | None = None) -> None:
        self.gates = gates
        self.means = means or {}
        self.generating = False

    def select(self, columns: slice, batch: Tensor) -> Tensor:
        """The gates (heads,) or (batch, heads) in the columns, for a tensor whose first axis is the batch."""
        return self._fitted(self.gates[..., columns], batch)

    def mean(self, name: str, batch: Tensor) -> Tensor:
        """The mean outputs (features,) or (batch, features) of a site or block."""
        return self._fitted(self.means[name], batch)

    def _fitted(self, gates: Tensor, batch: Tensor) -> Tensor:
        if gates.dim() == 1:
            return gates
        rows, size = gates.shape[0], batch.shape[0]
        if batch.dim() < 3:
            raise HeadwiseError(
                "gates per row need a batch of shape (rows, tokens, features), but the model packs its rows "
                "into one, as flash attention does: load it with attn_implementation='sdpa'"
            )
        if size == rows:
            return gates
        if self.generating and size % rows == 0:  # generate() repeats each row for its beams or samples
            return gates.repeat_interleave(size // rows, dim=0)
        raise HeadwiseError(f"the gates have {rows} rows, but the batch has {size}")


def multiply_gates(output: Tensor, gates: Tensor) -> Tensor:
    """The output of heads or blocks times their gates.

    A function that PyTorch's modes can recognise: `headwise.propagation` has a rule for products of neurons, which does
    not apply to gates.
    """
    if has_torch_function_variadic(output, gates):
        found: Tensor = handle_torch_function(multiply_gates, (output, gates), output, gates)
        return found
    return output * gates


class _Hook:
    """Base of all gates: selects its columns and expands the gates to the tensor that they multiply."""

    def __init__(self, rows: Rows, columns: slice, name: str, width: int = 1) -> None:
        self.rows = rows
        self.columns = columns
        self.name = name
        self.width = width
        self._ready: dict[tuple[object, ...], Tensor] = {}

    def apply(self, output: Tensor) -> Tensor:
        """The output under its gates, (batch, tokens, features)."""
        gates = self.gates_for(output)
        return torch.lerp(self._mean_for(output), output, gates) if self.rows.means else multiply_gates(output, gates)

    def _mean_for(self, batch: Tensor) -> Tensor:
        """The mean outputs, (features,) or (batch, 1, features)."""
        key = ("mean", batch.shape[0], batch.dtype, batch.device, torch.is_inference_mode_enabled())
        if key not in self._ready:
            mean = self.rows.mean(self.name, batch).to(batch.device, batch.dtype)
            self._ready[key] = mean.unsqueeze(1) if mean.dim() == 2 else mean
        return self._ready[key]

    def gates_for(self, batch: Tensor) -> Tensor:
        """The gates expanded to (heads·width,) or (batch, 1, heads·width)."""
        # A tensor created in inference mode cannot be used for training later, so each mode has its own.
        key = (batch.shape[0], batch.dtype, batch.device, torch.is_inference_mode_enabled())
        if (ready := self._ready.get(key)) is not None:
            return ready
        gates = self.rows.select(self.columns, batch).to(batch.device, batch.dtype)
        if self.width > 1:
            gates = gates.repeat_interleave(self.width, dim=-1)
        gates = gates.unsqueeze(1) if gates.dim() == 2 else gates
        if not self.rows.gates.requires_grad:  # the graph of a cached tensor would be freed by the first backward pass
            self._ready[key] = gates
        return gates

    def attach(self, module: nn.Module) -> Any:
        """Register the hook on a module and return the handle that removes it."""
        raise NotImplementedError


class _HeadGate(_Hook):
    """Multiplies the input of an output projection, or interpolates between its mean and its value."""

    def attach(self, module: nn.Module) -> Any:
        return module.register_forward_pre_hook(self)

    def __call__(self, _module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        context, *rest = args  # (batch, tokens, heads·width)
        return self.apply(context), *rest


class _BlockGate(_Hook):
    """Multiplies the output of a feed-forward block, or interpolates between its mean and its value."""

    def attach(self, module: nn.Module) -> Any:
        return module.register_forward_hook(self)

    def __call__(self, _module: nn.Module, _args: tuple[Tensor, ...], output: Tensor) -> Tensor:
        return self.apply(output)  # (batch, tokens, features)


class _LayerGate(_Hook):
    """Interpolates between a layer's input and its output."""

    def attach(self, module: nn.Module) -> Any:
        return module.register_forward_hook(self, with_kwargs=True)

    def __call__(self, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        before: Tensor = args[0] if args else kwargs["hidden_states"]
        after: Tensor = output[0] if isinstance(output, tuple) else output
        mixed = torch.lerp(before, after, self.gates_for(after))
        return (mixed, *output[1:]) if isinstance(output, tuple) else mixed


def _make_hooks(base: Any, heads: HeadMap, players: PlayerKind, rows: Rows) -> Iterator[tuple[nn.Module, _Hook]]:
    if players == "heads":
        for site, columns in heads.spans():
            if site.heads:
                yield base.get_submodule(site.output), _HeadGate(rows, columns, site.name, site.head_width)
        return
    hook, blocks = (_BlockGate, heads.feed_forward) if players == "ffn" else (_LayerGate, heads.layers)
    for index, block in enumerate(blocks):
        yield base.get_submodule(block.path), hook(rows, slice(index, index + 1), block.name)


def _hooks_of(module: nn.Module) -> Iterator[Callable[..., Any]]:
    yield from module._forward_pre_hooks.values()
    yield from module._forward_hooks.values()


@contextmanager
def _repeating_in_generate(base: Any, rows: Rows) -> Iterator[None]:
    """Allow repeated rows while `generate` runs; elsewhere a longer batch is an error.

    `generate` is replaced on this model instance, not on its class, and restored at the end.
    """
    original = getattr(base, "generate", None)
    if original is None or rows.gates.dim() == 1:
        yield
        return

    def generate(*args: Any, **kwargs: Any) -> Any:
        _require_rows(rows, [*args[:1], *(kwargs.get(name) for name in ("inputs", "input_ids", "inputs_embeds"))])
        rows.generating = True
        try:
            return original(*args, **kwargs)
        finally:
            rows.generating = False

    own = vars(base).get("generate")
    base.generate = generate
    try:
        yield
    finally:
        del base.generate
        if own is not None:
            base.generate = own


def _require_rows(rows: Rows, inputs: list[Any]) -> None:
    """Check that `generate` gets one prompt per row of gates, before it repeats the rows."""
    for prompt in inputs:
        if isinstance(prompt, Tensor) and prompt.shape[0] != rows.gates.shape[0]:
            raise HeadwiseError(f"the gates have {rows.gates.shape[0]} rows, but the batch has {prompt.shape[0]}")
