"""Attention weights: capture them while a model runs, or look at them. `headwise.attention(...)` shows them."""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from headwise.attention.capture import AttentionCallback, attention_weights, capture_attention

if TYPE_CHECKING:
    from headwise.attention.view import AttentionView

__all__ = ["AttentionCallback", "attention_weights", "capture_attention"]


class _CallableModule(ModuleType):
    """Python binds `headwise.attention` to this package when it is imported, so the package is the function too."""

    def __call__(self, *args: Any, **options: Any) -> "AttentionView":
        from headwise.attention.view import attention

        return attention(*args, **options)


sys.modules[__name__].__class__ = _CallableModule
