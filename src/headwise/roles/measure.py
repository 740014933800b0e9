"""One pass over the examples of a language that sums all statistics of all heads, one site at a time."""

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headwise.activations import device_of
from headwise.attention import capture_attention
from headwise.engine import EngineFactory, EngineSettings, LocalEngine
from headwise.engine.cluster import Cluster, cluster_of
from headwise.engine.dispatch import Failure
from headwise.errors import HeadwiseError
from headwise.games import ProbabilityGame
from headwise.heads import HeadMap, Site
from headwise.methods.attention_statistics import RatioSums, site_tokens
from headwise.roles.attention import BatchTokens, SiteAttention
from headwise.roles.corpus import Corpus
from headwise.roles.statistics import PAIR_STATISTICS, STATISTICS, Column
from headwise.roles.table import LanguageRoles
from headwise.runs import Journal
from headwise.support.steps import Steps, run_steps
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

    def draw(self) -> dict[str, NDArray[Any]]:
        """The sums of the next round of examples."""
        return self.measure(self.sums.count)

    def measure(self, first: int) -> dict[str, NDArray[Any]]:
        """The sums of the round of examples that begins with a given one; the state does not change."""
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


@dataclass(frozen=True, eq=False)
class RoleParts:
    """What workers of a cluster need to measure a language, except the model. A job is the first example of a round.

    Attributes:
        heads: The head map of the model.
        corpus: The examples.
        settings: Settings of the engine.
    """

    heads: HeadMap
    corpus: Corpus
    settings: EngineSettings | None

    def load(self, model: Any) -> Callable[[int], Mapping[str, NDArray[Any]]]:
        """The function that measures a round with a model."""
        return RolePass(model, self.heads, self.corpus, self.settings).measure


def measure_language(
    model: nn.Module,
    heads: HeadMap,
    corpus: Corpus,
    journal: Journal | None = None,
    stream: str = "",
    progress: Callable[[int], None] | None = None,
    settings: EngineSettings | None = None,
    make_engine: EngineFactory = LocalEngine,
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
        make_engine: Creates engines. Those of a cluster (`Cluster.make_engine`) let its workers measure the rounds.
    """
    found = run_steps(language_steps(model, heads, corpus, journal, stream, progress, settings, make_engine))
    return found.result()


def language_steps(
    model: nn.Module,
    heads: HeadMap,
    corpus: Corpus,
    journal: Journal | None = None,
    stream: str = "",
    progress: Callable[[int], None] | None = None,
    settings: EngineSettings | None = None,
    make_engine: EngineFactory = LocalEngine,
) -> Steps[RolePass]:
    """`measure_language` as a task of `run_together`; on a cluster, all rounds are measured at the same time."""
    found = RolePass(model, heads, corpus, settings)
    for kept in journal.rounds(stream) if journal is not None else ():
        with kept.replaying() as known:
            found.absorb(known)
    if progress is not None and found.sums.count:
        progress(found.sums.count)
    rounds = _rounds(found, RoleParts(heads, corpus, settings), cluster_of(make_engine))
    while not found.done:
        first = found.sums.count
        arrays: Mapping[str, NDArray[Any]] = yield functools.partial(next, rounds)
        if journal is not None:
            journal.record(stream, journal.count(stream), arrays, first, int(arrays["count"]))
        found.absorb(arrays)
        if progress is not None:
            progress(found.sums.count)
    return found


def _rounds(found: RolePass, parts: RoleParts, cluster: Cluster | None) -> Iterator[Mapping[str, NDArray[Any]]]:
    """The rounds that are missing, in their order.

    Raises:
        HeadwiseError: A round fails on several workers.
    """
    firsts = range(found.sums.count, len(found.corpus.examples), ROUND)
    if cluster is None or not firsts:
        yield from map(found.measure, firsts)
        return
    job = cluster.job_maker(found.model, parts)
    for first, arrays in zip(firsts, cluster.answers(map(job, firsts)), strict=True):
        if isinstance(arrays, Failure):
            raise HeadwiseError(f"the examples from number {first}, counted from 0, fail on workers: {arrays.reason}")
        yield arrays
