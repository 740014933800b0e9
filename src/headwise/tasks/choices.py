"""Multiple choice and minimal pairs: the continuation with the highest likelihood under a causal model."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor

from headwise.data.examples import ChoiceExample, Example
from headwise.errors import HeadwiseError
from headwise.tasks.causal import check_window
from headwise.tasks.continuation import encode_continuation
from headwise.tasks.encoding import Batch, Encoded
from headwise.tasks.metrics import Accuracy
from headwise.tasks.token_trees import make_token_batch

#: What a choice's log-likelihood is divided by.
Normalise = Literal["none", "tokens", "bytes", "characters"]


@dataclass(frozen=True)
class EncodedChoices(Encoded):
    """The choices of an example in tokens. `ids` are the tokens of all choices, `gold` is the right choice.

    Attributes:
        choices: The choices, each with its context.
        lengths: What the log-likelihood of each choice is divided by.
    """

    choices: tuple[Encoded, ...]
    lengths: tuple[float, ...] = field(kw_only=True)

    def content(self) -> list[Any]:
        """All model inputs and lengths as plain data, for hashing."""
        return [*(each.content() for each in self.choices), self.gold, self.lengths]


@dataclass(frozen=True)
class MultipleChoice:
    """Choose the continuation with the highest likelihood under a causal model.

    To an engine, an example is a label among as many classes as it has choices, and the logit of a class is the
    log-likelihood of the choice. So games such as `accuracy`, `probability` and `margin` mean the same as for
    classification.

    Attributes:
        normalise: Divisor of a choice's log-likelihood: none, or its number of tokens, of bytes in UTF-8, or of
            characters.
        window: Maximum number of tokens that the model reads. A longer context is cut at its beginning.
        name: Name of the task.
    """

    normalise: Normalise = "none"
    window: int = 2048
    name: str = "choice"

    @property
    def metric(self) -> Accuracy:
        """The metric of the task: accuracy."""
        return Accuracy()

    def encode_choices(self, example: ChoiceExample, tokenizer: Any) -> tuple[EncodedChoices, bool]:
        """The choices in tokens, and whether a context had to be cut.

        Raises:
            HeadwiseError: The answer is out of range, or a choice is empty or longer than the window.
        """
        if not 0 <= example.answer < len(example.choices):
            raise HeadwiseError(
                f"example {example.id}: the answer is {example.answer}, but there are {len(example.choices)} choices, "
                "numbered from 0"
            )
        found = [encode_continuation(example.id, *pair, tokenizer, self.window) for pair in example.pairs]
        choices = tuple(each for each, _ in found)
        lengths = tuple(map(self._length, example.choices, choices))
        ids = tuple(token for each in choices for token in each.ids)
        return EncodedChoices(ids, (), (example.answer,), choices, lengths=lengths), any(cut for _, cut in found)

    def _length(self, choice: str, encoded: Encoded) -> float:
        match self.normalise:
            case "none":
                return 1.0
            case "tokens":
                return float(len(encoded.gold))
            case "bytes":
                return float(len(choice.encode()))
        return float(len(choice))

    def encode(self, examples: Sequence[Example], tokenizer: Any) -> tuple[tuple[EncodedChoices, ...], int]:
        """Turn examples into tokens.

        Returns:
            The encoded examples, and the number of examples with a context that was cut.

        Raises:
            HeadwiseError: An example is not a multiple-choice example, or does not fit the window.
        """
        found = [self.encode_choices(example, tokenizer) for example in choices_of(examples)]
        return tuple(each for each, _ in found), sum(cut for _, cut in found)

    def make_batch(self, model: Any, encoded: Sequence[Encoded], index: Sequence[int], pad_id: int) -> Batch:
        """A batch of choices, each of them a sequence, or of trees of choices.

        Raises:
            HeadwiseError: An example is all of its choices, or the window is longer than the model's maximum.
        """
        if any(isinstance(encoded[place], EncodedChoices) for place in index):
            raise HeadwiseError(
                f"an example of the task {self.name!r} is several sequences, which this does not support: use a method "
                "that asks for values or gradients (stars, michel, …), or the task 'continuation' or 'lm'"
            )
        check_window(model, self.window, stride=1)
        return make_token_batch(model, encoded, index, pad_id)

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
