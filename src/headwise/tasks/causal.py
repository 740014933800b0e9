"""Language modelling: perplexity and bits per byte over strided windows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headwise.data.examples import Example, TextExample
from headwise.errors import HeadwiseError
from headwise.tasks.encoding import Batch, Encoded, TextSize, pad_id_of, usable_positions
from headwise.tasks.evaluation import Evaluation
from headwise.tasks.likelihood import Gating, sum_gold
from headwise.tasks.metrics import Answers, Array
from headwise.tasks.token_trees import make_token_batch


@dataclass(frozen=True)
class LanguageTask:
    """Language modelling with a causal model: the labels of a text are its tokens.

    Every token is predicted exactly once. The first token is predicted from the tokenizer's start token.

    Attributes:
        name: Name of the task.
        window: Maximum number of tokens of a text. Longer texts are cut; `perplexity` reads all of a text.

    Example:
        >>> tokenizer = lambda texts, **_: {"input_ids": [[int(word) for word in text.split()] for text in texts]}
        >>> tokenizer.bos_token_id, tokenizer.decode = 0, lambda ids: " ".join(map(str, ids))
        >>> LanguageTask(window=2).encode([TextExample("1", "7 8 9")], tokenizer)
        ((Encoded(ids=(0, 7), positions=(0, 1), gold=(7, 8), extra=()),), 1)
    """

    name: str = "lm"
    window: int = 512

    def encode(self, examples: Sequence[Example], tokenizer: Any) -> tuple[tuple[Encoded, ...], int]:
        """Turn texts into tokens.

        Returns:
            The encoded texts, and the number of texts that were cut.

        Raises:
            HeadwiseError: An example is not a text, or an empty one.
        """
        texts = texts_of(examples)
        start = start_token(tokenizer)
        encoded, cut = [], 0
        tokens = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"] if texts else []
        for example, text, ids in zip(examples, texts, tokens, strict=True):
            if not ids:
                raise HeadwiseError(f"example {example.id}: the text is empty")
            read = text if len(ids) <= self.window else tokenizer.decode(ids[: self.window])
            first = next(make_windows((start, *ids), self.window, self.window))
            encoded.append(replace(first, size=TextSize.of(read)))
            cut += len(ids) > self.window
        return tuple(encoded), cut

    def make_batch(self, model: Any, encoded: Sequence[Encoded], index: Sequence[int], pad_id: int) -> Batch:
        """A batch of some of the encoded texts.

        Raises:
            HeadwiseError: The window is longer than the model's maximum.
        """
        check_window(model, self.window, stride=1)
        return make_token_batch(model, encoded, index, pad_id)

    def select(self, logits: Tensor, batch: Batch) -> Tensor:
        """The logits that predict each token, (tokens, vocabulary)."""
        return logits[batch.rows.to(logits.device), batch.positions.to(logits.device)]


def texts_of(examples: Sequence[Example]) -> list[str]:
    """The texts of examples.

    Raises:
        HeadwiseError: An example is not a single text.
    """
    texts = [example.text for example in examples if isinstance(example, TextExample)]
    if len(texts) < len(examples):
        raise HeadwiseError("language modelling needs plain texts (TextExample)")
    return texts


@dataclass(frozen=True)
class Perplexity:
    """The inverse of the geometric mean probability of a token; lower is better. It is not a percentage."""

    name: str = "perplexity"

    def value(self, totals: Array) -> Array:
        """The perplexity of summed log-likelihoods and tokens, (..., 2)."""
        with np.errstate(over="ignore"):  # a token with probability 0 has infinite perplexity
            found: Array = np.exp(-totals[..., 0] / np.maximum(totals[..., 1], 1))
        return found


@dataclass(frozen=True)
class BitsPerByte:
    """Bits that the model needs to encode a byte of text (UTF-8); lower is better. It is not a percentage.

    It does not depend on the tokenizer, so models are comparable; scripts of more bytes per character get lower values.

    Attributes:
        name: Name of the metric.
        size: Number of statistics of a text.
        column: 0 for bytes, 1 for characters.
    """

    name: str = "bits per byte"
    size: int = 2
    column: int = 0

    def statistics(self, answers: Answers) -> Tensor:
        """The summed log-probability of each row's gold tokens, and the length of their text, (rows, 2).

        Raises:
            HeadwiseError: The labels are not tokens of a text.
        """
        if answers.sizes is None:
            raise HeadwiseError(f"{self.name} are for the tasks lm, continuation and translation")
        log = answers.log_probabilities
        return torch.stack([answers.sum(log), answers.sizes[:, self.column].to(log)], dim=1)

    def value(self, totals: Array) -> Array:
        """The bits of summed log-likelihoods and bytes, (..., 2)."""
        found: Array = -totals[..., 0] / np.maximum(totals[..., 1], 1) / np.log(2)
        return found


@dataclass(frozen=True)
class BitsPerCharacter(BitsPerByte):
    """Bits that the model needs to encode a character of text; lower is better. It is not a percentage."""

    name: str = "bits per character"
    column: int = 1


def perplexity(
    model: Any,
    texts: Sequence[str],
    tokenizer: Any,
    window: int = 512,
    stride: int | None = None,
    gating: Gating | None = None,
) -> Evaluation:
    """Perplexity of a causal model on texts.

    Every token of a text is predicted exactly once. The first token is predicted from the tokenizer's start token. A
    text longer than the window is read in overlapping windows, so that each token has at least window - stride tokens
    of context.

    Args:
        model: A causal language model.
        texts: The texts, independent of each other.
        tokenizer: The model's tokenizer; its padding side does not matter.
        window: Number of tokens that the model reads at a time.
        stride: Number of tokens by which the window moves; half a window by default. A smaller stride gives better
            predictions and is slower.
        gating: Context manager for the forward pass of each batch of texts.

    Returns:
        The perplexity per token; its statistics are summed log-likelihood and tokens, (texts, 2). No text is cut.

    Raises:
        HeadwiseError: The window does not fit the model, the stride does not fit the window, or all texts are empty.
    """
    stride = max(1, window // 2) if stride is None else stride
    check_window(model, window, stride)
    start = start_token(tokenizer)
    tokens = tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"] if texts else []
    windows = [
        (owner, each) for owner, ids in enumerate(tokens) for each in make_windows((start, *ids), window, stride)
    ]
    if not windows:
        raise HeadwiseError("there are no tokens to predict: every text is empty")
    sums = sum_sequences(model, windows, tokenizer, gating)
    statistics = np.zeros((len(texts), 2))
    np.add.at(statistics, [owner for owner, _ in windows], sums[:, [0, 2]])
    return Evaluation.of(Perplexity(), statistics)


def measure_texts(
    model: Any, texts: Sequence[str], tokenizer: Any, window: int = 512, gating: Gating | None = None
) -> tuple[Evaluation, ...]:
    """Perplexity per token, bits per byte and bits per character of a causal model on texts.

    The arguments are those of `perplexity`.
    """
    tokens = perplexity(model, texts, tokenizer, window, gating=gating)
    sizes = np.array([(len(text.encode()), len(text)) for text in texts], dtype=np.float64)
    likelihood = tokens.statistics[:, 0]
    return (
        tokens,
        Evaluation.of(BitsPerByte(), np.stack([likelihood, sizes[:, 0]], axis=1)),
        Evaluation.of(BitsPerCharacter(), np.stack([likelihood, sizes[:, 1]], axis=1)),
    )


def make_windows(ids: Sequence[int], window: int, stride: int) -> Iterator[Encoded]:
    """Windows over tokens in which each token except the first is gold exactly once.

    Example:
        >>> [(each.ids, each.gold) for each in make_windows((0, 1, 2, 3, 4, 5), window=3, stride=2)]
        [((0, 1, 2), (1, 2, 3)), ((2, 3, 4), (4, 5))]
    """
    done = 1
    while done < len(ids):
        end = min(done + (window if done == 1 else stride), len(ids))
        first = max(0, end - 1 - window)  # the last gold token is not an input
        yield Encoded(
            tuple(ids[first : end - 1]), tuple(range(done - 1 - first, end - 1 - first)), tuple(ids[done:end])
        )
        done = end


def sum_sequences(model: Any, sequences: Sequence[tuple[int, Encoded]], tokenizer: Any, gating: Gating | None) -> Array:
    """`sum_gold` of a causal model, (sequences, 4), for sequences given with the number of their example."""
    owners, encoded = [owner for owner, _ in sequences], [each for _, each in sequences]
    by_owner = (lambda index: gating([owners[i] for i in index])) if gating is not None else None
    longest = max(len(each.ids) for each in encoded)
    # Padding on the right is masked and does not affect a causal model, so the padding token does not matter.
    return sum_gold(model, LanguageTask(window=longest), encoded, pad_id_of(tokenizer), by_owner)


def start_token(tokenizer: Any) -> int:
    """The token before the first token of a text: the tokenizer's start token, or its end token.

    Raises:
        HeadwiseError: The tokenizer has neither.
    """
    for name in ("bos_token_id", "cls_token_id", "eos_token_id"):
        if (found := getattr(tokenizer, name)) is not None:
            return int(found)
    raise HeadwiseError("the tokenizer has no start token: set its bos_token")


def check_window(model: Any, window: int, stride: int) -> None:
    """Raise an error if a window does not fit the model, or a stride the window."""
    most = usable_positions(model)
    if window < 1 or (most is not None and window > most):
        raise HeadwiseError(f"a window of {window} tokens does not fit the model: use 1 to {most or 'any number'}")
    if not 1 <= stride <= window:
        raise HeadwiseError(f"a stride of {stride} does not fit a window of {window}: use 1 to {window}")
