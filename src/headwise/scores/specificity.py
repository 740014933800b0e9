"""Heads of one language and heads of many: a stated rule on values and standard errors of several languages."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headwise.errors import FieldError, HeadwiseError
from headwise.scores.head_scores import HeadScores
from headwise.scores.rules import FALSE_SHARE
from headwise.stats import bh, chance_below

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

#: A head is general if it is likely helpful in this number of languages, or in all of them if there are fewer.
GENERAL_LANGUAGES = 4
#: Quantile of the normal distribution for one-sided 95% intervals.
_QUANTILE = 1.645
#: Classes of heads besides those of one language, which are named after it.
GENERAL, SEVERAL, OTHER = "general", "several", "other"


@dataclass(frozen=True, eq=False)
class Specificity:
    """Values of the same heads in several languages, and which heads belong to one language.

    The values of a language are divided by its `scale`, so that languages are comparable. The rule:

    - a head is *likely helpful* in a language if its value is above 0 (Benjamini-Hochberg over the heads of the
      language);
    - it is *above the others* in a language if its value there is above its mean value in the other languages
      (Benjamini-Hochberg over all heads and languages);
    - a head that is likely helpful in at least `general` languages is `general`;
    - of the heads left, one that is likely helpful and above the others in exactly one language is of that language; in
      more than one language, it is of `several`;
    - all heads left are `other`: they are harmful, do nothing, or the budget was too small to tell.

    Attributes:
        languages: At least two languages.
        players: The heads.
        values: Their values, (languages, heads).
        stderr: Standard errors of the values, (languages, heads); NaN if unknown.
        general: Number of languages in which a general head is likely helpful.
        false_share: Expected share of wrong ones among the heads that each procedure finds.

    Raises:
        HeadwiseError: There are fewer than two languages.

    Example:
        >>> values = np.array([[5.0, 4.0, 0.0], [5.0, 0.0, 0.0], [5.1, 0.1, -4.0]])
        >>> found = Specificity(("de", "sw", "tr"), ("decoder.0.0", "decoder.0.1", "decoder.0.2"), values,
        ...                     np.full((3, 3), 0.5), general=3)
        >>> found.classes
        ('general', 'de', 'other')
        >>> found.top("de", 1)
        ('decoder.0.1',)
    """

    languages: tuple[str, ...]
    players: tuple[str, ...]
    values: Array
    stderr: Array
    general: int = GENERAL_LANGUAGES
    false_share: float = FALSE_SHARE

    def __post_init__(self) -> None:
        if len(self.languages) < 2:
            raise FieldError("languages", "heads of one language need at least two languages to compare")

    @classmethod
    def of(
        cls,
        scores: Mapping[str, HeadScores],
        scale: Mapping[str, float] | None = None,
        general: int = GENERAL_LANGUAGES,
        false_share: float = FALSE_SHARE,
    ) -> "Specificity":
        """The values of scores.

        Args:
            scores: Scores of the same heads for each language.
            scale: What the values of each language are divided by, such as its negative log-likelihood; 1 by default.
            general: Number of languages in which a general head is likely helpful.
            false_share: Expected share of wrong ones among the heads that each procedure finds.

        Raises:
            HeadwiseError: The heads differ between languages, or there are fewer than two languages.
        """
        if len({each.players for each in scores.values()}) > 1:
            raise HeadwiseError("scores: the languages have different players: score all of them with the same model")
        divisors = np.array([1.0 if scale is None else scale[code] for code in scores])[:, None]
        values, errors = (
            np.array(rows, dtype=np.float64) / divisors
            for rows in ([each.value for each in scores.values()], [each.stderr for each in scores.values()])
        )
        players = next((each.players for each in scores.values()), ())
        return cls(tuple(scores), players, values, errors, general, false_share)

    @cached_property
    def difference(self) -> Array:
        """The value of each head minus its mean value in the other languages, (languages, heads)."""
        others = (self.values.sum(0) - self.values) / (len(self.languages) - 1)
        return np.asarray(self.values - others)

    @cached_property
    def error(self) -> Array:
        """The standard error of `difference`; estimates of languages are independent, (languages, heads)."""
        squares = self.stderr**2
        return np.asarray(np.sqrt(squares + (squares.sum(0) - squares) / (len(self.languages) - 1) ** 2))

    @cached_property
    def helpful(self) -> Flags:
        """Whether each head is likely helpful in each language, (languages, heads)."""
        pairs = zip(self.values, self.stderr, strict=True)
        return np.array([bh(chance_below(-values, errors), self.false_share) for values, errors in pairs])

    @cached_property
    def above(self) -> Flags:
        """Whether the value of each head is above its mean value in the other languages, (languages, heads)."""
        chances = chance_below(-self.difference.ravel(), self.error.ravel())
        return bh(chances, self.false_share).reshape(self.difference.shape)

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The class of each head: a language, `general`, `several` or `other`."""
        own = self.helpful & self.above
        needed = min(self.general, len(self.languages))

        def of(place: int) -> str:
            if self.helpful[:, place].sum() >= needed:
                return GENERAL
            [found] = np.nonzero(own[:, place])
            if len(found) > 1:
                return SEVERAL
            return self.languages[found[0]] if len(found) else OTHER

        return tuple(of(place) for place in range(len(self.players)))

    def members(self, name: str) -> tuple[str, ...]:
        """The heads of a class."""
        return tuple(head for head, found in zip(self.players, self.classes, strict=True) if found == name)

    @cached_property
    def lower(self) -> Array:
        """The lower end of the one-sided 95% interval of `difference`, (languages, heads).

        It is `difference` itself if no error is known, and -inf for a head without an error among others.
        """
        if np.isnan(self.error).all():
            return self.difference
        return np.where(np.isfinite(self.error), self.difference - _QUANTILE * self.error, -np.inf)

    def top(self, language: str, count: int) -> tuple[str, ...]:
        """The heads whose values are most above those in the other languages, by `lower`; the highest first."""
        order = np.argsort(-self.lower[self.languages.index(language)], kind="stable")
        return tuple(self.players[place] for place in order[:count])
