"""Values of generated texts: the text of every distinct row is generated once, under its own gates."""

from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.engine.examples import ExampleSet
from headwise.engine.players import PlayerSet
from headwise.errors import HeadwiseError
from headwise.games.generation import GenerationGame
from headwise.gates import gated
from headwise.heads import HeadMap
from headwise.means import MeanOutputs
from headwise.tasks.translation import EncodedPair, TranslationTask, translate


def generate_rows(
    model: Any,
    heads: HeadMap,
    game: GenerationGame,
    examples: ExampleSet,
    players: PlayerSet,
    on: NDArray[Any],
    index: NDArray[np.int64],
    baseline: MeanOutputs | None = None,
) -> tuple[Tensor, int]:
    """The statistics of rows, (rows, statistics), and the number of distinct rows.

    Raises:
        HeadwiseError: The task is not translation, or the players are of several kinds.
    """
    if not isinstance(examples.task, TranslationTask):
        raise HeadwiseError(f"the game {game.name!r} needs the task 'translation', not {examples.task.name!r}")
    if len(players.owners) > 1:
        raise HeadwiseError("generated texts need players of one kind: heads, ffn or layers")
    keys = np.concatenate([index[:, None], np.packbits(on, axis=1) if on.dtype == bool else on], axis=1)
    _, first, which = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    ((kind, gates),) = players.gates(torch.from_numpy(on[first])).items()
    pairs = [cast(EncodedPair, examples.encoded[example]) for example in index[first]]
    texts = translate(
        model,
        examples.task,
        pairs,
        game.tokenizer,
        lambda rows: gated(model, gates[rows], players=kind, heads=heads, baseline=baseline),
    )
    references = [game.references[example] for example in index[first]]
    found = np.stack([game.metric.statistics(*pair) for pair in zip(texts, references, strict=True)])
    return torch.from_numpy(found)[which.ravel()].float(), len(first)
