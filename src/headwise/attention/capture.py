"""Capture attention weights while a model runs, one site at a time, so that long inputs need little memory.

Inside an attention module, transformers computes the weights either by a softmax (eager attention) or inside PyTorch's
`scaled_dot_product_attention`, which does not return them. `capture_attention` observes both calls: it passes on the
result of the softmax, and computes the weights of the fused function from the same queries, keys and mask. The model
itself runs as before, with the same attention implementation and exactly the same outputs. So every family works, with
its position biases, sliding windows, soft caps and shared keys, and there is nothing to restore at the end.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from headwise.errors import HeadwiseError
from headwise.heads import HeadMap, Site, base_model, find_heads

#: Called with a site and its weights, (batch, heads, queries, keys).
AttentionCallback = Callable[[Site, Tensor], None]

_SOFTMAX = (functional.softmax, torch.softmax, Tensor.softmax)


@contextmanager
def capture_attention(model: nn.Module, callback: AttentionCallback, heads: HeadMap | None = None) -> Iterator[None]:
    """Call a function with the attention weights of every site while a model runs.

    The callback is called for each site as soon as its weights are known, and nothing is kept: the weights of a site
    are freed before the next site runs, unless the callback stores them. They are detached, in single precision (or
    better, if the model computes in better precision), before dropout, and have one map per query head of
    `site.heads`, also if heads share keys. The weights of a query sum to 1. Weights of padded queries have no meaning:
    a query that sees no key has weights that are all equal or all 0.

    It can be combined with `gated`. Inside `generate`, the callback is called at every step.

    Args:
        model: A transformers model, or a PEFT model around one, with eager or `sdpa` attention.
        callback: Called with the site and its weights, (batch, heads, queries, keys).
        heads: The model's head map; found by `find_heads` by default. To capture some sites only, pass a map with
            only these sites.

    Raises:
        HeadwiseError: The model is compiled, or, when the model runs, its attention implementation does not compute
            weights that can be captured.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=2, num_attention_heads=4,
        ...                     intermediate_size=8)
        >>> model = BertModel(config).eval()
        >>> def show(site, weights):
        ...     print(site.name, tuple(weights.shape), round(float(weights[0, 0, 0].sum()), 4))
        >>> with torch.no_grad(), capture_attention(model, show):
        ...     _ = model(torch.tensor([[1, 2, 3]]))
        encoder.0 (1, 4, 3, 3) 1.0
        encoder.1 (1, 4, 3, 3) 1.0
    """
    heads = heads or find_heads(model)
    base = base_model(model)
    if hasattr(base, "_orig_mod") or getattr(base, "_compiled_call_impl", None) is not None:
        raise HeadwiseError("the attention of a compiled model cannot be captured: pass the model before compiling it")
    observer = _Observer(callback)
    with ExitStack() as stack:
        for site in heads.sites:
            if site.heads:
                module = base.get_submodule(site.attention)
                stack.callback(module.register_forward_pre_hook(observer.enter(site)).remove)
                stack.callback(module.register_forward_hook(observer.leave, always_call=True).remove)
        stack.enter_context(observer)
        yield


class _Observer(TorchFunctionMode):
    """Observes the calls that compute attention weights while the module of a site runs.

    Args:
        callback: Called with the site and its weights.
    """

    def __init__(self, callback: AttentionCallback) -> None:
        super().__init__()
        self.callback = callback
        self.site: Site | None = None  # the site that is running and whose weights are not known yet

    def enter(self, site: Site) -> Callable[[nn.Module, Any], None]:
        """The hook before a site's module."""

        def hook(_module: nn.Module, _args: Any) -> None:
            self.site = site

        return hook

    def leave(self, module: nn.Module, _args: Any, output: Any) -> None:
        """The hook after a site's module."""
        site, self.site = self.site, None
        if site is not None and output is not None:  # no output: the module raised an error
            used = getattr(getattr(module, "config", None), "_attn_implementation", None)
            raise HeadwiseError(
                f"the attention weights of {site.name} cannot be captured from {type(module).__name__} with "
                f"attn_implementation={used!r}: load the model with attn_implementation='sdpa' or 'eager'"
            )

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call a function of torch, and pass on the attention weights that it computes."""
        kwargs = kwargs or {}
        found = func(*args, **kwargs)
        if self.site is not None:
            if func in _SOFTMAX:
                self._found(found.detach())
            elif func is functional.scaled_dot_product_attention:
                self._found(attention_weights(*args, **kwargs))
        return found

    def _found(self, weights: Tensor) -> None:
        site = self.site
        if site is None or weights.dim() != 4 or weights.shape[1] != len(site.heads):
            return
        self.site = None
        self.callback(site, weights.to(_precise(weights.dtype)))


@torch.no_grad()
def attention_weights(
    query: Tensor,
    key: Tensor,
    _value: Tensor | None = None,
    attn_mask: Tensor | None = None,
    _dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    **_unused: Any,
) -> Tensor:
    """The weights that `torch.nn.functional.scaled_dot_product_attention` uses, (batch, heads, queries, keys).

    The arguments are those of that function. A query that sees no key has weights of 0.

    Example:
        >>> attention_weights(torch.ones(1, 1, 2, 4), torch.ones(1, 1, 2, 4), is_causal=True)
        tensor([[[[1.0000, 0.0000],
                  [0.5000, 0.5000]]]])
    """
    dtype = _precise(query.dtype)
    with torch.autocast(query.device.type, enabled=False):
        if enable_gqa:
            key = key.repeat_interleave(query.shape[-3] // key.shape[-3], dim=-3)
        query = query.to(dtype) * (query.shape[-1] ** -0.5 if scale is None else scale)
        scores = query @ key.to(dtype).transpose(-2, -1)  # (batch, heads, queries, keys)
        if is_causal:
            seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
            scores = scores.masked_fill(~seen, -torch.inf)
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
        return scores.softmax(-1).nan_to_num(0.0)


def _precise(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)
