"""The section of gains: the effect of removing heads on each language, as a sentence and a table."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from markupsafe import Markup

from headwise.report.contents import SIGNIFICANT, Gain, Section
from headwise.report.html import element, isolated, joined, table_frame
from headwise.report.numbers import number_range, plain, plural, probability, signed, span

_BAR_WIDTH, _BAR_HEIGHT, _BAR_MARGIN = 140, 22, 5


@dataclass(frozen=True)
class _Column:
    """A column with the metric under a control: title, values and explanation."""

    title: str
    value: Callable[[Gain], float | None]
    meaning: str


_OTHERS = (
    _Column("Random", lambda gain: gain.random_mean, "the same number removed at random, mean ± standard deviation"),
    _Column("Michel", lambda gain: gain.michel, "the same number removed, by lowest gradient importance"),
    _Column("Zero-shot", lambda gain: gain.zero_shot, "the source language’s mask"),
    _Column("Pooled", lambda gain: gain.pooled, "one mask for all languages"),
)


def _removed(gains: Sequence[Gain], noun: str) -> str:
    removed = [gain.heads_removed for gain in gains]
    return f"{number_range(removed)} {noun if set(removed) == {1} else noun + 's'}"


def _verdict(gains: Sequence[Gain]) -> str:
    mean, average = signed(fmean(gain.difference for gain in gains)), " on average" if len(gains) > 1 else ""
    better, worse = (sum(gain.mark == mark for gain in gains) for mark in "+−")
    sentence = (
        f"{mean} points{average}: significantly better in {better or 'none'} of {plural(len(gains), 'language')}, "
        f"worse in {worse or 'none'}."
    )
    random = [gain.random_mean - gain.base for gain in gains if gain.random_mean is not None]
    if len(random) < len(gains):
        return sentence
    return f"{sentence} Removing the same number at random: {signed(fmean(random))} points."


@dataclass(frozen=True)
class GainsText:
    """The texts of a section of gains.

    Attributes:
        title: Title of the section.
        about: A sentence before the table.
        headline: Start of the sentence at the top of the page, with `{removed}` for the number of heads; the change of
            the metric follows.
    """

    title: str
    about: str
    headline: str


def gains_section(gains: Sequence[Gain], metric: str, noun: str, text: GainsText) -> Section:
    """A table of gains with its headline.

    Args:
        gains: The gains, at least one.
        metric: Name of the metric.
        noun: Name of one player, such as `head`.
        text: Title and sentences.

    Example:
        >>> gain = Gain("zh", heads_removed=12, base=66.0, pruned=76.5, low=8.0, high=13.0, p_value=0.0002)
        >>> text = GainsText("Gains", "", "Removing {removed} changed accuracy by")
        >>> gains_section([gain], "accuracy", "head", text).headline
        'Removing 12 heads changed accuracy by +10.5 points: significantly better in 1 of 1 language, worse in none.'
    """
    others = [column for column in _OTHERS if any(column.value(gain) is not None for gain in gains)]
    scale = _Scale.of(gains)
    titles = ["Language", "Removed", "Base", "Pruned", "Difference", "95% interval", "P"]
    titles += [column.title for column in others]
    table = element(
        "table",
        element("thead", element("tr", *_headers(titles))),
        element("tbody", *(element("tr", *_row(gain, others, scale)) for gain in gains)),
        element("tfoot", _mean_row(gains, others)) if len(gains) > 1 else None,
        class_="sortable",
    )
    body = joined([element("p", text.about), table_frame(text.title, table), _explanation(metric, others)])
    return Section(text.title, body, f"{text.headline.format(removed=_removed(gains, noun))} {_verdict(gains)}")


def _headers(titles: Sequence[str]) -> Iterator[Markup]:
    for title in titles:
        kind = None if title == "Language" else "number"
        button = element("button", title, type="button")
        yield element("th", button, class_=kind, scope="col", colspan="2" if title == "Difference" else None)


def _row(gain: Gain, others: Sequence[_Column], scale: "_Scale") -> Iterator[Markup]:
    words = {"+": "significantly better", "−": "significantly worse", "": ""}
    mark = element("abbr", gain.mark, title=words[gain.mark], class_="mark") if gain.mark else None
    yield element("th", isolated(gain.language), scope="row")
    yield _number(f"{gain.heads_removed:,}", gain.heads_removed)
    yield _number(plain(gain.base), gain.base)
    yield _number(plain(gain.pruned), gain.pruned)
    yield element("td", signed(gain.difference), mark, class_="number difference", data_v=f"{gain.difference:.6g}")
    yield element("td", scale.bar(gain), class_="bar")
    yield _number(span(gain.low, gain.high), gain.low)
    yield _number(probability(gain.p_value), gain.p_value)
    for column in others:
        value = column.value(gain)
        spread = gain.random_sd if column.title == "Random" and value is not None else None
        text = plain(value) if spread is None else f"{plain(value)} ± {plain(spread)}"
        small = None if value is None else element("small", signed(value - gain.base))
        yield _number(joined([text, small]), value)


def _number(text: str, value: float | None) -> Markup:
    return element("td", text, class_="number", data_v=None if value is None else f"{value:.6g}")


def _mean_row(gains: Sequence[Gain], others: Sequence[_Column]) -> Markup:
    cells = [
        element("th", "Mean", scope="row"),
        _number(plain(fmean(gain.heads_removed for gain in gains)), None),
        _number(plain(fmean(gain.base for gain in gains)), None),
        _number(plain(fmean(gain.pruned for gain in gains)), None),
        element("td", signed(fmean(gain.difference for gain in gains)), class_="number difference"),
        element("td", colspan="3"),
    ]
    for column in others:
        values = [value for gain in gains if (value := column.value(gain)) is not None]
        known = len(values) == len(gains)
        gap = fmean(values) - fmean(gain.base for gain in gains) if known else None
        small = None if gap is None else element("small", signed(gap))
        cells.append(_number(joined([plain(fmean(values) if known else None), small]), None))
    return element("tr", *cells)


def _explanation(metric: str, others: Sequence[_Column]) -> Markup:
    parts = [f"{metric[:1].upper()}{metric[1:]} in percent, differences in percentage points."]
    parts += [
        f"+ and − mark P < {SIGNIFICANT}, separately for each language.",
        "Bars show the difference with its 95% interval"
        + (" (line) and the random control (diamond)." if others and others[0].title == "Random" else " (line)."),
    ]
    parts += [f"{column.title}: {column.meaning}." for column in others]
    return element("p", " ".join(parts), class_="legend")


@dataclass(frozen=True)
class _Scale:
    """The common axis of the bars, in percentage points."""

    low: float
    high: float

    @classmethod
    def of(cls, gains: Sequence[Gain]) -> "_Scale":
        ends = [end for gain in gains for end in (gain.difference, gain.low, gain.high)]
        ends += [gain.random_mean - gain.base for gain in gains if gain.random_mean is not None]
        known = [0.0, *(end for end in ends if math.isfinite(end))]
        return cls(min(known), max(known)) if max(known) > min(known) else cls(-1.0, 1.0)

    def x(self, value: float) -> float:
        """The horizontal position of a value."""
        share = (value - self.low) / (self.high - self.low)
        return round(_BAR_MARGIN + share * (_BAR_WIDTH - 2 * _BAR_MARGIN), 1)

    def bar(self, gain: Gain) -> Markup:
        """The bar of one gain; its numbers are in the table."""
        zero, end, middle = self.x(0), self.x(gain.difference), _BAR_HEIGHT / 2
        kind = "better" if gain.difference > 0 else "worse"
        shapes = [
            element("rect", x=min(zero, end), y=middle - 6, width=round(abs(end - zero), 1), height=12,
                    class_=kind if gain.mark else f"{kind} unsure"),
            element("line", x1=zero, x2=zero, y1=0, y2=_BAR_HEIGHT, class_="zero"),
        ]  # fmt: skip
        if math.isfinite(gain.low) and math.isfinite(gain.high):
            low, high = self.x(gain.low), self.x(gain.high)
            path = f"M{low} {middle}H{high}M{low} {middle - 3}v6M{high} {middle - 3}v6"
            shapes.append(element("path", d=path, class_="whisker"))
        if gain.random_mean is not None and math.isfinite(gain.random_mean):
            at = self.x(gain.random_mean - gain.base)
            shapes.append(element("path", d=f"M{at - 4:g} {middle}l4-4 4 4-4 4z", class_="control"))
        box = f"0 0 {_BAR_WIDTH} {_BAR_HEIGHT}"
        return element("svg", *shapes, viewBox=box, width=_BAR_WIDTH, height=_BAR_HEIGHT, aria_hidden="true")
