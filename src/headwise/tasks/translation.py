"""Translation: likelihood of references, generated translations, BLEU and chrF."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headwise.data.examples import Example, TranslationExample
from headwise.errors import HeadwiseError
from headwise.tasks.encoding import Batch, Encoded, TextSize, make_batch, pack_by_length, pad_id_of
from headwise.tasks.evaluation import Evaluation
from headwise.tasks.language_codes import has_codes, speaking
from headwise.tasks.likelihood import Gating, sum_gold
from headwise.tasks.metrics import Array
from headwise.tasks.text_metrics import Bleu, ChrF, TextMetric

#: Input and generated tokens of a batch over all beams. Large, since tokens are generated one by one.
WRITING_BUDGET = 8192
#: Limits of generated tokens are multiples of this, so that there are few groups of sentences with different limits.
LIMIT_STEP = 32


@dataclass(frozen=True)
class EncodedPair(Encoded):
    """A source sentence in `ids`, and its translation; `positions` are positions in the decoder.

    Attributes:
        target: Token ids of the translation, special tokens included.
        language: Id of the token of the target language, for models of many languages; None for others.
    """

    target: tuple[int, ...]
    language: int | None = field(default=None, kw_only=True)

    @property
    def length(self) -> int:
        """Number of tokens of its longer side."""
        return max(len(self.ids), len(self.target))


@dataclass(frozen=True)
class PairBatch(Batch):
    """A batch of pairs.

    Attributes:
        decoder_input_ids: The model's start token, then the translations, shifted by one, (rows, target tokens).
    """

    decoder_input_ids: Tensor

    def inputs(self, device: torch.device) -> dict[str, Tensor]:
        """The keyword arguments of the model's `forward`."""
        return {**super().inputs(device), "decoder_input_ids": self.decoder_input_ids.to(device)}


@dataclass(frozen=True)
class TranslationTask:
    """Translation with a sequence-to-sequence model.

    Attributes:
        name: Name of the task.
        metrics: The metrics of translations.
        beams: Number of beams; 1 is greedy search.
        max_length: Maximum number of tokens of a source, a reference or a translation. Longer sources and references
            are cut.
        growth: Maximum number of tokens of a translation per token of its source.
        first_token: The first token of every translation. By default it is the token of the target language for models
            of many languages (`deu_Latn`, `__de__`), and there is none for others. It is given to the model, so its
            likelihood does not count.

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
            The encoded pairs, and the number of pairs whose source or reference was cut.

        Raises:
            HeadwiseError: An example is not a pair of a sentence and its translation, or the model translates between
                many languages and does not have those of the example.
        """
        pairs = [example for example in examples if isinstance(example, TranslationExample)]
        if len(pairs) < len(examples):
            raise HeadwiseError("translation needs pairs of a sentence and its translation (TranslationExample)")
        if self.first_token is not None or not has_codes(tokenizer):
            return self._encode(pairs, tokenizer, self.first_token_id(tokenizer))
        encoded: dict[int, EncodedPair] = {}
        cut = 0
        for languages in dict.fromkeys(pair.pair for pair in pairs):
            places = [place for place, pair in enumerate(pairs) if pair.pair == languages]
            with speaking(tokenizer, languages) as first:
                found, long = self._encode([pairs[place] for place in places], tokenizer, first)
            encoded |= {place: replace(each, language=first) for place, each in zip(places, found, strict=True)}
            cut += long
        return tuple(encoded[place] for place in range(len(pairs))), cut

    def _encode(
        self, pairs: Sequence[TranslationExample], tokenizer: Any, first: int | None
    ) -> tuple[tuple[EncodedPair, ...], int]:
        """Turn pairs of the same languages into tokens."""
        sources, long_sources = self._tokens(tokenizer, text=[pair.source for pair in pairs])
        targets, long_targets = self._tokens(tokenizer, text_target=[pair.target for pair in pairs])
        read = [
            tokenizer.decode(target, skip_special_tokens=True) if place in long_targets else pair.target
            for place, (pair, target) in enumerate(zip(pairs, targets, strict=True))
        ]
        return tuple(
            EncodedPair(source, tuple(range(given, len(target))), target[given:], target, size=TextSize.of(text))
            for source, target, text in zip(sources, targets, read, strict=True)
            for given in [int(target[:1] == (first,))]
        ), len(long_sources | long_targets)

    def _tokens(self, tokenizer: Any, **texts: list[str]) -> tuple[list[tuple[int, ...]], set[int]]:
        """The tokens of texts, cut to the maximum length, and the indices of the texts that were cut."""
        longest = min(self.max_length, tokenizer.model_max_length)
        tokens = tokenizer(**texts, verbose=False)["input_ids"]
        cut = {index for index, ids in enumerate(tokens) if len(ids) > longest}
        if cut:
            tokens = tokenizer(**texts, truncation=True, max_length=longest)["input_ids"]
        return [tuple(ids) for ids in tokens], cut

    def first_token_id(self, tokenizer: Any) -> int | None:
        """The id of the first token of every translation.

        Raises:
            HeadwiseError: The tokenizer does not have the token.
        """
        if self.first_token is None:
            return None
        number = tokenizer.convert_tokens_to_ids(self.first_token)
        if number is None or number == tokenizer.unk_token_id:
            raise HeadwiseError(f"first_token: the tokenizer has no token {self.first_token!r}")
        return int(number)

    def make_batch(self, model: Any, encoded: Sequence[EncodedPair], index: Sequence[int], pad_id: int) -> PairBatch:
        """A batch of some of the pairs, with the inputs of the model's decoder."""
        return make_pair_batch(model, encoded, index, pad_id)

    def select(self, logits: Tensor, batch: Batch) -> Tensor:
        """The decoder's logits that predict each token of a translation, (tokens, vocabulary)."""
        return logits[batch.rows.to(logits.device), batch.positions.to(logits.device)]

    def limit(self, source_tokens: int) -> int:
        """Maximum number of tokens of a translation."""
        steps = -(-int(self.growth * source_tokens + 1) // LIMIT_STEP)
        return min(self.max_length, steps * LIMIT_STEP)


@dataclass(frozen=True)
class GoldScores:
    """Probabilities of the reference translations with teacher forcing.

    Attributes:
        log_likelihood: Summed log-probability of the tokens of each reference, (examples,).
        probability: Mean probability of a token (the soft value), (examples,).
        tokens: Number of tokens of each reference, (examples,).
    """

    log_likelihood: Array
    probability: Array
    tokens: Array


@dataclass(frozen=True)
class TranslationEvaluation:
    """The result of evaluating translations.

    Attributes:
        results: The result of each metric, by its name, with statistics per example.
        signatures: Sacrebleu's signature of each metric.
        translations: The generated translations, in the order of the examples.
        cut: Number of examples whose source or reference was too long. The metrics use the full references.
    """

    results: dict[str, Evaluation]
    signatures: dict[str, str]
    translations: tuple[str, ...]
    cut: int


def make_pair_batch(model: Any, encoded: Sequence[EncodedPair], index: Sequence[int], pad_id: int) -> PairBatch:
    """A batch of some of the pairs, with the inputs of the model's decoder.

    The decoder starts with the model's start token or, if it has none (mBART), with the last token of the translation.
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
        gating: Context manager for the forward pass of each batch.
    """
    log, probability, tokens, _ = sum_gold(model, TranslationTask(), encoded, pad_id, gating).T
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
    """The model's translation of each source, in order, independent of the batches.

    Args:
        model: A sequence-to-sequence model.
        task: The task.
        encoded: The pairs.
        tokenizer: The model's tokenizer.
        gating: Context manager for the generation of each batch.
        progress: Called after each batch with the number of its examples.
    """
    device = next(model.parameters()).device
    model.eval()
    texts = [""] * len(encoded)
    for index, limit in _writing_batches(task, encoded):
        batch = make_batch(encoded, index, pad_id_of(tokenizer))
        with gating(index) if gating is not None else nullcontext():
            written = model.generate(
                input_ids=batch.input_ids.to(device),
                attention_mask=batch.attention_mask.to(device),
                **_way_of_writing(task, tokenizer, limit, encoded[index[0]]),
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
        model: A sequence-to-sequence model, shrunk or not, gated or not.
        task: The task.
        examples: The pairs.
        tokenizer: The model's tokenizer.
        gating: Context manager for the generation of each batch; for one row of gates per pair,
            `lambda rows: gated(model, gates[rows])`.
        progress: Called after each batch with the number of its examples.
    """
    signatures = {each.name: each.signature for each in task.metrics}  # first, since sacrebleu may not be installed
    encoded, cut = task.encode(examples, tokenizer)
    translations = translate(model, task, encoded, tokenizer, gating, progress)
    references = [example.target for example in examples if isinstance(example, TranslationExample)]
    results = {}
    for metric in task.metrics:
        pairs = zip(translations, references, strict=True)
        statistics = np.stack([metric.statistics(written, reference) for written, reference in pairs])
        results[metric.name] = Evaluation.of(metric, statistics, cut)
    return TranslationEvaluation(results, signatures, translations, cut)


def _writing_batches(task: TranslationTask, encoded: Sequence[EncodedPair]) -> Iterator[tuple[list[int], int]]:
    """Batches of sources of similar length with the same target language and limit.

    Therefore the limit does not depend on the batch.
    """
    together: dict[tuple[int, int], list[int]] = defaultdict(list)
    for i, pair in enumerate(encoded):
        together[task.limit(len(pair.ids)), pair.language or 0].append(i)
    for (limit, _), members in sorted(together.items(), reverse=True):
        sizes = [(len(encoded[i].ids) + limit) * task.beams for i in members]
        for group in pack_by_length(sizes, WRITING_BUDGET):
            yield sorted(members[i] for i in group), limit


def _way_of_writing(task: TranslationTask, tokenizer: Any, limit: int, pair: EncodedPair) -> dict[str, Any]:
    """Arguments of `generate` that override the model's generation config: no sampling, the beams and the limit.

    The token of the target language is the first one after the start token or, in the first mBART, the start token.
    """
    settings = {"num_beams": task.beams, "do_sample": False, "max_length": limit + 1, "max_new_tokens": None}
    if pair.language is not None and pair.target[:1] != (pair.language,):
        return {**settings, "decoder_start_token_id": pair.language}
    first = task.first_token_id(tokenizer) if pair.language is None else pair.language
    return settings if first is None else {**settings, "forced_bos_token_id": first}
