"""Log-likelihood of a continuation given a prompt, with a causal language model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from headwise.data.examples import Example, PromptExample
from headwise.errors import HeadwiseError
from headwise.tasks.causal import BitsPerByte, BitsPerCharacter, Perplexity, check_window, start_token, sum_sequences
from headwise.tasks.encoding import Batch, Encoded, TextSize
from headwise.tasks.evaluation import Evaluation
from headwise.tasks.likelihood import Gating
from headwise.tasks.metrics import Accuracy, Array, CorpusMetric
from headwise.tasks.token_trees import make_token_batch


def encode_pair(context: str, continuation: str, tokenizer: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The tokens of a context and of its continuation, split as lm-evaluation-harness splits them.

    Spaces at the end of the context belong to the continuation. Both are tokenized together, with the special tokens
    that the tokenizer adds, and the tokens after those of the context are the continuation's. An empty context is the
    tokenizer's start token.

    Example:
        >>> def words(text, add_special_tokens=True, **_):
        ...     return {"input_ids": [len(word) for word in text.split()]}
        >>> words.bos_token_id = 0
        >>> encode_pair("a bb ", "ccc dddd", words), encode_pair("", "ccc", words)
        (((1, 2), (3, 4)), ((0,), (3,)))
    """
    bare = context.rstrip()
    if not bare:
        ids = tuple(tokenizer(context + continuation, add_special_tokens=False, verbose=False)["input_ids"])
        start = start_token(tokenizer)
        return (ids[:1], ids[1:]) if ids[:1] == (start,) else ((start,), ids)
    whole = tuple(tokenizer(context + continuation, verbose=False)["input_ids"])
    before = len(tokenizer(bare, verbose=False)["input_ids"])
    return whole[:before], whole[before:]


def encode_continuation(
    name: str, context: str, continuation: str, tokenizer: Any, window: int
) -> tuple[Encoded, bool]:
    """A continuation whose tokens are the labels, and whether its context had to be cut at the beginning.

    Raises:
        HeadwiseError: The continuation has no tokens, or more than the window.
    """
    before, gold = encode_pair(context, continuation, tokenizer)
    if not 1 <= len(gold) <= window:
        raise HeadwiseError(
            f"example {name}: a continuation has {len(gold)} tokens, but the window allows 1 to {window}"
        )
    whole = (*before, *gold)[:-1]
    ids = whole[-window:]
    positions = tuple(range(len(ids) - len(gold), len(ids)))
    return Encoded(ids, positions, gold, size=TextSize.of(continuation)), len(whole) > window


@dataclass(frozen=True)
class ContinuationTask:
    """Predict a continuation given a prompt, with a causal model: the labels are the tokens of the continuation.

    Attributes:
        name: Name of the task.
        window: Maximum number of tokens that the model reads. A longer prompt is cut at its beginning.
    """

    name: str = "continuation"
    window: int = 2048

    def encode(self, examples: Sequence[Example], tokenizer: Any) -> tuple[tuple[Encoded, ...], int]:
        """Turn prompts and continuations into tokens.

        Returns:
            The encoded examples, and the number of examples whose prompt was cut.

        Raises:
            HeadwiseError: An example has no prompt and continuation, or its continuation does not fit the window.
        """
        pairs = [encode_prompt(example, tokenizer, self.window) for example in examples]
        return tuple(each for each, _ in pairs), sum(cut for _, cut in pairs)

    def make_batch(self, model: Any, encoded: Sequence[Encoded], index: Sequence[int], pad_id: int) -> Batch:
        """A batch of some of the encoded examples.

        Raises:
            HeadwiseError: The window is longer than the model's maximum.
        """
        check_window(model, self.window, stride=1)
        return make_token_batch(model, encoded, index, pad_id)

    def select(self, logits: Tensor, batch: Batch) -> Tensor:
        """The logits that predict each token of a continuation, (tokens, vocabulary)."""
        return logits[batch.rows.to(logits.device), batch.positions.to(logits.device)]


def encode_prompt(example: Example, tokenizer: Any, window: int) -> tuple[Encoded, bool]:
    """A prompt with its continuation in tokens, and whether the prompt had to be cut.

    Raises:
        HeadwiseError: The example is not a `PromptExample`, or its continuation does not fit the window.
    """
    if not isinstance(example, PromptExample):
        raise HeadwiseError("the task 'continuation' needs a prompt and its continuation (PromptExample)")
    return encode_continuation(example.id, *example.pair, tokenizer, window)


def evaluate_continuations(
    model: Any, task: ContinuationTask, examples: Sequence[Example], tokenizer: Any, gating: Gating | None = None
) -> tuple[Evaluation, ...]:
    """Measure a causal model on continuations.

    Returns:
        The perplexity per token, bits per byte, bits per character, and the share of continuations of which every
        token is the most likely one (accuracy).
    """
    encoded, cut = task.encode(examples, tokenizer)
    sums = sum_sequences(model, list(enumerate(encoded)), tokenizer, gating)
    sizes = np.array([(each.size.bytes, each.size.characters) for each in encoded if each.size is not None])
    whole = sums[:, 3] == sums[:, 2]
    counted: dict[CorpusMetric, Array] = {
        Perplexity(): sums[:, [0, 2]],
        BitsPerByte(): np.stack([sums[:, 0], sizes[:, 0]], axis=1),
        BitsPerCharacter(): np.stack([sums[:, 0], sizes[:, 1]], axis=1),
        Accuracy(): np.stack([whole, np.ones(len(whole))], axis=1).astype(np.float64),
    }
    return tuple(Evaluation.of(metric, statistics, cut) for metric, statistics in counted.items())
