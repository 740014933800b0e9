"""One pass over the examples of a language that sums all statistics of all heads, one site at a time."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headwise.activations import device_of
from headwise.attention import capture_attention
from headwise.engine import EngineSettings, LocalEngine
from headwise.games import ProbabilityGame
from headwise.heads import HeadMap, Site
from headwise.methods.attention_statistics import RatioSums, site_tokens
from headwise.roles.attention import BatchTokens, SiteAttention
from headwise.roles.corpus import Corpus
from headwise.roles.statistics import PAIR_STATISTICS, STATISTICS, Column
from headwise.roles.table import LanguageRoles
from headwise.runs import Journal
from headwise.tasks.encoding import Batch

Array = NDArray[np.float64]
#: Number of examples in a round; memory grows with it, and a stopped run loses at most one round.
ROUND = 128


class RolePass:
    """Sums of all statistics over the examples of a language.

    Args:
        model: The model.
        heads: Its head map, with all sites.
        corpus: The examples; its own head map says which heads are measured.
        settings: Settings of the engine.
    """

    def __init__(
        self, model: nn.Module, heads: HeadMap, corpus: Corpus, settings: EngineSettings | None = None
    ) -> None:
        self.model, self.corpus = model, corpus
        self.engine = LocalEngine(model, heads, ProbabilityGame(), corpus.examples, settings=settings)
        self.statistics = tuple(make(corpus) for make in (PAIR_STATISTICS if corpus.pairs else STATISTICS))
        self.columns: tuple[Column, ...] = tuple(column for each in self.statistics for column in each.columns)
        self.spans = {site.name: span for site, span in corpus.heads.spans()}
        self.sums = RatioSums.start((len(corpus.heads.players()), len(self.columns)))
        self.units = 0.0

    @property
    def done(self) -> bool:
        """Whether every example was read."""
        return self.sums.count >= len(self.corpus.examples)

    def draw(self) -> Mapping[str, NDArray[Any]]:
        """The sums of the next round of examples."""
        first = self.sums.count
        index = np.arange(first, min(first + ROUND, len(self.corpus.examples)))
        sums, counts = np.zeros((2, len(index), *self.sums.sums["s"].shape))  # (examples, heads, columns) each

        def within(batch: Batch) -> AbstractContextManager[None]:
            rows = np.searchsorted(index, batch.index.numpy())
            return capture_attention(self.model, self._adder(batch, rows, sums, counts), self.corpus.heads)

        cost = self.engine.run(index, within)
        return {**RatioSums.arrays(sums, counts), "units": np.array(cost.units)}

    def absorb(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Add the sums of a round."""
        self.sums = self.sums.add(arrays)
        self.units += float(arrays["units"])

    def _adder(
        self, batch: Batch, rows: NDArray[np.int64], sums: Array, counts: Array
    ) -> Callable[[Site, Tensor], None]:
        """The callback that writes the statistics of a site on a batch into the rows of `sums` and `counts`."""
        device = device_of(self.model)
        by_stack = site_tokens(batch, self.corpus.examples, device)
        separators, ends = (
            torch.tensor(ids, dtype=torch.long, device=device) for ids in (self.corpus.separators, self.corpus.ends)
        )
        shared = {
            site.stack: BatchTokens(
                site.stack, by_stack[site.stack], batch.index, separators, ends, self.corpus.translates
            )
            for site in self.corpus.heads.sites
        }

        def add(site: Site, weights: Tensor) -> None:
            seen = SiteAttention(weights, shared[site.stack])
            span, start = self.spans[site.name], 0
            for each in self.statistics:
                stop = start + len(each.columns)
                if site.stack in each.stacks and stop > start:
                    total, number = each.measure(seen)
                    sums[rows, span, start:stop] = total.double().cpu().numpy()
                    counts[rows, span, start:stop] = number.double().cpu().numpy()[:, None]
                start = stop

        return add

    def result(self) -> LanguageRoles:
        """The statistics of all heads so far."""
        return LanguageRoles(
            heads=self.corpus.heads.players(),
            columns=self.columns,
            value=self.sums.mean,
            stderr=self.sums.stderr,
            count=self.sums.sums["n"].astype(np.int64),
            examples=self.sums.count,
            cut=self.corpus.examples.cut,
            units=self.units,
        )


def measure_language(
    model: nn.Module,
    heads: HeadMap,
    corpus: Corpus,
    journal: Journal | None = None,
    stream: str = "",
    progress: Callable[[int], None] | None = None,
    settings: EngineSettings | None = None,
) -> LanguageRoles:
    """Measure all statistics on the examples of a language, in one pass.

    Args:
        model: The model.
        heads: Its head map.
        corpus: The examples.
        journal: Stores the rounds; rounds that it has are not measured again. None to store nothing.
        stream: Name of the rounds in the journal.
        progress: Called after each round with the number of examples so far.
        settings: Settings of the engine.
    """
    found = RolePass(model, heads, corpus, settings)
    for kept in journal.rounds(stream) if journal is not None else ():
        found.absorb(kept.arrays)
    while not found.done:
        first, arrays = found.sums.count, found.draw()
        if journal is not None:
            journal.record(stream, journal.count(stream), arrays, first, int(arrays["count"]))
        found.absorb(arrays)
        if progress is not None:
            progress(found.sums.count)
    return found.result()
