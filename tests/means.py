"""Mean outputs of tiny models: as headwise computes them from a padded batch."""

from typing import Any

import torch
from torch import Tensor

from headwise.activations import TokenBatch
from headwise.means import MeanOutputs, collect_means
from tests.families import Case, inputs_for


def token_batch(case: Case, inputs: dict[str, Tensor]) -> TokenBatch:
    """A batch of `inputs_for`, whose decoder inputs have no padding."""
    source = inputs["attention_mask"].bool()
    target = torch.ones_like(inputs["decoder_input_ids"], dtype=torch.bool) if case.seq2seq else source
    tokens = {"encoder": source, "decoder": target, "cross": target}
    return TokenBatch(inputs, tokens, torch.arange(len(source)))  # type: ignore[arg-type]


def means_of(case: Case, model: Any, seed: int = 5) -> MeanOutputs:
    """The mean outputs of a model over a batch of the case."""
    return collect_means(model, [token_batch(case, inputs_for(case, seed=seed))], language="sw")
