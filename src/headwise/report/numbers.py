"""Formatting of numbers."""

import math
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

#: Text for a missing number.
MISSING = "–"
_MINUS = "−"
#: A hyphen that stands for a minus: before a number, or alone.
_HYPHEN = re.compile(r"(?<![^\s(])-(?=\d|\s|$)")
#: The sign of a zero.
_ZERO = re.compile(r"(?<![^\s(])[+-](?=0\.0+(?!\d))")
_SIZES = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))


def plain(value: float | None, decimals: int = 1) -> str:
    """A number with the given number of decimals.

    Example:
        >>> plain(-71.25, 1), plain(None)
        ('−71.2', '–')
    """
    if value is None or math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else f"{_MINUS}∞"
    text = f"{value:.{decimals}f}"
    return text.replace("-", _MINUS if float(text) else "")


def signed(value: float | None, decimals: int = 1) -> str:
    """A number with its sign; a number that rounds to zero has none.

    Example:
        >>> signed(1.26), signed(-0.5), signed(-0.01)
        ('+1.3', '−0.5', '0.0')
    """
    text = plain(value, decimals)
    return f"+{text}" if value is not None and value > 0 and round(value, decimals) else text


def with_minus(text: str) -> str:
    """A text with minus signs instead of the hyphens before numbers and for marks; zero has no sign.

    Example:
        >>> with_minus("-0.64 (-1.2 to +0.00), cross-lingual; + better, - worse")
        '−0.64 (−1.2 to 0.00), cross-lingual; + better, − worse'
    """
    return _HYPHEN.sub(_MINUS, _ZERO.sub("", text))


def span(low: float, high: float, decimals: int = 1) -> str:
    """An interval.

    Example:
        >>> span(-0.2, 1.4)
        '−0.2 to +1.4'
    """
    return f"{signed(low, decimals)} to {signed(high, decimals)}"


def probability(value: float) -> str:
    """A P value.

    Example:
        >>> probability(0.00002), probability(0.0123), probability(0.4312)
        ('< 0.001', '0.012', '0.43')
    """
    if value < 0.001:
        return "< 0.001"
    return plain(value, 3 if value < 0.1 else 2)


def count(value: float) -> str:
    """A large number.

    Example:
        >>> count(144), count(61234), count(74_000_000)
        ('144', '61,234', '74.0 million')
    """
    for size, word in _SIZES:
        if value >= size:
            return f"{value / size:.1f} {word}"
    return f"{value:,.0f}" if math.isfinite(value) else plain(value)


def duration(seconds: float | None) -> str:
    """A time span.

    Example:
        >>> duration(3.21), duration(185), duration(7512)
        ('3.2 s', '3 min 5 s', '2 h 5 min')
    """
    if seconds is None or not math.isfinite(seconds):
        return MISSING
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def plural(n: int, noun: str) -> str:
    """A count and a noun whose plural ends in s.

    Example:
        >>> plural(1, "head"), plural(12, "head")
        ('1 head', '12 heads')
    """
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def decimals_for(values: ArrayLike) -> int:
    """The number of decimals that gives the largest value three digits.

    Example:
        >>> decimals_for([0.003, -0.0512]), decimals_for([0.0]), decimals_for([312.0])
        (4, 2, 0)
    """
    known = np.abs(np.asarray(values, dtype=np.float64))
    largest = float(known[np.isfinite(known)].max(initial=0))
    return 2 if largest == 0 else min(max(2 - math.floor(math.log10(largest)), 0), 9)


def ticks(low: float, high: float, most: int = 5) -> tuple[float, ...]:
    """Round numbers from `low` to `high`, at most `most` of them.

    Example:
        >>> ticks(0, 144), ticks(12.5, 81.3)
        ((0.0, 50.0, 100.0), (20.0, 40.0, 60.0, 80.0))
    """
    if not high > low:
        return (low,)
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(power * factor for factor in (1, 2, 5, 10, 20) if (high - low) / (power * factor) < most)
    first, last = math.ceil(low / step), math.floor(high / step)
    return tuple(step * place for place in range(first, last + 1))


def number_range(numbers: Sequence[int]) -> str:
    """The range of some numbers as text.

    Example:
        >>> number_range([3, 9, 5]), number_range([4, 4])
        ('3 to 9', '4')
    """
    low, high = min(numbers), max(numbers)
    return f"{low}" if low == high else f"{low} to {high}"
