"""Language modelling: perplexity over strided windows, and multiple choice by log-likelihood."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from torch import Tensor

from headwise.data.examples import ChoiceExample, Example, TextExample
from headwise.errors import HeadwiseError
from headwise.tasks.encoding import Batch, Encoded, make_batch, pad_id_of, usable_positions
from headwise.tasks.evaluation import Evaluation
from headwise.tasks.likelihood import Gating, sum_gold
from headwise.tasks.metrics import Accuracy, Array

Normalise = Literal["none", "tokens", "bytes"]


@dataclass(frozen=True)
class LanguageTask:
    """Language modelling with a causal model: the labels of a text are its tokens.

    Every token is predicted exactly once. The first token is predicted from the tokenizer's start token.

    Attributes:
        name: Name of the task.
        window: Maximum number of tokens of a text. Longer texts are cut; `perplexity` reads all of a text.

    Example:
        >>> tokenizer = lambda texts, **_: {"input_ids": [[int(word) for word in text.split()] for text in texts]}
        >>> tokenizer.bos_token_id = 0
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
        for example, ids in zip(examples, tokens, strict=True):
            if not ids:
                raise HeadwiseError(f"example {example.id}: the text is empty")
            encoded.append(next(make_windows((start, *ids), self.window, self.window)))
            cut += len(ids) > self.window
        return tuple(encoded), cut

    def make_batch(self, model: Any, encoded: Sequence[Encoded], index: Sequence[int], pad_id: int) -> Batch:
        """A batch of some of the encoded texts.

        Raises:
            HeadwiseError: The window is longer than the model's maximum.
        """
        _check_window(model, self.window, stride=1)
        return make_batch(encoded, index, pad_id)

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
    _check_window(model, window, stride)
    start = start_token(tokenizer)
    tokens = tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"] if texts else []
    windows = [
        (owner, each) for owner, ids in enumerate(tokens) for each in make_windows((start, *ids), window, stride)
    ]
    if not windows:
        raise HeadwiseError("there are no tokens to predict: every text is empty")
    sums = _sum_sequences(model, windows, tokenizer, gating)
    statistics = np.zeros((len(texts), 2))
    np.add.at(statistics, [owner for owner, _ in windows], sums[:, [0, 2]])
    return Evaluation.of(Perplexity(), statistics)


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


@dataclass(frozen=True)
class ChoiceScores:
    """A model's score of each choice.

    Attributes:
        scores: Log-likelihood of each choice of each example, normalised as the task specifies.
        answers: The right choice of each example.
        cut: Number of examples whose context was cut at its beginning.
    """

    scores: tuple[Array, ...]
    answers: tuple[int, ...]
    cut: int

    @property
    def predicted(self) -> tuple[int, ...]:
        """The choice with the highest score, for each example."""
        return tuple(int(each.argmax()) for each in self.scores)

    @property
    def probabilities(self) -> Array:
        """Probability of the right choice among the choices (the soft value), (examples,)."""
        pairs = zip(self.scores, self.answers, strict=True)
        return np.array([1 / np.exp(each - each[answer]).sum() for each, answer in pairs])


@dataclass(frozen=True)
class MultipleChoice:
    """Choose the continuation with the highest likelihood under a causal model.

    Attributes:
        normalise: Divisor of a choice's log-likelihood: none, its number of tokens, or its number of bytes in UTF-8.
        separator: Text between context and choice; empty for languages without spaces.
        window: Maximum number of tokens that the model reads. A longer context is cut at its beginning.
        name: Name of the task.
    """

    normalise: Normalise = "none"
    separator: str = " "
    window: int = 512
    name: str = "choice"

    def encode_choices(self, example: ChoiceExample, tokenizer: Any) -> tuple[tuple[Encoded, ...], bool]:
        """The choices in tokens, and whether the context had to be cut.

        All choices are scored from the same position: the first at which the tokens of any choice differ from those of
        the context.

        Raises:
            HeadwiseError: The answer is out of range, or a choice is empty or longer than the window.
        """
        if not 0 <= example.answer < len(example.choices):
            raise HeadwiseError(
                f"example {example.id}: the answer is {example.answer}, but there are {len(example.choices)} choices, "
                "numbered from 0"
            )
        context, separator = example.context, self.separator if example.context else ""
        texts = [context, *(f"{context}{separator}{choice}" for choice in example.choices)]
        before, *wholes = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
        shared = min(_shared_prefix(before, whole) for whole in wholes)
        start, encoded, cut = start_token(tokenizer), [], False
        for whole in wholes:
            ids, gold = [start, *whole[:-1]], whole[shared:]
            if not 1 <= len(gold) <= self.window:
                raise HeadwiseError(
                    f"example {example.id}: a choice has {len(gold)} tokens, but the window allows 1 to {self.window}"
                )
            cut |= len(ids) > self.window
            ids = ids[-self.window :]
            encoded.append(Encoded(tuple(ids), tuple(range(len(ids) - len(gold), len(ids))), tuple(gold)))
        return tuple(encoded), cut

    def encode(self, examples: Sequence[Example], tokenizer: Any) -> tuple[tuple[Encoded, ...], int]:
        """Raise an error: a choice is several sequences, so it can be evaluated, but not scored or tuned on.

        Raises:
            HeadwiseError: Always.
        """
        del examples, tokenizer
        raise HeadwiseError("the task 'choice' can only be evaluated: use the task 'lm' to score heads or to tune")

    def make_batch(self, model: Any, encoded: Sequence[Encoded], index: Sequence[int], pad_id: int) -> Batch:
        """The encoded sequences of an index side by side."""
        del model
        return make_batch(encoded, index, pad_id)

    def select(self, logits: Tensor, batch: Batch) -> Tensor:
        """The model's output where each token is predicted, (tokens, vocabulary)."""
        return logits[batch.rows.to(logits.device), batch.positions.to(logits.device)]


def choices_of(examples: Sequence[Example]) -> list[ChoiceExample]:
    """The examples as multiple-choice examples.

    Raises:
        HeadwiseError: An example is not one.
    """
    found = [example for example in examples if isinstance(example, ChoiceExample)]
    if len(found) < len(examples):
        raise HeadwiseError("multiple choice needs a context, choices and an answer (ChoiceExample)")
    return found


def score_choices(
    model: Any, task: MultipleChoice, examples: Sequence[ChoiceExample], tokenizer: Any, gating: Gating | None = None
) -> ChoiceScores:
    """The score of each choice of each example."""
    _check_window(model, task.window, stride=1)
    encoded, cuts = zip(*(task.encode_choices(example, tokenizer) for example in examples), strict=True)
    sequences = [(owner, choice) for owner, choices in enumerate(encoded) for choice in choices]
    sums = _sum_sequences(model, sequences, tokenizer, gating)  # (choices of all examples, 3)
    lengths = {
        "none": np.ones(len(sums)),
        "tokens": sums[:, 2],
        "bytes": np.array([len(choice.encode()) for example in examples for choice in example.choices]),
    }[task.normalise]
    ends = np.cumsum([len(example.choices) for example in examples])[:-1]
    scores = np.split(sums[:, 0] / lengths, ends)
    return ChoiceScores(tuple(scores), tuple(example.answer for example in examples), sum(cuts))


def evaluate_choices(
    model: Any, task: MultipleChoice, examples: Sequence[ChoiceExample], tokenizer: Any, gating: Gating | None = None
) -> Evaluation:
    """Accuracy of a causal model on multiple choice; statistics are (examples, 2)."""
    found = score_choices(model, task, examples, tokenizer, gating)
    right = np.array(found.predicted) == np.array(found.answers)
    return Evaluation.of(Accuracy(), np.stack([right, np.ones(len(right))], axis=1), found.cut)


def _sum_sequences(
    model: Any, sequences: Sequence[tuple[int, Encoded]], tokenizer: Any, gating: Gating | None
) -> Array:
    """`sum_gold` of a causal model, for sequences given with the number of their example."""
    owners, encoded = [owner for owner, _ in sequences], [each for _, each in sequences]
    by_owner = (lambda index: gating([owners[i] for i in index])) if gating is not None else None
    longest = max(len(each.ids) for each in encoded)
    # Padding on the right is masked and does not affect a causal model, so the padding token does not matter.
    return sum_gold(model, LanguageTask(window=longest), encoded, pad_id_of(tokenizer), by_owner)


def start_token(tokenizer: Any) -> int:
    """The token before the first token of a text.

    Raises:
        HeadwiseError: The tokenizer has none.
    """
    for name in ("bos_token_id", "cls_token_id", "eos_token_id"):
        if (found := getattr(tokenizer, name)) is not None:
            return int(found)
    raise HeadwiseError("the tokenizer has no start token: set its bos_token")


def _check_window(model: Any, window: int, stride: int) -> None:
    most = usable_positions(model)
    if window < 1 or (most is not None and window > most):
        raise HeadwiseError(f"a window of {window} tokens does not fit the model: use 1 to {most or 'any number'}")
    if not 1 <= stride <= window:
        raise HeadwiseError(f"a stride of {stride} does not fit a window of {window}: use 1 to {window}")


def _shared_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(left), len(right)))
