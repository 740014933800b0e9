"""Claims of a paper, checked by a named test: yes, no or undecided."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from headwise.report import SIGNIFICANT, Section, table_section
from headwise.report.numbers import with_minus
from headwise.stats import permutation_p_value, spearman
from headwise.studies.resampled import Array, Resampled
from headwise.studies.tables import StudyTable

Verdict = Literal["yes", "no", "undecided"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
#: From metrics, (..., languages, conditions), to a number, (...).
Contrast = Callable[[Array], Array]
#: Minimum number of values for a rank correlation.
_FEWEST = 4


@dataclass(frozen=True)
class Claim:
    """A claim and whether it holds.

    Attributes:
        text: The claim.
        verdict: Whether it holds here.
        evidence: The numbers that the verdict is based on.
        test: The test.
        paper: What the paper reports.
    """

    text: str
    verdict: Verdict
    evidence: str
    test: str
    paper: str = ""


def above(text: str, found: Resampled, contrast: Contrast, bound: float = 0.0, paper: str = "") -> Claim:
    """The claim that a contrast is above a bound: yes if its whole 95% interval is, no if all of it is below."""
    value, low, high = found.interval(contrast)
    verdict: Verdict = "yes" if low > bound else "no" if high < bound else "undecided"
    return Claim(text, verdict, _interval(value, low, high), found.test, paper)


def below(text: str, found: Resampled, contrast: Contrast, bound: float, paper: str = "") -> Claim:
    """The claim that a contrast is below a bound: yes if its whole 95% interval is, no if all of it is above."""
    value, low, high = found.interval(contrast)
    verdict: Verdict = "yes" if high < bound else "no" if low > bound else "undecided"
    return Claim(text, verdict, _interval(value, low, high), found.test, paper)


def within(text: str, found: Resampled, contrast: Contrast, margin: float, paper: str = "") -> Claim:
    """The claim that a contrast is at most a margin away from 0: yes if its whole 95% interval is, no if none of it."""
    value, low, high = found.interval(contrast)
    inside, outside = -margin <= low and high <= margin, low > margin or high < -margin
    verdict: Verdict = "yes" if inside else "no" if outside else "undecided"
    return Claim(text, verdict, _interval(value, low, high), f"{found.test}, equivalence within ±{margin:g}", paper)


def increasing(
    text: str,
    values: Mapping[str, float],
    distances: Mapping[str, float | None],
    resamples: int,
    over: str = "languages",
    paper: str = "",
) -> Claim:
    """The claim that values grow with distances: yes or no if their rank correlation has a P-value below 0.05.

    Args:
        text: The claim.
        values: The value of each language, or of anything else.
        distances: The distance of each; None if unknown.
        resamples: Number of permutations.
        over: The name of what is permuted.
        paper: What the paper reports.
    """
    test = f"permutation test of Spearman's rank correlation over {over}"
    known = [(value, far) for name, value in values.items() if (far := distances.get(name)) is not None]
    known = [(value, far) for value, far in known if math.isfinite(value)]
    if len(known) < _FEWEST:
        return Claim(text, "undecided", f"{len(known)} {over} are too few", test, paper)
    left, right = zip(*known, strict=True)
    rho = spearman(left, right).rho
    if math.isnan(rho):
        return Claim(text, "undecided", f"no differences among {len(known)} {over}", test, paper)
    p_value = permutation_p_value(left, right, resamples)
    verdict: Verdict = "undecided" if p_value >= SIGNIFICANT else "yes" if rho > 0 else "no"
    evidence = f"rank correlation {rho:+.2f}, P = {p_value:.3f}, {len(known)} {over}"
    return Claim(text, verdict, evidence, test, paper)


def _interval(value: float, low: float, high: float) -> str:
    return f"{value:+.2f}, 95% interval {low:+.2f} to {high:+.2f}"


def paragraph(claims: Sequence[Claim], source: str) -> str:
    """One paragraph about all claims.

    Example:
        >>> claim = Claim("Even layers matter less.", "yes", "+1.20, 95% interval +0.40 to +2.10", "paired bootstrap")
        >>> print(paragraph([claim], "the paper"))
        1 claim of the paper was checked here: 1 yes. Yes: even layers matter less (+1.20, 95% interval +0.40 to \
+2.10; paired bootstrap). Each test has its own error rate of 5%.
    """
    counts = [(verdict, sum(claim.verdict == verdict for claim in claims)) for verdict in VERDICTS]
    summary = ", ".join(f"{count} {verdict}" for verdict, count in counts if count)
    one = len(claims) == 1
    parts = [f"{len(claims)} claim{'' if one else 's'} of {source} {'was' if one else 'were'} checked here: {summary}."]
    for verdict in VERDICTS:
        chosen = [claim for claim in claims if claim.verdict == verdict]
        if chosen:
            listed = "; ".join(f"{_lower(claim.text)} ({claim.evidence}; {claim.test})" for claim in chosen)
            parts.append(f"{verdict.capitalize()}: {listed}.")
    return " ".join([*parts, "Each test has its own error rate of 5%."])


def _lower(text: str) -> str:
    text = text.removesuffix(".")
    return text if text[:2].isupper() else f"{text[:1].lower()}{text[1:]}"


#: The start of the sentence about the first claim.
_SAYS: Mapping[Verdict, str] = {"yes": "This holds here", "no": "This does not hold here", "undecided": "Undecided"}
#: What several claims do.
_DO: Mapping[Verdict, str] = {"yes": "hold", "no": "do not hold", "undecided": "are undecided"}


def claims_headline(claims: Sequence[Claim], source: str) -> str:
    """The first claim and its numbers, and how many claims hold, for the top of a report; empty without claims.

    Example:
        >>> claims_headline([Claim("Two is more than one.", "yes", "2 - 1 = 1", "none")], "a paper")
        'This holds here: “Two is more than one” (2 − 1 = 1).'
        >>> claims_headline([Claim("Two is less.", "no", "+1.00", ""), Claim("A", "yes", "", "")], "a paper")
        'This does not hold here: “Two is less” (+1.00). Claims of a paper: 1 of 2 hold, 1 of 2 do not hold.'
    """
    if not claims:
        return ""
    first = claims[0]
    sentence = f"{_SAYS[first.verdict]}: “{first.text.removesuffix('.')}” ({with_minus(first.evidence)})."
    if len(claims) == 1:
        return sentence
    counts = {verdict: sum(claim.verdict == verdict for claim in claims) for verdict in VERDICTS}
    if len(claims) in counts.values():
        return f"{sentence} All {len(claims)} claims of {source} {_DO[first.verdict]}."
    shown = ", ".join(f"{count} of {len(claims)} {_DO[verdict]}" for verdict, count in counts.items() if count)
    return f"{sentence} Claims of {source}: {shown}."


def claims_sections(claims: Sequence[Claim], source: str, note: str = "") -> tuple[Section, ...]:
    """The claims as a section of the report with the headline; none without claims.

    Args:
        claims: The claims.
        source: What makes them: a paper, or the study itself.
        note: A note below the table.
    """
    if not claims:
        return ()
    tests = list(dict.fromkeys(claim.test for claim in claims))
    columns: dict[str, list[str]] = {
        f"claim of {source}": [claim.text.removesuffix(".") for claim in claims],
        "holds here": [claim.verdict for claim in claims],
        "evidence": [
            with_minus(claim.evidence).replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}") for claim in claims
        ],
    }
    if len(tests) > 1:
        columns["test"] = [claim.test for claim in claims]
    if any(claim.paper for claim in claims):
        columns["paper"] = [with_minus(claim.paper) for claim in claims]
    one = "" if len(tests) > 1 else f"Test: {tests[0]}. "
    found = table_section(
        "Which claims hold here",
        tuple(columns),
        list(zip(*columns.values(), strict=True)),
        f"{one}Each test has its own error rate of 5%. {note}".strip(),
        texts=range(len(columns)),
    )
    return (dataclasses.replace(found, headline=claims_headline(claims, source)),)


def claims_table(claims: Sequence[Claim], source: str = "the paper") -> StudyTable:
    """The claims of a source as a table."""
    rows = tuple((each.text, each.verdict, each.evidence, each.test, each.paper) for each in claims)
    return StudyTable("claims", f"claims of {source}", ("claim", "holds here", "evidence", "test", "paper"), rows)


def mean_of(values: Array, places: Sequence[int], axis: int = -1) -> Array:
    """The mean over some places of an axis; NaN if there are none."""
    if not places:
        return np.full(np.delete(values.shape, axis), np.nan)
    return np.asarray(values.take(list(places), axis=axis).mean(axis))
