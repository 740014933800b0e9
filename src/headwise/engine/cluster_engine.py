"""The engine whose batches are computed by the workers of a cluster."""

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from headwise.engine.base import EngineSettings
from headwise.engine.dispatch import Failure
from headwise.engine.examples import ExampleSet
from headwise.engine.jobs import NotFiniteError, PackAnswer, PackJob
from headwise.engine.local import LocalEngine
from headwise.engine.players import PlayerSet
from headwise.engine.worker import EngineParts, WorkerAnswer, WorkerJob
from headwise.errors import HeadwiseError
from headwise.games.base import Game
from headwise.heads import HeadMap
from headwise.means import MeanOutputs

if TYPE_CHECKING:
    from headwise.engine.cluster import Cluster

#: Failures that may be due to the size of a batch, so that its halves may succeed.
_SPLIT_AFTER = ("memory", "died", "hung")
#: Maximum number of players named in an error message.
_NAMED = 4

_log = logging.getLogger("headwise.cluster")


class ClusterEngine(LocalEngine):
    """The engine on a cluster: makes the batches of the engine in this process, but workers compute them."""

    def __init__(
        self,
        cluster: "Cluster",
        model: nn.Module,
        heads: HeadMap | None,
        game: Game,
        examples: ExampleSet,
        players: PlayerSet | None,
        settings: EngineSettings,
        baseline: MeanOutputs | None,
    ) -> None:
        super().__init__(model, heads, game, examples, players, settings, baseline)
        self._cluster = cluster
        self._jobs = cluster.job_maker(
            model, EngineParts(self.heads, game, self.examples, self.players, self.settings, self.baseline)
        )

    def _of(self, game: Game, examples: ExampleSet) -> "ClusterEngine":
        """The same engine for another game and other examples."""
        return ClusterEngine(
            self._cluster, self.model, self.heads, game, examples, self.players, self.settings, self.baseline
        )

    def _answers(self, jobs: Iterable[PackJob]) -> Iterator[PackAnswer]:
        """The answers to batches, in their order."""
        sent: deque[PackJob] = deque()  # answers arrive in the order of the jobs

        def sending() -> Iterator[WorkerJob]:
            for job in jobs:
                sent.append(job)
                yield self._jobs(job)

        for found in self._cluster.answers(sending()):
            yield self._resolved(sent.popleft(), found)

    def _resolved(self, job: PackJob, found: WorkerAnswer | Failure) -> PackAnswer:
        """The answer to a batch; if it failed on several workers, its halves are tried.

        Raises:
            HeadwiseError: A single row fails, or the failure does not depend on the size of the batch.
        """
        if isinstance(found, WorkerAnswer):
            gradients = None if found.gradients is None else torch.from_numpy(found.gradients.copy())
            return PackAnswer(torch.from_numpy(found.values.copy()), gradients, found.cost)
        if found.kind == "not finite":
            raise NotFiniteError(found.reason)
        if found.kind not in _SPLIT_AFTER:
            raise HeadwiseError(found.reason)
        rows = len(job.examples)
        if rows == 1:
            raise HeadwiseError(f"{self._name(job)} fails on several workers: {found.reason}")
        _log.warning(
            "a batch of %d rows failed on several workers and is split, so the last bits of its values may differ: %s",
            rows,
            found.reason,
        )
        parts = (slice(None, rows // 2), slice(rows // 2, None))
        halves = [replace(job, gates=job.gates[part], examples=job.examples[part]) for part in parts]
        one, other = self._answers(halves)
        gradients = None
        if one.gradients is not None and other.gradients is not None:
            gradients = torch.cat([one.gradients, other.gradients])
        return PackAnswer(torch.cat([one.values, other.values]), gradients, one.cost + other.cost)

    def _name(self, job: PackJob) -> str:
        """A row for an error message: its example, and the players that are not fully on."""
        off = [self.players.names[place] for place in np.flatnonzero(job.gates[0] != 1)]
        more = f" and {len(off) - _NAMED} more" if len(off) > _NAMED else ""
        return f"example {job.examples[0]}, numbered from 0, without {', '.join(off[:_NAMED]) or 'nothing'}{more},"
