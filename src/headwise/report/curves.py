"""Curves: the metric as more and more heads are removed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from headwise.report.contents import Curve, Section
from headwise.report.html import element, isolated, joined
from headwise.report.names import language_label
from headwise.report.numbers import plain, ticks
from headwise.report.palette import LINES

_WIDTH, _HEIGHT = 320, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 34, 10, 8, 34
#: Maximum number of points that are drawn per curve; more would not be visible.
_POINTS = 49


@dataclass(frozen=True)
class _Axes:
    """The axes of a plot: the number of removed heads, and the range of values."""

    most: float
    low: float
    high: float

    @property
    def scale(self) -> tuple[float, float]:
        """Pixels per head and per unit of the metric."""
        return (_WIDTH - _LEFT - _RIGHT) / self.most, (_HEIGHT - _TOP - _BOTTOM) / (self.high - self.low)

    def x(self, removed: float) -> float:
        return round(_LEFT + self.scale[0] * removed, 1)

    def y(self, value: float) -> float:
        return round(_TOP + self.scale[1] * (self.high - value), 1)

    def transform(self) -> str:
        """The SVG transform from data to pixels; the points of a curve are its data."""
        across, up = self.scale
        return f"translate({_LEFT} {_TOP + up * self.high:.3f}) scale({across:.5f} {-up:.5f})"


def axes_of(curves: Sequence[Curve]) -> dict[str, tuple[float, float]]:
    """The range of values of the plot of each language; all plots have the same scale.

    They have the same range, unless it is more than twice that of every single plot. Then small changes would be
    invisible, so each plot shows its own part of it.

    Example:
        >>> levels = {"zh": (20.0, 24.0), "tr": (70.0, 72.0)}
        >>> axes_of([Curve(code, "stars", (0, 9), values) for code, values in levels.items()])
        {'zh': (20.0, 24.0), 'tr': (68.0, 72.0)}
    """
    panels: dict[str, list[Curve]] = {}
    for curve in curves:
        panels.setdefault(curve.language, []).append(curve)
    ranges = {language: _range(found) for language, found in panels.items()}
    low = min((low for low, _ in ranges.values()), default=0.0)
    high = max((high for _, high in ranges.values()), default=1.0)
    widest = max((high - low for low, high in ranges.values()), default=0.0) or 1.0
    if high - low <= 2 * widest:
        return dict.fromkeys(ranges, (low, max(high, low + widest)))
    starts = {
        code: min(max((lower + upper - widest) / 2, low), high - widest) for code, (lower, upper) in ranges.items()
    }
    return {code: (start, start + widest) for code, start in starts.items()}


def _range(curves: Sequence[Curve]) -> tuple[float, float]:
    values = np.array([edge for curve in curves for edge in (*curve.value, *curve.low, *curve.high)])
    values = values[np.isfinite(values)]
    return (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)


def curves_section(
    curves: Sequence[Curve], metric: str, axis: str, title: str = "Iterative pruning", text: str = ""
) -> Section:
    """A plot for every language.

    Args:
        curves: The curves; those without points are left out.
        metric: Name of the metric.
        axis: Title of the horizontal axis, such as `heads removed`.
        title: Title of the section.
        text: The text above the plots; by default it says that the lowest-ranked are removed first.
    """
    drawn = [curve for curve in curves if curve.removed]
    rankings = list(dict.fromkeys(curve.ranking for curve in drawn))
    ranges, most = axes_of(drawn), max((max(curve.removed) for curve in drawn), default=1)
    words = _Words(metric, axis)
    figures = [
        element(
            "figure",
            element("figcaption", element("strong", language_label(language))),
            _plot(
                language,
                [curve for curve in drawn if curve.language == language],
                rankings,
                _Axes(max(most, 1), low, high),
                words,
            ),
        )
        for language, (low, high) in ranges.items()
    ]
    text = text or f"{metric[:1].upper()}{metric[1:]} (%) by {axis}, lowest ranked first."
    if len(set(ranges.values())) > 1:
        text += " All plots have the same scale, but not the same range."
    legend = element("ul", *(_key(place, ranking) for place, ranking in enumerate(rankings)), class_="keys")
    slider = element("div", class_="choices slider", data_noun=axis) if drawn else None  # the script fills it
    return Section(title, joined([element("p", text), legend, slider, element("div", *figures, class_="plots")]))


@dataclass(frozen=True)
class _Words:
    metric: str
    axis: str


def _key(place: int, ranking: str) -> Markup:
    line = element("path", d="M0 6h28", class_=f"curve l{place % LINES}")
    return element("li", element("svg", line, width=28, height=12, aria_hidden="true"), " ", isolated(ranking))


def _plot(language: str, curves: Sequence[Curve], rankings: Sequence[str], axes: _Axes, words: _Words) -> Markup:
    classes = [f"l{rankings.index(curve.ranking) % LINES}" for curve in curves]
    drawn = [_band(curve, kind) for curve, kind in zip(curves, classes, strict=True) if curve.low]
    drawn += [_line(curve, kind) for curve, kind in zip(curves, classes, strict=True)]
    return element(
        "svg",
        *_frame(axes, words.axis),
        element("g", *drawn, transform=axes.transform()),
        element("line", class_="cursor", y1=_TOP, y2=_HEIGHT - _BOTTOM, x1=-9, x2=-9),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        width=_WIDTH,
        class_="plot",
        role="img",
        tabindex="0",
        aria_label=f"{language}: {words.metric} by {words.axis}",
        data_noun=words.axis,
    )


def _frame(axes: _Axes, title: str) -> Iterator[Markup]:
    for value in ticks(axes.low, axes.high):
        at = axes.y(value)
        yield element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=at, y2=at, class_="rule")
        yield element("text", plain(value, 0 if value == round(value) else 1), x=_LEFT - 6, y=at + 4, text_anchor="end")
    for value in filter(float.is_integer, ticks(0, axes.most)):  # a number of heads
        yield element("text", plain(value, 0), x=axes.x(value), y=_HEIGHT - _BOTTOM + 15, text_anchor="middle")
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    yield element("text", title, x=middle, y=_HEIGHT - 4, text_anchor="middle")


def _line(curve: Curve, kind: str) -> Markup:
    points = [f"{curve.removed[place]},{curve.value[place]:.1f}" for place in _thinned(curve)]
    return element("polyline", points=" ".join(points), class_=f"curve {kind}", data_name=curve.ranking)


def _band(curve: Curve, kind: str) -> Markup:
    places = _thinned(curve)
    upper = [f"{curve.removed[place]},{curve.high[place]:.1f}" for place in places]
    lower = [f"{curve.removed[place]},{curve.low[place]:.1f}" for place in reversed(places)]
    return element("polygon", points=" ".join(upper + lower), class_=f"band {kind}")


def _thinned(curve: Curve) -> list[int]:
    """Indices of the points to draw, evenly spaced, without points that have no value."""
    known = [place for place, value in enumerate(curve.value) if np.isfinite(value)]
    if len(known) <= _POINTS:
        return known
    return [known[place] for place in np.linspace(0, len(known) - 1, _POINTS).round().astype(int)]
