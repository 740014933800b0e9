"""The model and the rows of the benchmarks of clusters."""

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import XLMRobertaConfig, XLMRobertaForSequenceClassification

from headwise.engine import ExampleSet, players_of
from headwise.games import ProbabilityGame
from headwise.heads import find_heads
from headwise.methods import Problem
from headwise.tasks import find_task
from headwise.tasks.encoding import Encoded


def make_problem(hidden: int, layers: int, examples: int = 64, language: int = 0) -> Problem:
    """A classifier with random weights, and random sentences, which depend on the language."""
    torch.manual_seed(0)
    config = XLMRobertaConfig(
        vocab_size=1000, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=hidden // 32,
        intermediate_size=4 * hidden, num_labels=3, max_position_embeddings=130, pad_token_id=1,
    )  # fmt: skip
    model = XLMRobertaForSequenceClassification(config).eval()
    draw = np.random.default_rng(language)
    lengths = np.clip(draw.lognormal(3.2, 0.4, examples), 8, 64).astype(int)
    encoded = tuple(Encoded(tuple(map(int, draw.integers(5, 1000, n))), (), (int(draw.integers(3)),)) for n in lengths)
    heads, task = find_heads(model), find_task("nli")
    return Problem(model, heads, ExampleSet(task, encoded, 1), players_of(heads), ProbabilityGame())


def random_rows(problem: Problem, rows: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Random coalitions of random examples."""
    draw = np.random.default_rng(1)
    return draw.random((rows, len(problem.players))) < 0.7, draw.integers(0, len(problem.examples), rows)
