"""Classification tasks: how examples are encoded, and how the model's answers are read and measured."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from torch import Tensor

from headwise.data.examples import UPOS, Example, PairExample, TextExample, WordExample
from headwise.data.task_names import TASKS, TEXT_TASKS, WORD_TASKS
from headwise.errors import HeadwiseError
from headwise.tasks.encoding import Batch, Encoded, inputs_of, make_batch, token_inputs
from headwise.tasks.metrics import Accuracy, EntityF1, Metric

LabelKind = Literal["sequence", "words"]
Piece = Literal["text", "first"]

NLI = ("entailment", "neutral", "contradiction")
ENTITIES = ("O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC", "B-MISC", "I-MISC")


@dataclass(frozen=True)
class Task:
    """Classification of sequences or of words.

    Attributes:
        name: `intents`, `nli`, `pos`, `ner`, `slots` or any other name.
        kind: Whether labels belong to whole sequences or to words.
        labels: The labels, in the order of the classifier's outputs.
        metric: The metric of results.
        piece: Which piece of a word carries its label. `text` is the first piece with text. `first` is the usual
            rule, which labels Chinese words of an XLM-R vocabulary on an empty `▁`.
        max_length: Maximum number of tokens; longer sequences are cut.
    """

    name: str
    kind: LabelKind
    labels: tuple[str, ...]
    metric: Metric
    piece: Piece = "text"
    max_length: int = 512

    def encode(self, examples: Sequence[Example], tokenizer: Any) -> tuple[tuple[Encoded, ...], int]:
        """Turn examples into tokens.

        Returns:
            The encoded examples, and the number of examples that were cut.

        Raises:
            HeadwiseError: An example has no label, or one that the task does not have.
        """
        if (bare := next((each for each in examples if not is_labelled(each)), None)) is not None:
            raise HeadwiseError(
                f"the example {bare.id} has no label: add labels, or score with a game that needs none "
                "(agreement, top-probability, negative-entropy)"
            )
        number = {label: index for index, label in enumerate(self.labels)}
        encode = self._encode_words if self.kind == "words" else self._encode_sequences
        try:
            return encode(examples, tokenizer, number)
        except KeyError as error:
            known = ", ".join(self.labels)
            raise HeadwiseError(
                f"the label {error} is not one of the labels of {self.name}: {known}; tune the model on these data "
                f"first (headwise tune … --task {self.name}), or correct the label"
            ) from None

    def _encode_sequences(
        self, examples: Sequence[Example], tokenizer: Any, number: dict[str, int]
    ) -> tuple[tuple[Encoded, ...], int]:
        first = [
            example.first if isinstance(example, PairExample) else cast(TextExample, example).text
            for example in examples
        ]
        second = [example.second for example in examples if isinstance(example, PairExample)] or None
        tokens = tokenizer(first, second, add_special_tokens=True)
        cut = sum(len(ids) > self.max_length for ids in tokens["input_ids"])
        if cut:
            tokens = tokenizer(first, second, truncation=True, max_length=self.max_length)
        labels = [cast(TextExample | PairExample, example).label for example in examples]
        encoded = (
            Encoded(tuple(ids), (), (number[label],), extra=token_inputs(tokens, index, tokenizer))
            for index, (ids, label) in enumerate(zip(tokens["input_ids"], labels, strict=True))
        )
        return tuple(encoded), cut

    def _encode_words(
        self, examples: Sequence[Example], tokenizer: Any, number: dict[str, int]
    ) -> tuple[tuple[Encoded, ...], int]:
        sentences = cast(Sequence[WordExample], examples)
        batch = tokenizer(
            [list(sentence.words) for sentence in sentences],
            is_split_into_words=True,
            truncation=True,
            max_length=self.max_length,
            return_overflowing_tokens=False,
        )
        encoded, cut = [], 0
        for index, sentence in enumerate(sentences):
            pieces = batch.encodings[index]
            cut += bool(pieces.overflowing)
            positions = self._label_positions(pieces.tokens, pieces.word_ids, len(sentence.words))
            gold = tuple(number[label] for label in sentence.labels)
            extra = token_inputs(batch, index, tokenizer)
            encoded.append(Encoded(tuple(pieces.ids), positions, gold, extra=extra))
        return tuple(encoded), cut

    def _label_positions(self, tokens: list[str], words: list[int | None], count: int) -> tuple[int, ...]:
        """For each word, the position of the piece that carries its label; -1 if it has no piece."""
        positions = [-1] * count
        textless = [True] * count
        for position, (token, word) in enumerate(zip(tokens, words, strict=True)):
            if word is None:
                continue
            carries_text = bool(token.strip("▁Ġ "))
            if positions[word] < 0 or (self.piece == "text" and textless[word] and carries_text):
                positions[word] = position
                textless[word] = not carries_text
        return tuple(positions)

    def with_labels(self, labels: tuple[str, ...]) -> "Task":
        """The same task with labels in the order of another classifier's outputs."""
        metric = replace(self.metric, labels=labels) if isinstance(self.metric, EntityF1) else self.metric
        return replace(self, labels=labels, metric=metric)

    def without_labels(self, examples: Sequence[Example]) -> tuple[Example, ...]:
        """The examples with the first label of the task in place of their labels, for games that read no labels."""
        return tuple(
            replace(each, labels=(self.labels[0],) * len(each.words))
            if isinstance(each, WordExample)
            else replace(cast(TextExample | PairExample, each), label=self.labels[0])
            for each in examples
        )

    def make_batch(self, model: Any, encoded: Sequence[Encoded], index: Sequence[int], pad_id: int) -> Batch:
        """A batch of some of the encoded examples, with the inputs that the model takes."""
        return make_batch(encoded, index, pad_id, inputs_of(model))

    def select(self, logits: Tensor, batch: Batch) -> Tensor:
        """The logits of the batch's labels, (labels, classes)."""
        rows, positions = batch.rows.to(logits.device), batch.positions.to(logits.device)
        return logits[rows] if self.kind == "sequence" else logits[rows, positions]


def check_piece(name: str, piece: Piece) -> None:
    """Check that a task labels words if `piece` is not the default.

    Raises:
        HeadwiseError: The task does not label words.
    """
    if piece != "text" and name in TASKS and name not in WORD_TASKS:
        raise HeadwiseError(f"--piece is for tasks on words ({', '.join(WORD_TASKS)}), not for {name}: leave it out")


def find_task(name: str, labels: Sequence[str] = (), piece: Piece = "text") -> Task:
    """The task with this name.

    Args:
        name: `pos`, `ner`, `nli`, `slots`, `intents` or `classification`.
        labels: The labels of the data. `pos` and `ner` have the labels of the published sets (`UPOS`, `ENTITIES`)
            if these include all labels of the data, and the labels of the data otherwise.
        piece: Which piece of a word carries its label.

    Example:
        >>> find_task("pos").labels[:2]
        ('ADJ', 'ADP')
    """
    check_piece(name, piece)
    match name:
        case "pos":
            return Task(name, "words", _published_or(UPOS, labels), Accuracy(), piece)
        case "ner":
            names = _published_or(ENTITIES, labels)
            return Task(name, "words", names, EntityF1(names), piece)
        case "nli":
            return Task(name, "sequence", NLI, Accuracy())
        case "slots" if labels:
            return Task(name, "words", tuple(labels), EntityF1(tuple(labels)), piece)
        case "intents" | "classification" if labels:
            return Task(name, "sequence", tuple(labels), Accuracy())
        case "slots" | "intents" | "classification":
            raise HeadwiseError(f"the task {name!r} needs its labels: they depend on the data")
    if name in TEXT_TASKS:
        raise HeadwiseError(f"the task {name!r} has no labels: use headwise.tasks.dispatch.task_of")
    raise HeadwiseError(f"there is no task {name!r}: choose one of {', '.join(TASKS)}")


def _published_or(published: tuple[str, ...], labels: Sequence[str]) -> tuple[str, ...]:
    """The labels of the published sets, or those of the data if they include another label."""
    return published if set(labels) <= set(published) else tuple(labels)


def is_labelled(example: Example) -> bool:
    """Whether an example of a classification task has labels."""
    if isinstance(example, WordExample):
        return len(example.labels) == len(example.words)
    return bool(cast(TextExample | PairExample, example).label)


def labels_of(examples: Sequence[Example]) -> tuple[str, ...]:
    """All labels of the examples, sorted, `O` first; in IOB2 both the `B-` and the `I-` label of each type.

    Raises:
        HeadwiseError: An example of a classification task has no label.
    """
    found: set[str] = set()
    for example in examples:
        if isinstance(example, WordExample | TextExample | PairExample) and not is_labelled(example):
            raise HeadwiseError(f"the example {example.id} has no label: add labels")
        match example:
            case WordExample():
                found.update(example.labels)
            case TextExample() | PairExample():
                found.add(example.label)
    types = {label[2:] for label in found if label[:2] in ("B-", "I-")}
    found.update(f"{place}-{name}" for name in types for place in "BI")
    return tuple(sorted(found, key=lambda label: (label != "O", label)))
