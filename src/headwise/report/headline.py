"""The sentences at the top of the page."""

from collections.abc import Sequence
from statistics import fmean

from headwise.report.contents import Gain, MaskGains, Report
from headwise.report.names import name_of
from headwise.report.numbers import count, number_range, plain, plural, signed, span


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
    return " ".join(filter(None, (_best(best, metric, noun, players), size_sentence(best), _average(kind, metric))))


def size_sentence(gain: Gain) -> str:
    """The size and the speed of the pruned model, counted; empty if they are not known.

    Example:
        >>> size_sentence(Gain("zh", 36, 70.3, 77.8, 6.4, 8.6, 0.0002, parameters=(118_000_000, 115_640_000),
        ...                    flops=(1e9, 9.2e8)))
        'The pruned model has 115.6 million parameters (−2.0%) and needs 8.0% fewer operations per example.'
    """
    if gain.parameters is None:
        return ""
    before, after = gain.parameters
    size = f"The pruned model has {count(after)} parameters ({signed(100 * (after / before - 1))}%)"
    if gain.flops is None:
        return f"{size}."
    return f"{size} and needs {plain(100 * (1 - gain.flops[1] / gain.flops[0]))}% fewer operations per example."


def _mean(kind: MaskGains) -> float:
    return fmean(gain.difference for gain in kind.gains)


def _best(gain: Gain, metric: str, noun: str, players: int | None) -> str:
    removed = plural(gain.heads_removed, noun) if players is None else f"{gain.heads_removed} of its {players} {noun}s"
    sentence = (
        f"Without {removed}, {metric} in {name_of(gain.language)} rises from {plain(gain.base)} to {plain(gain.pruned)}"
        f": {signed(gain.difference)} points (95% interval {span(gain.low, gain.high)})."
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
    codes = {gain.language for gain in gains}
    languages = f"in any of {len(codes)} languages" if len(codes) > 1 else f"in {name_of(codes.pop())}"
    removing = [gain for gain in gains if gain.heads_removed]
    if not removing:
        return f"No mask helped: no {noun} was chosen for removal {languages}."
    best = max(removing, key=lambda gain: gain.difference)
    worse = len({gain.language for gain in gains if gain.mark == "−"})
    sentence = (
        f"No mask helped: none is significantly better than the whole model {languages}. The largest change "
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
    of = plural(sizes[0], report.noun) if len(sizes) == 1 else f"{sizes[0]} to {plural(sizes[-1], report.noun)}"
    if not any(scores.provenance.signed for scores in report.scores.values()):
        methods = ", ".join(dict.fromkeys(scores.provenance.method for scores in report.scores.values()))
        about = f"{of} scored in {plural(len(report.scores), 'language')}"
        return f"{about} by {methods}, which does not tell harmful {report.noun}s from helpful ones."
    harmful = [len(scores.decided("harmful")) for scores in report.scores.values()]
    found = f"{number_range(harmful)} of them are harmful" if any(harmful) else "none of them is decided to be harmful"
    return f"{of} scored in {plural(len(report.scores), 'language')}: {found}."
