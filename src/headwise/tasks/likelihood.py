"""Likelihood of the gold tokens of examples, in batches of similar length, optionally under gates."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headwise.data.examples import Example
from headwise.tasks.encoding import Batch, Encoded, check_vocabulary, pack_by_length, pad_id_of
from headwise.tasks.metrics import Array
from headwise.tasks.protocol import AnyTask, gold_logs

#: Called with the numbers of the examples of a batch, one per row; returns the context manager for the forward pass.
#: For example, `lambda rows: gated(model, gates[rows])` uses one row of gates per example.
Gating = Callable[[list[int]], AbstractContextManager[None]]

#: Padded tokens in one forward pass: large enough to keep the cores busy, small enough for their caches.
TOKEN_BUDGET = 2048
#: Number of logits of a batch: 256 MB in single precision, and the softmax needs the same again.
LOGIT_BUDGET = 2**26


def sum_rows(values: Tensor, batch: Batch) -> Tensor:
    """The sum over each row's labels of a value per label, (rows,); differentiable."""
    return values.new_zeros(len(batch.index)).index_add(0, batch.rows.to(values.device), values)


def sum_gold(model: Any, task: AnyTask, encoded: Sequence[Encoded], pad_id: int, gating: Gating | None = None) -> Array:
    """Probabilities of the gold tokens of each example under a causal or sequence-to-sequence model.

    Args:
        model: The model.
        task: The task.
        encoded: The examples.
        pad_id: The padding token.
        gating: Context manager for the forward pass of each batch.

    Returns:
        Summed log-probabilities, summed probabilities, number of gold tokens, and number of gold tokens that are the
        most likely ones, (examples, 4).
    """
    check_vocabulary(model, encoded)
    sums = np.zeros((len(encoded), 4))
    device = next(model.parameters()).device
    budget = min(TOKEN_BUDGET, LOGIT_BUDGET // model.config.get_text_config().vocab_size)
    model.eval()
    for group in pack_by_length([item.length for item in encoded], budget):
        index = sorted(group)  # in order, as a caller's gates expect if there is only one batch
        batch = task.make_batch(model, encoded, index, pad_id)
        with torch.inference_mode(), gating(index) if gating is not None else nullcontext():
            chosen = task.select(model(**batch.inputs(device), use_cache=False).logits, batch)
            log = gold_logs(chosen, batch).cpu().double()  # MPS has no double precision
            best = (chosen.argmax(-1).cpu() == batch.gold).double()
            sums[index] = torch.stack([sum_rows(each, batch) for each in (log, log.exp(), log * 0 + 1, best)], dim=1)
    return sums


def mean_log_likelihood(model: Any, task: AnyTask, examples: Sequence[Example], tokenizer: Any) -> float:
    """Mean log-probability of a gold token over all examples; higher is better, at most 0."""
    encoded, _ = task.encode(examples, tokenizer)
    log, _, tokens, _ = sum_gold(model, task, encoded, pad_id_of(tokenizer)).sum(0)
    return float(log / tokens)
