"""A task: how examples become tokens, what the model's answer means, and how it is measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from torch import Tensor

from headwise.data.examples import Example, PairExample, TextExample, WordExample
from headwise.errors import HeadwiseError
from headwise.tasks.encoding import Batch, Encoded, make_batch
from headwise.tasks.metrics import Accuracy, EntityF1, Metric

Kind = Literal["sequence", "words"]
Piece = Literal["text", "first"]

UPOS = (
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT", "SCONJ", "SYM",
    "VERB", "X",
)  # fmt: skip
WORD_TASKS = ("pos", "ner", "slots")
TASKS = ("pos", "ner", "nli", "slots", "intents", "classification", "translation", "lm")
NLI = ("entailment", "neutral", "contradiction")
ENTITIES = ("O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC", "B-MISC", "I-MISC")


@dataclass(frozen=True)
class Task:
    """Classification of sequences or of words.

    Attributes:
        name: `intents`, `nli`, `pos`, `ner`, `slots` or a name of your own.
        kind: Whether labels belong to whole sequences or to words.
        labels: The labels, in the order of the classifier's outputs.
        metric: The metric that results are judged by.
        piece: Which piece of a word carries its label. `text` is the first piece that carries text; `first` is
            the usual rule, with which Chinese words of an XLM-R vocabulary are labelled on an empty `▁`.
        max_length: Longest sequence in tokens; what is longer is cut.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    metric: Metric
    piece: Piece = "text"
    max_length: int = 512

    def encode(self, examples: Sequence[Example], tokenizer: Any) -> tuple[tuple[Encoded, ...], int]:
        """Turn examples into tokens.

        Returns:
            The encoded examples, and how many of them had to be cut.

        Raises:
            HeadwiseError: An example has a label that the task does not know.
        """
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
        tokens = tokenizer(first, second, add_special_tokens=True)["input_ids"]
        cut = sum(len(ids) > self.max_length for ids in tokens)
        if cut:
            tokens = tokenizer(first, second, truncation=True, max_length=self.max_length)["input_ids"]
        labels = [cast(TextExample | PairExample, example).label for example in examples]
        encoded = (Encoded(tuple(ids), (), (number[label],)) for ids, label in zip(tokens, labels, strict=True))
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
            encoded.append(Encoded(tuple(pieces.ids), positions, gold))
        return tuple(encoded), cut

    def _label_positions(self, tokens: list[str], words: list[int | None], count: int) -> tuple[int, ...]:
        """For each word the position of the piece that carries its label, -1 if it has no piece at all."""
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

    def make_batch(self, model: Any, encoded: Sequence[Encoded], index: Sequence[int], pad_id: int) -> Batch:
        """The encoded examples of an index side by side."""
        del model  # classifiers all read the same
        return make_batch(encoded, index, pad_id)

    def select(self, logits: Tensor, batch: Batch) -> Tensor:
        """The rows of the model's output that answer the batch's labels, (labels, classes)."""
        rows, positions = batch.rows.to(logits.device), batch.positions.to(logits.device)
        return logits[rows] if self.kind == "sequence" else logits[rows, positions]


def check_piece(name: str, piece: Piece) -> None:
    """See that a task has words if one of their pieces was chosen.

    Raises:
        HeadwiseError: It has none.
    """
    if piece != "text" and name in TASKS and name not in WORD_TASKS:
        raise HeadwiseError(f"--piece is for tasks on words ({', '.join(WORD_TASKS)}), not for {name}: leave it out")


def find_task(name: str, labels: Sequence[str] = (), piece: Piece = "text") -> Task:
    """The task of a name.

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
            return Task(name, "words", _published_or(ENTITIES, labels), EntityF1(), piece)
        case "nli":
            return Task(name, "sequence", NLI, Accuracy())
        case "slots" if labels:
            return Task(name, "words", tuple(labels), EntityF1(), piece)
        case "intents" | "classification" if labels:
            return Task(name, "sequence", tuple(labels), Accuracy())
        case "slots" | "intents" | "classification":
            raise HeadwiseError(f"the task {name!r} needs its labels: they depend on the data")
        case "translation" | "lm":
            raise HeadwiseError(f"the task {name!r} has no labels: use TranslationTask or LanguageTask")
    raise HeadwiseError(f"there is no task {name!r}: choose one of {', '.join(TASKS)}")


def _published_or(published: tuple[str, ...], labels: Sequence[str]) -> tuple[str, ...]:
    """Return the labels of the published sets, or those of the data if any of these is another label."""
    return published if set(labels) <= set(published) else tuple(labels)


def labels_of(examples: Sequence[Example]) -> tuple[str, ...]:
    """All labels that occur, sorted, `O` first; in IOB2 both the `B-` and the `I-` of each type that occurs."""
    found: set[str] = set()
    for example in examples:
        match example:
            case WordExample():
                found.update(example.labels)
            case TextExample() | PairExample():
                found.add(example.label)
    types = {label[2:] for label in found if label[:2] in ("B-", "I-")}
    found.update(f"{place}-{name}" for name in types for place in "BI")
    return tuple(sorted(found, key=lambda label: (label != "O", label)))
