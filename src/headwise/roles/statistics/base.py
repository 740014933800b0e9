"""The interface of statistics of attention."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from headwise.architectures import Stack
from headwise.roles.attention import SiteAttention
from headwise.roles.corpus import Corpus

ALL: tuple[Stack, ...] = ("encoder", "decoder", "cross")
SELF: tuple[Stack, ...] = ("encoder", "decoder")


@dataclass(frozen=True)
class Column:
    """One number per head.

    Attributes:
        name: Its name in the table, such as `syntax:nsubj:head`.
        share: Whether it is between 0 and 1.
        baseline: What it is compared with, such as the accuracy of always choosing one offset; NaN if nothing.
    """

    name: str
    share: bool = True
    baseline: float = float("nan")


class Statistic(Protocol):
    """A statistic of attention weights: one or several columns, each a mean over tokens or sentences."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns."""

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The stacks that it is defined for."""

    def measure(self, site: SiteAttention) -> tuple[Tensor, Tensor]:
        """The sums over the tokens of each row, (rows, heads, columns), and numbers of tokens, (rows, columns)."""


#: Makes a statistic for the examples of a language.
StatisticFactory = Callable[[Corpus], Statistic]
#: From the attention of a site to sums over tokens, (rows, heads), and numbers of tokens, (rows,).
Measure = Callable[[SiteAttention], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class SingleColumn:
    """A statistic of one column that is a function of the attention of a site.

    Attributes:
        name: Name of the column.
        function: The function.
        stacks: The stacks that it is defined for.
        share: Whether it is between 0 and 1.
    """

    name: str
    function: Measure
    stacks: tuple[Stack, ...] = ALL
    share: bool = True

    def __call__(self, corpus: Corpus) -> Statistic:  # noqa: ARG002 - the same for all examples
        """The statistic for the examples of a language."""
        return self

    @property
    def columns(self) -> tuple[Column, ...]:
        """The column."""
        return (Column(self.name, self.share),)

    def measure(self, site: SiteAttention) -> tuple[Tensor, Tensor]:
        """The sums and numbers of tokens with an axis for the column."""
        sums, counts = self.function(site)
        return sums[..., None], counts[..., None]
