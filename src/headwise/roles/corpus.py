"""The examples of a language in tokens, with the word that each token belongs to and, if there are any, trees."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from torch import Tensor

from headwise.data.aligner import Links
from headwise.data.examples import Example, PairExample, Sentence, TextExample, TranslationExample, WordExample
from headwise.engine import ExampleSet
from headwise.engine.examples import special_ids_of
from headwise.errors import HeadwiseError
from headwise.heads import HeadMap
from headwise.tasks.causal import start_token
from headwise.tasks.encoding import Batch, Encoded, inputs_of, make_batch, pad_id_of, token_inputs, usable_positions
from headwise.tasks.translation import EncodedPair, TranslationTask, make_pair_batch

#: Maximum number of tokens of an example, unless the model can read fewer.
MAX_LENGTH = 512

#: How a model reads text: both directions, left to right, or a source with its translation.
ModelKind = Literal["encoder", "causal", "seq2seq"]
#: An example in tokens, and the word of each token.
Read = tuple[Encoded, tuple[int, ...]]


@dataclass(frozen=True)
class ReadingTask:
    """Batches of encoded examples for a model whose attention is read and whose output is ignored."""

    name: str = "roles"

    def encode(self, examples: Sequence[Example], tokenizer: Any) -> tuple[tuple[Encoded, ...], int]:
        """Encode examples for a model that reads in both directions."""
        found, cut = _encode(examples, tokenizer, "encoder", MAX_LENGTH)
        return tuple(each for each, _ in found), cut

    def make_batch(self, model: Any, encoded: Sequence[Any], index: Sequence[int], pad_id: int) -> Batch:
        """A batch of some of the encoded examples."""
        if isinstance(encoded[index[0]], EncodedPair):
            return make_pair_batch(model, encoded, index, pad_id)
        return make_batch(encoded, index, pad_id, inputs_of(model))

    def select(self, logits: Tensor, batch: Batch) -> Tensor:  # noqa: ARG002 - required by the protocol
        """The output of the model; nothing reads it."""
        return logits


@dataclass(frozen=True, eq=False)
class PairLinks:
    """The links between the words of two sentences. Words of the second are counted on from those of the first.

    Attributes:
        first: Number of words of the first sentence.
        second: Number of words of the second sentence.
        links: The linked words, first and second, (links, 2).
    """

    first: int
    second: int
    links: Links


@dataclass(frozen=True, eq=False)
class Corpus:
    """The examples of one language, as a model reads them.

    Attributes:
        examples: The examples in tokens.
        words: The word of each token of an example, -1 for special tokens; empty for examples without words.
        sentences: The sentence with its tree, for each example that has one.
        separators: The ids of separators: the tokens that end a sentence or separate two of them.
        ends: The ids of the tokens that end a sentence.
        heads: The heads whose attention is measured.
        pairs: For sentences that are read together with their translations, the links between words; otherwise empty.
        rarest: The two rarest words of each example by general frequencies, the rarest first, -1 if there is none; None
            if frequencies are those of the tokens of the examples.
    """

    examples: ExampleSet
    words: tuple[tuple[int, ...], ...]
    sentences: tuple[Sentence | None, ...]
    separators: tuple[int, ...]
    ends: tuple[int, ...]
    heads: HeadMap
    pairs: tuple["PairLinks", ...] = ()
    rarest: tuple[tuple[int, int], ...] | None = None

    @property
    def translates(self) -> bool:
        """Whether the examples are sentences with their translations."""
        return any(site.stack == "cross" for site in self.heads.sites)


def read_corpus(model: Any, heads: HeadMap, tokenizer: Any, examples: Sequence[Example]) -> Corpus:
    """Encode the examples of a language.

    Words of treebanks and of tagged sentences are split into pieces one by one, as for the task `pos`. A causal model
    reads the start token and the text. A sequence-to-sequence model reads a sentence and its translation; of single
    sentences, only its encoder is measured.

    Args:
        model: The model.
        heads: Its head map.
        tokenizer: Its tokenizer.
        examples: Sentences with trees, tagged sentences, texts, pairs of texts, or translations.

    Raises:
        HeadwiseError: The model cannot read such examples.
    """
    kind = model_kind(heads)
    translations = [isinstance(example, TranslationExample) for example in examples]
    if any(translations) and (kind != "seq2seq" or not all(translations)):
        raise HeadwiseError("translations need a sequence-to-sequence model, and cannot be mixed with other examples")
    found, cut = _encode(examples, tokenizer, kind, most_tokens(model))
    if kind == "seq2seq" and not any(translations):
        heads = encoder_heads(heads)
    trees = tuple(example if isinstance(example, Sentence) else None for example in examples)
    return make_corpus(tokenizer, found, cut, heads, trees)


def make_corpus(
    tokenizer: Any, found: Sequence[Read], cut: int, heads: HeadMap, trees: tuple[Sentence | None, ...]
) -> Corpus:
    """The corpus of examples in tokens.

    Args:
        tokenizer: The tokenizer, which knows the special tokens.
        found: The examples in tokens with the words of the tokens.
        cut: Number of examples that were cut.
        heads: The heads whose attention is measured.
        trees: The tree of each example, or None.
    """
    end, separator = (getattr(tokenizer, f"{name}_token_id", None) for name in ("eos", "sep"))
    ends = tuple(each for each in (end if end is not None else separator,) if each is not None)
    return Corpus(
        examples=ExampleSet(
            ReadingTask(), tuple(each for each, _ in found), pad_id_of(tokenizer), cut, special_ids_of(tokenizer)
        ),
        words=tuple(words for _, words in found),
        sentences=trees,
        separators=tuple(sorted({each for each in (end, separator) if each is not None})),
        ends=ends,
        heads=heads,
    )


def most_tokens(model: Any) -> int:
    """Maximum number of tokens of an example."""
    return min(MAX_LENGTH, usable_positions(model) or MAX_LENGTH)


def encoder_heads(heads: HeadMap) -> HeadMap:
    """The heads of the encoder."""
    return replace(heads, sites=tuple(site for site in heads.sites if site.stack == "encoder"))


def model_kind(heads: HeadMap) -> ModelKind:
    """How a model reads text."""
    stacks = {site.stack for site in heads.sites}
    return "seq2seq" if "cross" in stacks else "causal" if "decoder" in stacks else "encoder"


def _encode(examples: Sequence[Example], tokenizer: Any, kind: ModelKind, longest: int) -> tuple[list[Read], int]:
    """The examples in tokens with the words of the tokens, and the number of examples that were cut."""
    if all(isinstance(example, TranslationExample) for example in examples):
        pairs, cut = TranslationTask(max_length=longest).encode(examples, tokenizer)
        return [(pair, ()) for pair in pairs], cut
    if all(isinstance(example, Sentence | WordExample) for example in examples):
        found, cut = _encode_words(examples, tokenizer, kind, longest)
    elif all(isinstance(example, TextExample | PairExample) for example in examples):
        found, cut = _encode_texts(examples, tokenizer, kind, longest)
    else:
        raise HeadwiseError("roles are measured on sentences, texts, pairs of texts or translations, all of one kind")
    return encoder_only(found) if kind == "seq2seq" else found, cut


def encoder_only(found: Sequence[Read]) -> list[Read]:
    """The examples for the encoder of a sequence-to-sequence model; the decoder runs on its start token only."""
    return [(EncodedPair(each.ids, (), (0,), (0,)), words) for each, words in found]


def _encode_texts(examples: Sequence[Any], tokenizer: Any, kind: ModelKind, longest: int) -> tuple[list[Read], int]:
    first = [example.first if isinstance(example, PairExample) else example.text for example in examples]
    second = [example.second for example in examples if isinstance(example, PairExample)] or None
    if kind == "causal":
        if second is not None:
            raise HeadwiseError("a causal model reads single texts: choose data without pairs of texts")
        start = start_token(tokenizer)
        plain = tokenizer(first, add_special_tokens=False, verbose=False)["input_ids"]
        ids = [(start, *each) for each in plain]
        return [(Encoded(each[:longest], (), (0,)), ()) for each in ids], sum(len(each) > longest for each in ids)
    tokens = tokenizer(first, second, verbose=False)
    cut = sum(len(each) > longest for each in tokens["input_ids"])
    if cut:
        tokens = tokenizer(first, second, truncation=True, max_length=longest)
    return [
        (Encoded(tuple(ids), (), (0,), extra=token_inputs(tokens, index, tokenizer)), ())
        for index, ids in enumerate(tokens["input_ids"])
    ], cut


def _encode_words(examples: Sequence[Any], tokenizer: Any, kind: ModelKind, longest: int) -> tuple[list[Read], int]:
    before, after = ((start_token(tokenizer),), ()) if kind == "causal" else _frame(tokenizer)
    room = longest - len(before) - len(after)
    found: list[Read] = []
    cut = 0
    for pieces in word_pieces(examples, tokenizer):
        cut += len(pieces) > room
        ids, words = (tuple(each[part] for each in pieces[:room]) for part in (0, 1))
        outside = (-1,) * len(before), (-1,) * len(after)
        found.append((Encoded((*before, *ids, *after), (), (0,)), (*outside[0], *words, *outside[1])))
    return found, cut


def _frame(tokenizer: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The special tokens before and after a text."""
    plain, framed = (tuple(tokenizer("a", add_special_tokens=special)["input_ids"]) for special in (False, True))
    start = next(i for i in range(len(framed)) if framed[i : i + len(plain)] == plain)
    return framed[:start], framed[start + len(plain) :]


def word_pieces(examples: Sequence[Any], tokenizer: Any) -> Iterator[list[tuple[int, int]]]:
    """The pieces of each sentence, as token ids and numbers of words.

    Args:
        examples: Examples with `words`.
        tokenizer: The tokenizer.
    """
    if not getattr(tokenizer, "is_fast", False):
        for example in examples:
            split = [tokenizer(word, add_special_tokens=False)["input_ids"] for word in example.words]
            yield [(piece, number) for number, pieces in enumerate(split) for piece in pieces]
        return
    tokenizer("a")  # resets the truncation and padding of earlier calls
    backend = tokenizer.backend_tokenizer
    spaced = "Ġ" in "".join(backend.encode("a b", add_special_tokens=False).tokens)
    words = [_with_spaces(example) if spaced else list(example.words) for example in examples]
    for each in backend.encode_batch(words, is_pretokenized=True, add_special_tokens=False):
        yield list(zip(each.ids, each.word_ids, strict=True))


def _with_spaces(example: Sentence | WordExample) -> list[str]:
    """The words, with a space before each word that the text has a space before.

    Byte-level tokenizers such as those of GPT-2 and Qwen encode the space before a word as a part of it.

    Example:
        >>> _with_spaces(Sentence("1", "It's new.", ("It", "'s", "new", "."), (), (), (), ()))
        ['It', "'s", ' new', '.']
    """
    text, place = getattr(example, "text", " ".join(example.words)), 0
    found: list[str] = []
    for word in example.words:
        at = text.find(word, place)
        written = at >= 0 and not text[place:at].strip()  # parts of multiword tokens are not in the text
        spaced = bool(found) and (at > place if written else True)
        found.append(f" {word}" if spaced else word)
        place = at + len(word) if written else place
    return found
