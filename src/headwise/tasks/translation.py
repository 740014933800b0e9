"""Translation: likelihood of the reference, texts written by the model, BLEU and chrF."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headwise.data.examples import Example, TranslationExample
from headwise.errors import HeadwiseError
from headwise.tasks.encoding import Batch, Encoded, make_batch, pack_by_length, pad_id_of
from headwise.tasks.evaluation import Evaluation
from headwise.tasks.likelihood import Gating, sum_gold
from headwise.tasks.metrics import Array
from headwise.tasks.text_metrics import Bleu, ChrF, TextMetric

#: Read and written tokens of one batch, over all beams: writing goes token by token, so many rows at once pay.
WRITING_BUDGET = 8192
#: Limits of written tokens are multiples of this, so that few groups of sentences have different ones.
LIMIT_STEP = 32


@dataclass(frozen=True)
class EncodedPair(Encoded):
    """A source sentence in `ids`, and its translation; `positions` are the decoder's.

    Attributes:
        target: Token ids of the translation, special tokens included.
    """

    target: tuple[int, ...]

    @property
    def length(self) -> int:
        """Tokens of its longer side."""
        return max(len(self.ids), len(self.target))


@dataclass(frozen=True)
class PairBatch(Batch):
    """Some pairs side by side.

    Attributes:
        decoder_input_ids: The translations, one place later, after the model's start token, (rows, target tokens).
    """

    decoder_input_ids: Tensor

    def inputs(self, device: torch.device) -> dict[str, Tensor]:
        """What the model is called with."""
        return {**super().inputs(device), "decoder_input_ids": self.decoder_input_ids.to(device)}


@dataclass(frozen=True)
class TranslationTask:
    """Translation with a sequence-to-sequence model.

    Attributes:
        name: What it is called.
        metrics: What translations are judged by.
        beams: Beams of the search; 1 is greedy.
        max_length: Most tokens of a source, a reference or a translation; sources and references are cut to it.
        growth: Tokens that a translation may have for each token of its source.
        first_token: The token that every translation begins with, for models of many languages (`deu_Latn`, `__de__`).
            It is given to the model, so its likelihood does not count.

    Example:
        >>> TranslationTask(growth=2.0).limit(7), TranslationTask(growth=2.0).limit(40)
        (32, 96)
    """

    name: str = "translation"
    metrics: tuple[TextMetric, ...] = (Bleu(), ChrF())
    beams: int = 1
    max_length: int = 512
    growth: float = 2.0
    first_token: str | None = None

    def encode(self, examples: Sequence[Example], tokenizer: Any) -> tuple[tuple[EncodedPair, ...], int]:
        """Turn pairs into tokens.

        Returns:
            The encoded pairs, and how many of them had their source or their reference cut.

        Raises:
            HeadwiseError: An example is no pair of a sentence and its translation.
        """
        pairs = [example for example in examples if isinstance(example, TranslationExample)]
        if len(pairs) < len(examples):
            raise HeadwiseError("translation needs pairs of a sentence and its translation (TranslationExample)")
        sources, long_sources = self._tokens(tokenizer, text=[pair.source for pair in pairs])
        targets, long_targets = self._tokens(tokenizer, text_target=[pair.target for pair in pairs])
        first = self.first_token_id(tokenizer)
        return tuple(
            EncodedPair(source, tuple(range(given, len(target))), target[given:], target)
            for source, target in zip(sources, targets, strict=True)
            for given in [int(target[:1] == (first,))]
        ), len(long_sources | long_targets)

    def _tokens(self, tokenizer: Any, **texts: list[str]) -> tuple[list[tuple[int, ...]], set[int]]:
        """Tokens of texts, cut to the limit, and which of them were cut."""
        longest = min(self.max_length, tokenizer.model_max_length)
        tokens = tokenizer(**texts, verbose=False)["input_ids"]
        cut = {index for index, ids in enumerate(tokens) if len(ids) > longest}
        if cut:
            tokens = tokenizer(**texts, truncation=True, max_length=longest)["input_ids"]
        return [tuple(ids) for ids in tokens], cut

    def first_token_id(self, tokenizer: Any) -> int | None:
        """The number of the token that every translation begins with.

        Raises:
            HeadwiseError: The tokenizer does not know it.
        """
        if self.first_token is None:
            return None
        number = tokenizer.convert_tokens_to_ids(self.first_token)
        if number is None or number == tokenizer.unk_token_id:
            raise HeadwiseError(f"the tokenizer has no token {self.first_token!r} for translations to begin with")
        return int(number)

    def make_batch(self, model: Any, encoded: Sequence[EncodedPair], index: Sequence[int], pad_id: int) -> PairBatch:
        """The pairs of an index side by side, as the model's decoder reads them."""
        return make_pair_batch(model, encoded, index, pad_id)

    def select(self, logits: Tensor, batch: Batch) -> Tensor:
        """The decoder's output where each token of a translation is predicted, (tokens, vocabulary)."""
        return logits[batch.rows.to(logits.device), batch.positions.to(logits.device)]

    def limit(self, source_tokens: int) -> int:
        """Most tokens that a translation may have."""
        steps = -(-int(self.growth * source_tokens + 1) // LIMIT_STEP)
        return min(self.max_length, steps * LIMIT_STEP)


@dataclass(frozen=True)
class GoldScores:
    """What a model gives the reference translations, told all of each reference before the token in question.

    Attributes:
        log_likelihood: Summed log-probability of the tokens of each, (examples,).
        probability: Mean probability of a token (the soft value), (examples,).
        tokens: Tokens of each, (examples,).
    """

    log_likelihood: Array
    probability: Array
    tokens: Array


@dataclass(frozen=True)
class TranslationEvaluation:
    """How well a model translates.

    Attributes:
        results: The result of each metric, by its name, with statistics per example.
        signatures: How each metric was computed, as sacrebleu says it.
        translations: What the model wrote, in the order of the examples.
        cut: How many examples had their source or their reference cut; references are judged whole.
    """

    results: dict[str, Evaluation]
    signatures: dict[str, str]
    translations: tuple[str, ...]
    cut: int


def make_pair_batch(model: Any, encoded: Sequence[EncodedPair], index: Sequence[int], pad_id: int) -> PairBatch:
    """Put the pairs of an index side by side, as the model's decoder reads them.

    The decoder starts with the model's start token, or, if it has none (mBART), with the last of the translation.
    """
    batch = make_batch(encoded, index, pad_id)
    targets = [encoded[i].target for i in index]
    start = model.config.decoder_start_token_id
    decoder = torch.full((len(index), max(map(len, targets))), pad_id, dtype=torch.long)
    for row, target in enumerate(targets):
        decoder[row, : len(target)] = torch.tensor([target[-1] if start is None else start, *target[:-1]])
    return PairBatch(**vars(batch), decoder_input_ids=decoder)


def score_references(
    model: Any, encoded: Sequence[EncodedPair], pad_id: int, gating: Gating | None = None
) -> GoldScores:
    """The likelihood of each reference translation.

    Args:
        model: A sequence-to-sequence model.
        encoded: The pairs.
        pad_id: The padding token.
        gating: What surrounds the run on each batch.
    """
    log, probability, tokens = sum_gold(model, TranslationTask(), encoded, pad_id, gating).T
    return GoldScores(log, probability / tokens, tokens)


@torch.inference_mode()
def translate(
    model: Any,
    task: TranslationTask,
    encoded: Sequence[EncodedPair],
    tokenizer: Any,
    gating: Gating | None = None,
    progress: Callable[[int], None] | None = None,
) -> tuple[str, ...]:
    """What the model writes for each source, in order; the same whatever else is in its batch.

    Args:
        model: A sequence-to-sequence model.
        task: The task.
        encoded: The pairs.
        tokenizer: The model's tokenizer.
        gating: What surrounds the run on each batch.
        progress: Called with the number of examples done after each batch.
    """
    device = next(model.parameters()).device
    model.eval()
    texts = [""] * len(encoded)
    for index, limit in _writing_batches(task, [len(pair.ids) for pair in encoded]):
        batch = make_batch(encoded, index, pad_id_of(tokenizer))
        with gating(index) if gating is not None else nullcontext():
            written = model.generate(
                input_ids=batch.input_ids.to(device),
                attention_mask=batch.attention_mask.to(device),
                **_way_of_writing(task, tokenizer, limit),
            )
        decoded = tokenizer.batch_decode(written, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        for i, text in zip(index, decoded, strict=True):
            texts[i] = text.strip()
        if progress is not None:
            progress(len(index))
    return tuple(texts)


def evaluate_translation(
    model: Any,
    task: TranslationTask,
    examples: Sequence[Example],
    tokenizer: Any,
    gating: Gating | None = None,
    progress: Callable[[int], None] | None = None,
) -> TranslationEvaluation:
    """Translate examples and measure the translations.

    Args:
        model: A sequence-to-sequence model, whole or shrunk, gated or not.
        task: The task.
        examples: The pairs.
        tokenizer: The model's tokenizer.
        gating: What surrounds the run on each batch; for one row of gates a pair,
            `lambda rows: gated(model, gates[rows])`.
        progress: Called with the number of examples done after each batch.
    """
    signatures = {each.name: each.signature for each in task.metrics}  # first: it needs sacrebleu, which may be missing
    encoded, cut = task.encode(examples, tokenizer)
    translations = translate(model, task, encoded, tokenizer, gating, progress)
    references = [example.target for example in examples if isinstance(example, TranslationExample)]
    results = {}
    for metric in task.metrics:
        pairs = zip(translations, references, strict=True)
        statistics = np.stack([metric.statistics(written, reference) for written, reference in pairs])
        results[metric.name] = Evaluation.of(metric, statistics, cut)
    return TranslationEvaluation(results, signatures, translations, cut)


def _writing_batches(task: TranslationTask, lengths: Sequence[int]) -> Iterator[tuple[list[int], int]]:
    """Batches of sources of like length and the same limit: with limits mixed, a row's would depend on its company."""
    by_limit: dict[int, list[int]] = defaultdict(list)
    for i, length in enumerate(lengths):
        by_limit[task.limit(length)].append(i)
    for limit, members in sorted(by_limit.items(), reverse=True):
        sizes = [(lengths[i] + limit) * task.beams for i in members]
        for group in pack_by_length(sizes, WRITING_BUDGET):
            yield sorted(members[i] for i in group), limit


def _way_of_writing(task: TranslationTask, tokenizer: Any, limit: int) -> dict[str, Any]:
    """What the task wants otherwise than the model's own generation config: no chance, its beams, its limit."""
    way = {"num_beams": task.beams, "do_sample": False, "max_length": limit + 1, "max_new_tokens": None}
    first = task.first_token_id(tokenizer)
    return way if first is None else {**way, "forced_bos_token_id": first}
