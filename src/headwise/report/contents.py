"""The contents of a report: every part except the title is optional."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from markupsafe import Markup

from headwise.errors import HeadwiseError
from headwise.heads import PlayerKind
from headwise.scores import HeadScores

#: Differences with a smaller P-value are marked.
SIGNIFICANT = 0.05
#: Name of one player of each kind.
NOUNS: Mapping[PlayerKind, str] = {"heads": "head", "ffn": "feed-forward block", "layers": "layer"}


@dataclass(frozen=True)
class Gain:
    """The effect of removing heads on one language: the metric on test data, in percent.

    Attributes:
        language: The language.
        heads_removed: Number of heads removed.
        base: The metric with all heads.
        pruned: The metric without the removed heads.
        low: Lower end of the 95% interval of `pruned − base`.
        high: Upper end of the interval.
        p_value: P-value of the difference.
        random_mean: Mean of the metric when the same number of heads is removed at random.
        random_sd: Standard deviation over these random removals.
        michel: The metric when the same number of heads is removed by lowest gradient importance.
        zero_shot: The metric under the source language's mask.
        pooled: The metric under one mask for all languages.

    Example:
        >>> gain = Gain("zh", heads_removed=12, base=66.0, pruned=76.5, low=8.0, high=13.0, p_value=0.0002)
        >>> gain.difference, gain.mark
        (10.5, '+')
    """

    language: str
    heads_removed: int
    base: float
    pruned: float
    low: float
    high: float
    p_value: float
    random_mean: float | None = None
    random_sd: float | None = None
    michel: float | None = None
    zero_shot: float | None = None
    pooled: float | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.base) and math.isfinite(self.pruned)):
            raise HeadwiseError(f"{self.language}: a gain is between two numbers, not {self.base} and {self.pruned}")

    @property
    def difference(self) -> float:
        """The change of the metric, in percentage points."""
        return self.pruned - self.base

    @property
    def mark(self) -> str:
        """`+` if significantly better, `−` if significantly worse, otherwise empty."""
        if not self.p_value < SIGNIFICANT or not self.difference:
            return ""
        return "+" if self.difference > 0 else "−"


@dataclass(frozen=True)
class Curve:
    """The metric of one language as more and more heads of a ranking are removed.

    Attributes:
        language: The language.
        ranking: Name of the ranking.
        removed: Number of heads removed at each point, or what else the horizontal axis shows; increasing.
        value: The metric at each point, in percent.
        low: Lower edge of the band; empty for no band.
        high: Upper edge of the band.

    Example:
        >>> Curve("zh", "shapley", removed=(0, 12, 24), value=(66.0, 76.5, 71.0)).value[1]
        76.5
    """

    language: str
    ranking: str
    removed: tuple[int, ...]
    value: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        sizes = [len(self.removed), len(self.value), len(self.low), len(self.high)]
        if sizes[1] != sizes[0] or sizes[2:] not in ([0, 0], sizes[:2]):
            raise HeadwiseError(
                f"{self.language}, {self.ranking}: a curve needs one value per point, and two edges per point or none, "
                f"found {sizes[0]} points, {sizes[1]} values, {sizes[2]} and {sizes[3]} edges"
            )


@dataclass(frozen=True)
class ScoringCost:
    """The cost of scoring one language.

    Attributes:
        language: The language.
        units: Passes of one example through the whole model.
        seconds: Elapsed time, if known.
    """

    language: str
    units: float
    seconds: float | None = None


@dataclass(frozen=True)
class Section:
    """One section of the page.

    Attributes:
        title: The title.
        body: The markup.
        headline: A sentence for the top of the page.
    """

    title: str
    body: Markup
    headline: str = ""


@dataclass(frozen=True)
class Report:
    """The contents of the page.

    Attributes:
        title: The title.
        model: Name of the model.
        task: Name of the task.
        data: Name of the data.
        note: A note at the top of the page.
        sections: The sections of a study, which come first.
        scores: Scores of the heads, by language.
        cost: The cost of scoring, by language.
        provenance: Further provenance of the results, by name.
        commands: Shell commands that repeat the run.

    Example:
        >>> Report("Chinese heads", commands=("headwise demo",)).sections
        ()
    """

    title: str
    model: str = ""
    task: str = ""
    data: str = ""
    note: str = ""
    sections: tuple[Section, ...] = ()
    scores: Mapping[str, HeadScores] = field(default_factory=dict)
    cost: tuple[ScoringCost, ...] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)
    commands: tuple[str, ...] = ()

    @property
    def noun(self) -> str:
        """The name of one player."""
        return noun_of(self.scores)


def noun_of(scores: Mapping[str, HeadScores]) -> str:
    """The name of one player of the scores; `head` if their kinds differ."""
    kinds = {each.kind for each in scores.values()}
    return NOUNS[kinds.pop()] if len(kinds) == 1 else NOUNS["heads"]
