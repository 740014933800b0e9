"""The explorer: a page on this machine on which heads are switched off, with the metric and attention of the result."""

from typing import TYPE_CHECKING

from headwise.support.lazy import lazy_names

if TYPE_CHECKING:
    from headwise.explorer.server import Explorer, explore
    from headwise.explorer.session import Session
else:
    __getattr__ = lazy_names(__name__, {"server": ("Explorer", "explore"), "session": ("Session",)})

__all__ = ["Explorer", "Session", "explore"]
