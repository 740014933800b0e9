"""What tuning changes inside a model: the entropy of its heads, and the embeddings of sentences."""

import importlib
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headwise.engine import ExampleSet, LocalEngine, players_of
from headwise.errors import HeadwiseError
from headwise.games.metric import MetricGame
from headwise.heads import base_model, find_heads
from headwise.methods import Problem
from headwise.methods.attention_statistics import AttentionPasses, entropies
from headwise.tasks import Task
from headwise.tasks.encoding import Batch

Array = NDArray[np.float64]
THIRDS = ("bottom", "middle", "top")
#: Number of rows of the distance matrix in memory.
_ROWS = 512


def head_entropies(model: Any, task: Task, examples: ExampleSet) -> dict[str, float]:
    """The mean entropy of the attention of each head, in nats, over all tokens that are not padding.

    Args:
        model: A model; heads that were cut out of it are left out.
        task: Its task.
        examples: The examples.
    """
    heads = find_heads(model)
    problem = Problem(model, heads, examples, players_of(heads), MetricGame(task.metric))
    sums, counts, _ = AttentionPasses("entropy", problem).run(np.arange(len(examples)), entropies)
    return dict(zip(problem.players.names, (sums.sum(0) / counts.sum(0)).tolist(), strict=True))


def third_of(layer: int, layers: int) -> str:
    """The third of the model that a layer belongs to.

    Example:
        >>> [third_of(layer, 12) for layer in (0, 3, 4, 7, 8, 11)]
        ['bottom', 'bottom', 'middle', 'middle', 'top', 'top']
    """
    return THIRDS[3 * layer // layers]


def sentence_embeddings(model: Any, task: Task, examples: ExampleSet) -> Array:
    """The mean of the encoder's last hidden states over the tokens of each example, (examples, width).

    Args:
        model: A model with a classifier.
        task: Its task.
        examples: The examples, as the model reads them: a pair of sentences is one input.
    """
    heads = find_heads(model)
    found: dict[int, Array] = {}
    encoder = base_model(model).base_model
    engine = LocalEngine(model, heads, MetricGame(task.metric), examples, players_of(heads))

    @contextmanager
    def capture(batch: Batch) -> Any:
        def keep(_module: Any, _args: Any, output: Any) -> None:
            hidden = output.last_hidden_state.double()
            real = batch.attention_mask.to(hidden.device)[..., None]
            means = (hidden * real).sum(1) / real.sum(1)  # (rows, width)
            found.update(zip(batch.index.tolist(), means.cpu().numpy(), strict=True))

        handle = encoder.register_forward_hook(keep)
        try:
            yield
        finally:
            handle.remove()

    engine.run(np.arange(len(examples)), capture)
    return np.stack([found[place] for place in range(len(examples))])


def language_purity(embeddings: Array, languages: Sequence[str], neighbours: int = 10) -> Array:
    """The share of the nearest neighbours of each sentence (Euclidean) that have its language, (sentences,).

    Example:
        >>> points = np.array([[0.0], [0.1], [5.0], [5.1]])
        >>> language_purity(points, ["en", "en", "tr", "tr"], neighbours=1).tolist()
        [1.0, 1.0, 1.0, 1.0]
        >>> language_purity(points, ["en", "tr", "en", "tr"], neighbours=1).tolist()
        [0.0, 0.0, 0.0, 0.0]
    """
    names, points = np.array(languages), torch.from_numpy(embeddings)
    count, found = min(neighbours, len(names) - 1), []
    for start in range(0, len(names), _ROWS):
        rows = torch.arange(start, min(start + _ROWS, len(names)))
        distances = torch.cdist(points[rows], points)  # (rows, sentences)
        distances[torch.arange(len(rows)), rows] = torch.inf  # a sentence is not its own neighbour
        nearest = distances.topk(count, largest=False).indices.numpy()
        found.append((names[nearest] == names[rows.numpy()][:, None]).mean(1))
    return np.concatenate(found)


def require_tsne() -> Any:
    """The class `TSNE` of scikit-learn.

    Raises:
        HeadwiseError: scikit-learn is not installed.
    """
    try:
        return importlib.import_module("sklearn.manifold").TSNE
    except ImportError:
        raise HeadwiseError(
            "t-SNE needs the package 'scikit-learn': pip install 'headwise[tsne]', or set tsne_sentences to 0"
        ) from None


def tsne_points(embeddings: Array, seed: int) -> Array:
    """A t-SNE of embeddings in the plane, (sentences, 2)."""
    perplexity = min(30.0, (len(embeddings) - 1) / 3)
    found = require_tsne()(n_components=2, perplexity=perplexity, init="pca", random_state=seed)
    return np.asarray(found.fit_transform(embeddings), dtype=np.float64)


def entropy_changes(before: Mapping[str, float], after: Mapping[str, float], layers: int) -> dict[str, list[float]]:
    """The absolute change of the entropy of each head, by third of the model.

    Example:
        >>> entropy_changes({"encoder.0.1": 1.0, "encoder.2.0": 2.0}, {"encoder.0.1": 1.5, "encoder.2.0": 1.0}, 3)
        {'bottom': [0.5], 'middle': [], 'top': [1.0]}
    """
    found: dict[str, list[float]] = {third: [] for third in THIRDS}
    for name, value in before.items():
        found[third_of(int(name.split(".")[1]), layers)].append(abs(after[name] - value))
    return found
