"""Masked language modelling: some tokens of a text are masked, and the model predicts them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from headwise.data.examples import Example
from headwise.draws import Draws
from headwise.errors import HeadwiseError
from headwise.tasks.causal import texts_of
from headwise.tasks.encoding import Batch, Encoded, inputs_of, make_batch, token_inputs
from headwise.tasks.metrics import Accuracy, Metric

#: Share of the tokens of a text that are masked, as in BERT's training.
MASKED = 0.15


@dataclass(frozen=True)
class MaskedTask:
    """Masked language modelling: the labels of a text are its masked tokens.

    The masked tokens are drawn at random, at least one of each text. They depend only on the id of the example and its
    number of tokens, so they are the same in every run.

    Attributes:
        name: Name of the task.
        window: Maximum number of tokens of a text with its special tokens; longer texts are cut.
        metric: The metric of results: the share of masked tokens that are predicted.
    """

    name: str = "masked-lm"
    window: int = 512
    metric: Metric = field(default_factory=Accuracy)

    def encode(self, examples: Sequence[Example], tokenizer: Any) -> tuple[tuple[Encoded, ...], int]:
        """Turn texts into tokens, some of them masked.

        Returns:
            The encoded texts, and the number of texts that were cut.

        Raises:
            HeadwiseError: An example is not a text, or an empty one, or the tokenizer has no mask token.
        """
        if tokenizer.mask_token_id is None:
            raise HeadwiseError("the tokenizer has no mask token: use the tokenizer of a masked language model")
        texts = texts_of(examples)
        full = tokenizer(texts, add_special_tokens=True)["input_ids"]
        tokens = tokenizer(texts, truncation=True, max_length=self.window, return_special_tokens_mask=True)
        special = tokens.pop("special_tokens_mask")
        encoded, cut = [], 0
        for index, (example, ids) in enumerate(zip(examples, tokens["input_ids"], strict=True)):
            places = np.flatnonzero(np.array(special[index]) == 0)
            if not len(places):
                raise HeadwiseError(f"example {example.id}: the text is empty")
            order = Draws(0, f"masked {example.id}").uniform(0, 1, len(places))[0].argsort(kind="stable")
            chosen = np.sort(places[order[: max(1, round(MASKED * len(places)))]]).tolist()
            hidden = tuple(tokenizer.mask_token_id if place in chosen else each for place, each in enumerate(ids))
            gold, extra = tuple(ids[place] for place in chosen), token_inputs(tokens, index, tokenizer)
            encoded.append(Encoded(hidden, tuple(chosen), gold, extra=extra))
            cut += len(full[index]) > self.window
        return tuple(encoded), cut

    def make_batch(self, model: Any, encoded: Sequence[Encoded], index: Sequence[int], pad_id: int) -> Batch:
        """A batch of some of the encoded texts, with the inputs that the model takes."""
        return make_batch(encoded, index, pad_id, inputs_of(model))

    def select(self, logits: Tensor, batch: Batch) -> Tensor:
        """The logits of the masked tokens, (tokens, vocabulary)."""
        return logits[batch.rows.to(logits.device), batch.positions.to(logits.device)]
