"""The sentences at the top of the page."""

from collections.abc import Sequence
from statistics import fmean

from headwise.report.contents import Gain, MaskGains, Report
from headwise.report.names import name_of
from headwise.report.numbers import number_range, plain, plural, signed, span


def gains_headline(kinds: Sequence[MaskGains], metric: str, noun: str, players: int | None = None) -> str:
    """The best language under the best kind of mask, with its interval and random control, and the average.

    The best kind is the main kind with the largest mean gain among those that help: those that are significantly better
    than the whole model in a language.

    Args:
        kinds: The gains of each kind of mask.
        metric: Name of the metric.
        noun: Name of one player, such as `head`.
        players: Number of players of the whole model, if known.

    Example:
        >>> gain = Gain("zh", 36, base=70.3, pruned=77.8, low=6.4, high=8.6, p_value=0.0002, random_mean=70.0)
        >>> print(gains_headline([MaskGains("refined", "", (gain,))], "accuracy", "head", 144))
        Without 36 of its 144 heads, accuracy in Chinese rises from 70.3 to 77.8: +7.5 points (95% interval +6.4 to \
+8.6). Without 36 random heads it changes by −0.3 points.
    """
    main = [kind for kind in kinds if kind.main and kind.gains]
    helpful = [kind for kind in main if any(gain.mark == "+" for gain in kind.gains)]
    if not helpful:
        return _nothing_helps(main, metric, noun)
    kind = max(helpful, key=_mean)
    best = max((gain for gain in kind.gains if gain.mark == "+"), key=lambda gain: gain.difference)
    return " ".join(filter(None, (_best(best, metric, noun, players), _average(kind, metric))))


def _mean(kind: MaskGains) -> float:
    return fmean(gain.difference for gain in kind.gains)


def _best(gain: Gain, metric: str, noun: str, players: int | None) -> str:
    count = plural(gain.heads_removed, noun) if players is None else f"{gain.heads_removed} of its {players} {noun}s"
    sentence = (
        f"Without {count}, {metric} in {name_of(gain.language)} rises from {plain(gain.base)} to {plain(gain.pruned)}: "
        f"{signed(gain.difference)} points (95% interval {span(gain.low, gain.high)})."
    )
    if gain.random_difference is None:
        return sentence
    change = f"changes by {signed(gain.random_difference)} points"
    return (
        f"{sentence} Without {gain.heads_removed} random {noun if gain.heads_removed == 1 else noun + 's'} it {change}."
    )


def _average(kind: MaskGains, metric: str) -> str:
    """The mean over all languages; empty for one language."""
    if len(kind.gains) < 2:
        return ""
    better, worse = (sum(gain.mark == mark for gain in kind.gains) for mark in "+−")
    return (
        f"Over {len(kind.gains)} languages, {kind.name} masks change {metric} by {signed(_mean(kind))} points on "
        f"average: significantly better in {better}, significantly worse in {worse or 'none'}."
    )


def _nothing_helps(kinds: Sequence[MaskGains], metric: str, noun: str) -> str:
    gains = [gain for kind in kinds for gain in kind.gains]
    if not gains:
        return ""
    languages = plural(len({gain.language for gain in gains}), "language")
    removing = [gain for gain in gains if gain.heads_removed]
    if not removing:
        return f"No mask helped: no {noun} was chosen for removal in any of {languages}."
    best = max(removing, key=lambda gain: gain.difference)
    worse = len({gain.language for gain in gains if gain.mark == "−"})
    sentence = (
        f"No mask helped: none is significantly better than the whole model in any of {languages}. The largest change "
        f"of {metric} is {signed(best.difference)} points in {name_of(best.language)} (95% interval "
        f"{span(best.low, best.high)})."
    )
    return f"{sentence} Some masks are significantly worse, in {plural(worse, 'language')}." if worse else sentence


def headline(report: Report) -> str:
    """The sentences at the top of the page: those of the sections, or a summary of the scores."""
    if found := " ".join(section.headline for section in report.sections if section.headline):
        return found
    sizes = sorted({len(scores.players) for scores in report.scores.values()})
    if not sizes:
        return ""
    harmful = [len(scores.decided("harmful")) for scores in report.scores.values()]
    of = plural(sizes[0], report.noun) if len(sizes) == 1 else f"{sizes[0]} to {plural(sizes[-1], report.noun)}"
    found = f"{number_range(harmful)} of them are harmful" if any(harmful) else "none of them is decided to be harmful"
    return f"{of} scored in {plural(len(report.scores), 'language')}: {found}."
