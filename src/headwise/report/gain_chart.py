"""The chart of gains: one row per language, a dot with its interval for every kind of mask."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from headwise.report.contents import Gain, MaskGains
from headwise.report.html import element, joined
from headwise.report.names import language_label, name_of
from headwise.report.numbers import plain, plural, probability, signed, span, ticks
from headwise.report.palette import LINES

#: Height of one dot's lane, in pixels.
_LANE = 14
#: Outlines of the dots of each kind of mask, around the origin.
_SHAPES = (
    "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z",  # circle
    "M-4-4h8v8h-8z",  # square
    "M0-5.2l5 8.7h-10z",  # triangle
    "M0 5.2l5-8.7h-10z",  # triangle, point down
    "M-5-1.7h3.3v-3.3h3.4v3.3h3.3v3.4h-3.3v3.3h-3.4v-3.3h-3.3z",  # plus
    "M-5-3l5 2.2 5-2.2v6l-5-2.2-5 2.2z",  # bow tie
)
_DIAMOND = "M-4 0l4-4 4 4-4 4z"
#: The largest number of languages for which one axis, at the bottom, is enough.
_ONE_AXIS = 15


@dataclass(frozen=True)
class _Axis:
    """The common axis, in percentage points; positions are in percent of the width."""

    low: float
    high: float

    @classmethod
    def of(cls, kinds: Sequence[MaskGains]) -> "_Axis":
        gains = [gain for kind in kinds for gain in kind.gains]
        ends = [end for gain in gains for end in (gain.difference, gain.low, gain.high, gain.random_difference)]
        known = [0.0, *(end for end in ends if end is not None and math.isfinite(end))]
        low, high = (min(known), max(known)) if max(known) > min(known) else (-1.0, 1.0)
        return cls(low, high)

    def x(self, value: float) -> str:
        """The position of a value; the axis has a margin of 3% on both sides."""
        return f"{3 + 94 * (value - self.low) / (self.high - self.low):.2f}%"


def gain_chart(kinds: Sequence[MaskGains], metric: str, noun: str) -> Markup:
    """The chart. Languages are ordered by their largest gain by a main kind of mask.

    Args:
        kinds: The gains of each kind of mask.
        metric: Name of the metric.
        noun: Name of one player, such as `head`.
    """
    axis = _Axis.of(kinds)
    languages = _ordered(kinds)
    ruler = joined([element("div", class_="axis-name"), _ruler(axis)])
    rows = (joined([_label(language), _row(language, kinds, axis, noun)]) for language in languages)
    title = f"Change of {metric}, in percentage points"
    return element(
        "figure",
        element("figcaption", element("strong", title)),
        element("div", ruler if len(languages) > _ONE_AXIS else None, *rows, ruler, class_="gain-chart"),
    )


def kind_sample(place: int) -> Markup:
    """The dot of a kind of mask, for the legend."""
    dot = element("path", d=_SHAPES[place % len(_SHAPES)], class_="dot-mark sure")
    return element(
        "svg", dot, viewBox="-7 -7 14 14", width=14, height=14, class_=f"l{place % LINES}", aria_hidden="true"
    )


def random_sample() -> Markup:
    """The mark of the random control, for the legend."""
    return element("svg", element("path", d=_DIAMOND, class_="control"), viewBox="-7 -7 14 14", width=14, height=14,
                   aria_hidden="true")  # fmt: skip


def _ordered(kinds: Sequence[MaskGains]) -> list[str]:
    best: dict[str, float] = {}
    for kind in kinds:
        for gain in kind.gains:
            value = gain.difference if kind.main else -math.inf
            best[gain.language] = max(best.get(gain.language, -math.inf), value)
    return sorted(best, key=lambda language: -best[language])


def _label(language: str) -> Markup:
    return element("div", language_label(language), class_="gain-label")


def _row(language: str, kinds: Sequence[MaskGains], axis: _Axis, noun: str) -> Markup:
    """The lanes of one language, one for each kind of mask, so that a hidden kind takes no space."""
    found = [
        (place, kind, gain) for place, kind in enumerate(kinds) for gain in kind.gains if gain.language == language
    ]
    words = "; ".join(f"{kind.name} {signed(gain.difference)}" for _, kind, gain in found)
    lanes = (_lane(place, kind, gain, axis, noun) for place, kind, gain in found)
    return element("div", *lanes, class_="lanes", role="img", aria_label=f"{name_of(language)}: {words}")


def _rules(axis: _Axis) -> Iterator[Markup]:
    for value in ticks(axis.low, axis.high, 7):
        x = axis.x(value)
        yield element("line", x1=x, x2=x, y1=0, y2="100%", class_="rule")
    yield element("line", x1=axis.x(0), x2=axis.x(0), y1=0, y2="100%", class_="zero")


def _ruler(axis: _Axis) -> Markup:
    marks = ticks(axis.low, axis.high, 7)
    whole = all(value == round(value) for value in marks)
    texts = (
        element("text", signed(value, 0 if whole else 1), x=axis.x(value), y=12, text_anchor="middle")
        for value in marks
    )
    return element("svg", *texts, width="100%", height=16, class_="ruler", aria_hidden="true")


def _lane(place: int, kind: MaskGains, gain: Gain, axis: _Axis, noun: str) -> Markup:
    """The dot, interval and random control of one mask."""
    y = _LANE / 2
    marks = [*_rules(axis), _random(gain, axis, y)]
    if math.isfinite(gain.low) and math.isfinite(gain.high):
        marks.append(element("line", x1=axis.x(gain.low), x2=axis.x(gain.high), y1=y, y2=y, class_="interval"))
    sure = "sure" if gain.mark else "unsure"
    dot = element("path", d=_SHAPES[place % len(_SHAPES)], class_=f"dot-mark {sure}")
    marks.append(element("svg", dot, x=axis.x(gain.difference), y=y, class_="at"))
    return element("svg", *marks, width="100%", height=_LANE, class_=f"kind l{place % LINES}", data_kind=place,
                   data_tip=_tip(kind, gain, noun))  # fmt: skip


def _random(gain: Gain, axis: _Axis, y: float) -> Markup | None:
    middle = gain.random_difference
    if middle is None or not math.isfinite(middle):
        return None
    spread = gain.random_sd or 0.0
    line = element("line", x1=axis.x(max(middle - spread, axis.low)), x2=axis.x(min(middle + spread, axis.high)),
                   y1=y, y2=y, class_="control-spread")  # fmt: skip
    diamond = element("svg", element("path", d=_DIAMOND, class_="control"), x=axis.x(middle), y=y, class_="at")
    return joined([line, diamond])


def _tip(kind: MaskGains, gain: Gain, noun: str) -> str:
    """The numbers of one mask, one per line."""
    change = f"{plain(gain.base)} → {plain(gain.pruned)} ({signed(gain.difference)})"
    lines = [
        f"{name_of(gain.language)}, {kind.name}",
        f"{plural(gain.heads_removed, noun)} removed",
        change,
        f"95% interval: {span(gain.low, gain.high)}, P {_relation(gain.p_value)}",
    ]
    if gain.random_difference is not None:
        lines.append(f"as many at random: {signed(gain.random_difference)}")
    return "\n".join(lines)


def _relation(p_value: float) -> str:
    text = probability(p_value)
    return text if text.startswith("<") else f"= {text}"
