"""BLEU and chrF as sums: each example has n-gram counts, and the metric of a set of examples uses their sum."""

from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np

from headwise.errors import HeadwiseError
from headwise.support.extras import require
from headwise.tasks.metrics import Array

#: Tokenisations of sacrebleu that need no download; `ja-mecab` and `ko-mecab` need sacrebleu[ja] and [ko].
TOKENISATIONS = ("13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "none")


#: As in sacrebleu: the maximum word n-gram of BLEU, the maximum character n-gram of chrF, its weight of recall.
_BLEU_ORDER, _CHRF_ORDER, _CHRF_BETA = 4, 6, 2
#: Tokenisations for languages with no or few spaces, which 13a cannot split.
LANGUAGE_TOKENISATIONS = {
    "zh": "zh",
    "ja": "ja-mecab",
    "ko": "ko-mecab",
    **dict.fromkeys(("th", "lo", "km", "my", "bo"), "char"),
}


class TextMetric(Protocol):
    """A corpus metric of texts, computed from statistics per example."""

    @property
    def name(self) -> str:
        """Its name, such as `bleu`."""

    @property
    def signature(self) -> str:
        """Sacrebleu's signature of the metric, to be printed with every value."""

    def statistics(self, predicted: str, gold: str) -> Array:
        """The statistics of one example, (statistics,)."""

    def value(self, totals: Array) -> Array:
        """The metric, in percent, of summed statistics (..., statistics)."""


@dataclass(frozen=True)
class Bleu:
    """Corpus BLEU with one reference, sacrebleu's default smoothing and mixed case.

    Attributes:
        tokenisation: How sacrebleu splits text into words: `13a` for most languages, `zh` for Chinese, `ja-mecab` for
            Japanese, `char` for languages without word boundaries.
        name: Name of the metric.

    Raises:
        HeadwiseError: The tokenisation is unknown or not installed.

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
            return  # part of sacrebleu, which is imported when it is first used
        try:
            _bleu(self.tokenisation)
        except RuntimeError:
            raise HeadwiseError(
                f"the tokenisation {self.tokenisation!r} is not installed: pip install 'sacrebleu[{language}]'"
            ) from None

    @property
    def signature(self) -> str:
        """Sacrebleu's signature of the metric."""
        return _signature(_bleu(self.tokenisation))

    def statistics(self, predicted: str, gold: str) -> Array:
        """Number of predicted and gold words, then of right and predicted n-grams of each order, (10,)."""
        score = _bleu(self.tokenisation).corpus_score([predicted], [[gold]])
        return np.array([score.sys_len, score.ref_len, *score.counts, *score.totals], dtype=np.float64)

    def value(self, totals: Array) -> Array:
        """Brevity penalty × geometric mean of the precisions; 0 if no n-gram is right or an order has no n-grams."""
        predicted, gold = totals[..., 0], totals[..., 1]
        right, all_ = totals[..., 2 : 2 + _BLEU_ORDER], totals[..., 2 + _BLEU_ORDER :]  # (..., orders)
        # NIST smoothing: the k-th order without a right n-gram counts as 1/2^k right n-grams.
        halvings = np.cumsum(right == 0, axis=-1)
        smoothed = np.where(right > 0, right, 0.5**halvings)
        mean_log = np.log(smoothed / np.maximum(all_, 1)).mean(-1)
        shortfall = np.minimum(0, 1 - gold / np.maximum(predicted, 1))
        positive = right.any(-1) & (all_ > 0).all(-1)
        found: Array = np.where(positive, 100 * np.exp(shortfall + mean_log), 0.0)
        return found


@dataclass(frozen=True)
class ChrF:
    """Corpus chrF2: F-score of character n-grams up to six without spaces, with twice the weight on recall.

    Example:
        >>> metric = ChrF()
        >>> f"{metric.value(metric.statistics('the cat', 'the cats')):.2f}"
        '77.57'
    """

    name: str = "chrf"

    @property
    def signature(self) -> str:
        """Sacrebleu's signature of the metric."""
        return _signature(_chrf())

    def statistics(self, predicted: str, gold: str) -> Array:
        """Number of predicted, gold and right n-grams of each order, (18,)."""
        extract = _sacrebleu("helpers", "chrF").extract_all_char_ngrams
        counts: list[int] = []
        orders = (extract(text, _CHRF_ORDER) for text in (predicted, gold))
        for found, true in zip(*orders, strict=True):
            right = sum(min(count, true[ngram]) for ngram, count in found.items() if ngram in true)
            # If the reference is too short for the order, sacrebleu does not count the predicted n-grams.
            counts += [sum(found.values()) if true else 0, sum(true.values()), right]
        return np.array(counts, dtype=np.float64)

    def value(self, totals: Array) -> Array:
        """The F-score of precision and recall, each a mean over the orders that both sides have."""
        predicted, gold, right = np.moveaxis(totals.reshape(*totals.shape[:-1], -1, 3), -1, 0)  # (..., orders) each
        present = (predicted > 0) & (gold > 0)
        orders = np.maximum(present.sum(-1), 1)
        precision = np.where(present, right / np.maximum(predicted, 1), 0).sum(-1) / orders
        recall = np.where(present, right / np.maximum(gold, 1), 0).sum(-1) / orders
        weight = _CHRF_BETA**2
        under = weight * precision + recall
        found: Array = 100 * (1 + weight) * precision * recall / np.where(under > 0, under, 1)
        return found


def metrics_for(language: str) -> tuple[TextMetric, ...]:
    """BLEU, with the usual tokenisation of the target language, and chrF.

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
    metric.corpus_score(["a"], [["a"]])  # sacrebleu has no signature before the first score
    return str(metric.get_signature())
