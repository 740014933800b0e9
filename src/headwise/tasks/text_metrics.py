"""BLEU and chrF as sums: each example gives its n-gram counts, and any set of them is measured by adding up."""

from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np

from headwise.errors import HeadwiseError
from headwise.support.extras import require
from headwise.tasks.metrics import Array

#: Those of sacrebleu's tokenisations that need no download; `ja-mecab` and `ko-mecab` need sacrebleu[ja] and [ko].
TOKENISATIONS = ("13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "none")


#: As in sacrebleu: the longest word n-grams of BLEU, the longest character n-grams of chrF, its weight of recall.
_BLEU_ORDER, _CHRF_ORDER, _CHRF_BETA = 4, 6, 2
#: How sacrebleu splits languages that 13a cannot split: they have no spaces, or few.
LANGUAGE_TOKENISATIONS = {
    "zh": "zh",
    "ja": "ja-mecab",
    "ko": "ko-mecab",
    **dict.fromkeys(("th", "lo", "km", "my", "bo"), "char"),
}


class TextMetric(Protocol):
    """A metric of whole corpora of texts out of per-example statistics."""

    @property
    def name(self) -> str:
        """What it is called, such as `bleu`."""

    @property
    def signature(self) -> str:
        """How it was computed, as sacrebleu says it: to be printed with every figure."""

    def statistics(self, predicted: str, gold: str) -> Array:
        """What one example adds, (statistics,)."""

    def value(self, totals: Array) -> Array:
        """The metric, in percent, of summed statistics (..., statistics)."""


@dataclass(frozen=True)
class Bleu:
    """Corpus BLEU with one reference, sacrebleu's default smoothing and mixed case.

    Attributes:
        tokenisation: How sacrebleu splits text into words: `13a` for most languages, `zh` for Chinese, `ja-mecab` for
            Japanese, `char` where words are not to be had.
        name: What it is called.

    Raises:
        HeadwiseError: There is no such tokenisation, or it is not installed.

    Example:
        >>> metric = Bleu()
        >>> one = metric.statistics("the cat sat on the mat", "the cat sat on a mat")
        >>> two = metric.statistics("hello there", "hello there")
        >>> f"{metric.value(one + two):.2f}"
        '55.84'
    """

    tokenisation: str = "13a"
    name: str = "bleu"

    def __post_init__(self) -> None:
        if self.tokenisation not in TOKENISATIONS:
            known = ", ".join(TOKENISATIONS)
            raise HeadwiseError(f"BLEU has no tokenisation {self.tokenisation!r}: choose one of {known}")
        language, _, tool = self.tokenisation.partition("-")
        if not tool:
            return  # sacrebleu itself does this one; it is imported when something is measured
        try:
            _bleu(self.tokenisation)
        except RuntimeError:
            raise HeadwiseError(
                f"the tokenisation {self.tokenisation!r} is not installed: pip install 'sacrebleu[{language}]'"
            ) from None

    @property
    def signature(self) -> str:
        """How it was computed, as sacrebleu says it."""
        return _signature(_bleu(self.tokenisation))

    def statistics(self, predicted: str, gold: str) -> Array:
        """Words predicted and gold, then right and predicted n-grams of each order, (10,)."""
        score = _bleu(self.tokenisation).corpus_score([predicted], [[gold]])
        return np.array([score.sys_len, score.ref_len, *score.counts, *score.totals], dtype=np.float64)

    def value(self, totals: Array) -> Array:
        """Brevity penalty × geometric mean of the precisions; 0 without a right word or without long n-grams."""
        predicted, gold = totals[..., 0], totals[..., 1]
        right, all_ = totals[..., 2 : 2 + _BLEU_ORDER], totals[..., 2 + _BLEU_ORDER :]  # (..., orders)
        # NIST smoothing: the k-th order that has no right n-gram counts as if it had 1/2^k of one.
        halvings = np.cumsum(right == 0, axis=-1)
        smoothed = np.where(right > 0, right, 0.5**halvings)
        mean_log = np.log(smoothed / np.maximum(all_, 1)).mean(-1)
        shortfall = np.minimum(0, 1 - gold / np.maximum(predicted, 1))
        there = right.any(-1) & (all_ > 0).all(-1)
        found: Array = np.where(there, 100 * np.exp(shortfall + mean_log), 0.0)
        return found


@dataclass(frozen=True)
class ChrF:
    """Corpus chrF2: F-score, recall counting twice, of character n-grams up to six, spaces left out.

    Example:
        >>> metric = ChrF()
        >>> f"{metric.value(metric.statistics('the cat', 'the cats')):.2f}"
        '77.57'
    """

    name: str = "chrf"

    @property
    def signature(self) -> str:
        """How it was computed, as sacrebleu says it."""
        return _signature(_chrf())

    def statistics(self, predicted: str, gold: str) -> Array:
        """Predicted, gold and right n-grams of each order, (18,)."""
        extract = _sacrebleu("helpers", "chrF").extract_all_char_ngrams
        counts: list[int] = []
        orders = (extract(text, _CHRF_ORDER) for text in (predicted, gold))
        for found, true in zip(*orders, strict=True):
            right = sum(min(count, true[ngram]) for ngram, count in found.items() if ngram in true)
            # Where the reference is too short for the order, sacrebleu does not count what was predicted.
            counts += [sum(found.values()) if true else 0, sum(true.values()), right]
        return np.array(counts, dtype=np.float64)

    def value(self, totals: Array) -> Array:
        """The F-score of precision and recall, each a mean over the orders that both sides have."""
        predicted, gold, right = np.moveaxis(totals.reshape(*totals.shape[:-1], -1, 3), -1, 0)  # (..., orders) each
        there = (predicted > 0) & (gold > 0)
        orders = np.maximum(there.sum(-1), 1)
        precision = np.where(there, right / np.maximum(predicted, 1), 0).sum(-1) / orders
        recall = np.where(there, right / np.maximum(gold, 1), 0).sum(-1) / orders
        weight = _CHRF_BETA**2
        under = weight * precision + recall
        found: Array = 100 * (1 + weight) * precision * recall / np.where(under > 0, under, 1)
        return found


def metrics_for(language: str) -> tuple[TextMetric, ...]:
    """BLEU, with the usual tokenisation of the language that is written, and chrF.

    Example:
        >>> metrics_for("zh")
        (Bleu(tokenisation='zh', name='bleu'), ChrF(name='chrf'))
    """
    return Bleu(LANGUAGE_TOKENISATIONS.get(language, "13a")), ChrF()


@cache
def _bleu(tokenisation: str) -> Any:
    return _sacrebleu("bleu", "BLEU").BLEU(tokenize=tokenisation)


@cache
def _chrf() -> Any:
    return _sacrebleu("chrf", "chrF").CHRF()


def _sacrebleu(module: str, purpose: str) -> Any:
    return require(f"sacrebleu.metrics.{module}", "tasks", purpose)


def _signature(metric: Any) -> str:
    metric.corpus_score(["a"], [["a"]])  # sacrebleu signs only what has seen its references
    return str(metric.get_signature())
