"""The section of gains: the effect of removing heads on each language, as a sentence, a chart and one table."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from headwise.report.contents import SIGNIFICANT, Gain, MaskGains, Section
from headwise.report.gain_chart import gain_chart, kind_sample, random_sample
from headwise.report.headline import gains_headline
from headwise.report.html import element, joined, table_frame
from headwise.report.names import language_label, short_list
from headwise.report.numbers import count, plain, probability, signed, span

TITLE = "Gains"


@dataclass(frozen=True)
class _Column:
    """A column of the table: title, and text and sorting key of a cell."""

    title: str
    text: Callable[[Gain], str]
    key: Callable[[Gain], float | None]


def gains_section(
    kinds: Sequence[MaskGains], metric: str, noun: str, players: int | None = None, about: str = ""
) -> Section:
    """The gains of all languages by all kinds of masks.

    Args:
        kinds: The gains of each kind of mask, the most important first; kinds without gains are left out.
        metric: Name of the metric.
        noun: Name of one player, such as `head`.
        players: Number of players of the whole model, if known.
        about: What the metric was measured on, as a sentence.

    Example:
        >>> gain = Gain("zh", heads_removed=12, base=66.0, pruned=76.5, low=8.0, high=13.0, p_value=0.0002)
        >>> gains_section([MaskGains("refined", "", (gain,))], "accuracy", "head").headline
        'Without 12 heads, accuracy in Chinese rises from 66.0 to 76.5: +10.5 points (95% interval +8.0 to +13.0).'
    """
    kinds = [kind for kind in kinds if kind.gains]
    body = joined(
        [
            element("p", about) if about else None,
            _legend(kinds),
            gain_chart(kinds, metric, noun),
            _explanation(kinds),
            _table(kinds, noun),
            _prune(kinds),
        ]
    )
    masks = {
        kind.name: {gain.language: gain.off for gain in kind.gains}
        for kind in kinds
        if any(gain.off for gain in kind.gains)
    }
    return Section(TITLE, body, gains_headline(kinds, metric, noun, players), masks)


def _has_random(kinds: Sequence[MaskGains]) -> bool:
    return any(gain.random_mean is not None for kind in kinds for gain in kind.gains)


def _legend(kinds: Sequence[MaskGains]) -> Markup:
    """The kinds of masks as check boxes that show or hide them in the chart and the table."""
    boxes = [
        element(
            "label",
            element("input", type="checkbox", checked=kind.main, data_kind=place, autocomplete="off"),
            " ",
            kind_sample(place),
            f" {kind.name}",
        )
        for place, kind in enumerate(kinds)
    ]
    random = element("span", random_sample(), " as many at random") if _has_random(kinds) else None
    return element("div", *boxes, random, class_="choices kinds", role="group", aria_label="Kinds of masks")


def _explanation(kinds: Sequence[MaskGains]) -> Markup:
    filled = (
        f"Filled dots differ significantly from the whole model (P < {SIGNIFICANT}, paired bootstrap, separately for "
        "each language and mask, without correction for their number). Lines are 95% intervals."
    )
    random = " Diamonds: mean of the same number of random removals, with their standard deviation."
    meanings = [f" {kind.name[:1].upper()}{kind.name[1:]}: {kind.about}." for kind in kinds if kind.about]
    return element("p", filled, random if _has_random(kinds) else None, *meanings, class_="legend")


def _columns(kinds: Sequence[MaskGains]) -> list[_Column]:
    """The columns that have a value."""
    columns = [
        _Column("Removed", lambda gain: f"{gain.heads_removed:,}", lambda gain: gain.heads_removed),
        _Column("Whole model", lambda gain: plain(gain.base), lambda gain: gain.base),
        _Column("Pruned", lambda gain: plain(gain.pruned), lambda gain: gain.pruned),
        _Column("Difference", lambda gain: signed(gain.difference), lambda gain: gain.difference),
        _Column("95% interval", lambda gain: span(gain.low, gain.high), lambda gain: gain.low),
        _Column("P", lambda gain: probability(gain.p_value), lambda gain: gain.p_value),
        _Column("Random", _random_text, lambda gain: gain.random_difference),
        _Column("Parameters", _size_text, lambda gain: gain.parameters[1] if gain.parameters else None),
    ]
    gains = [gain for kind in kinds for gain in kind.gains]
    return [column for column in columns if any(column.key(gain) is not None for gain in gains)]


def _random_text(gain: Gain) -> str:
    spread = "" if gain.random_sd is None else f" ± {plain(gain.random_sd)}"
    return f"{signed(gain.random_difference)}{spread}"


def _size_text(gain: Gain) -> str:
    if gain.parameters is None:
        return plain(None)
    before, after = gain.parameters
    return f"{count(after)} ({signed(100 * (after / before - 1))}%)"


def _table(kinds: Sequence[MaskGains], noun: str) -> Markup:
    """One row per language and kind of mask, with columns to show or hide."""
    columns, listed = _columns(kinds), any(gain.off for kind in kinds for gain in kind.gains)
    titles = ["Language", "Mask", *(column.title for column in columns)]
    lists = f"{noun[:1].upper()}{noun[1:]}s removed"
    titles += [lists] if listed else []
    hidden = {lists, "P"}
    choices = [
        element(
            "label",
            element("input", type="checkbox", checked=title not in hidden, data_column=place, autocomplete="off"),
            f" {title}",
        )
        for place, title in enumerate(titles)
        if place > 1
    ]
    languages = dict.fromkeys(gain.language for kind in kinds for gain in kind.gains)
    rows = [
        element("tr", *_row(kind, gain, columns, listed), data_kind=place)
        for language in languages
        for place, kind in enumerate(kinds)
        for gain in kind.gains
        if gain.language == language
    ]
    table = element(
        "table",
        element("thead", element("tr", *_headers(titles, lists))),
        element("tbody", *rows),
        class_="sortable",
    )
    summary = element("summary", "Table of all numbers")
    bar = element("div", *choices, class_="choices", role="group", aria_label="Columns")
    return element("details", summary, bar, table_frame(TITLE, table), class_="numbers")


def _headers(titles: Sequence[str], lists: str) -> Iterator[Markup]:
    for title in titles:
        kind = None if title in ("Language", "Mask", lists) else "number"
        yield element("th", element("button", title, type="button"), class_=kind, scope="col")


def _row(kind: MaskGains, gain: Gain, columns: Sequence[_Column], listed: bool) -> Iterator[Markup]:
    yield element("th", language_label(gain.language), scope="row")
    yield element("td", kind.name)
    for column in columns:
        key = column.key(gain)
        mark = _mark(gain) if column.title == "Difference" else None
        style = "number difference" if column.title == "Difference" else "number"
        yield element("td", column.text(gain), mark, class_=style, data_v=None if key is None else f"{key:.6g}")
    if listed:
        yield element("td", element("code", short_list(gain.off)) if gain.off else None, class_="heads")


def _mark(gain: Gain) -> Markup | None:
    words = {"+": "significantly better", "−": "significantly worse"}
    return element("abbr", gain.mark, title=words[gain.mark], class_="mark") if gain.mark else None


def _prune(kinds: Sequence[MaskGains]) -> Markup | None:
    """The command that prunes the model for the language with the largest gain, for each kind of mask."""
    commands = []
    for kind in kinds:
        removing = [gain for gain in kind.gains if gain.heads_removed]
        if kind.command and removing:
            best = max(removing, key=lambda gain: gain.difference)
            commands.append(kind.command.replace("{language}", shlex.quote(best.language)))
    if not commands:
        return None
    text = "To save a model without these heads, here for the language with the largest gain of each kind of mask:"
    return joined([element("h3", "Prune"), element("p", text), element("pre", "\n".join(commands), tabindex="0")])
