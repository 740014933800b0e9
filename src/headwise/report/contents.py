"""What a report shows: every part but the title may be missing, and is then left out."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from markupsafe import Markup

from headwise.errors import HeadwiseError
from headwise.heads import PlayerKind
from headwise.scores import HeadScores

#: A difference with a P value below this one is marked.
SIGNIFICANT = 0.05
#: What one player of each kind is called.
NOUNS: Mapping[PlayerKind, str] = {"heads": "head", "ffn": "feed-forward block", "layers": "layer"}


@dataclass(frozen=True)
class Gain:
    """What removing heads did to one language, measured on test data, in percent of the report's metric.

    Attributes:
        language: The language.
        heads_removed: How many heads were removed.
        base: The metric with all heads.
        pruned: The metric without the removed ones.
        low: Lower end of the 95% interval of `pruned − base`.
        high: Its upper end.
        p_value: P value of the difference.
        random_mean: Mean of the metric over random removals of as many heads.
        random_sd: Their standard deviation.
        michel: The metric without as many heads of the lowest gradient importance.
        zero_shot: The metric under the source language's mask.
        pooled: The metric under one mask that all languages share.

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
        """What the removal added, in percentage points."""
        return self.pruned - self.base

    @property
    def mark(self) -> str:
        """`+` if the language got significantly better, `−` if worse, else nothing."""
        if not self.p_value < SIGNIFICANT or not self.difference:
            return ""
        return "+" if self.difference > 0 else "−"


@dataclass(frozen=True)
class Curve:
    """The metric of one language while one ranking's heads are removed one after the other.

    Attributes:
        language: The language.
        ranking: Name of the ranking.
        removed: How many heads are removed at each point, rising.
        value: The metric there, in percent.
        low: Lower edge of a band around it; empty for none.
        high: Its upper edge.

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
                f"{self.language}, {self.ranking}: a curve needs one value per point, and a band two or none, "
                f"found {sizes[0]} points, {sizes[1]} values, {sizes[2]} and {sizes[3]} edges"
            )


@dataclass(frozen=True)
class ScoringCost:
    """What scoring one language cost.

    Attributes:
        language: The language.
        units: Passes of one example through the whole model.
        seconds: Time on the clock, where it is known.
    """

    language: str
    units: float
    seconds: float | None = None


@dataclass(frozen=True)
class Section:
    """One section of the page, such as a study adds.

    Attributes:
        title: Its title.
        body: Its markup.
        headline: A sentence for the top of the page.
    """

    title: str
    body: Markup
    headline: str = ""


@dataclass(frozen=True)
class Report:
    """Everything on the page.

    Attributes:
        title: Its title.
        model: Name of the model.
        task: Name of the task.
        data: The data it was judged on.
        note: A note at the top of the page.
        sections: What a study found; the sections come first.
        scores: Scores of the heads, by language.
        cost: What scoring cost, by language.
        provenance: More about where the figures come from, by name.
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
        """What one of its players is called."""
        return noun_of(self.scores)


def noun_of(scores: Mapping[str, HeadScores]) -> str:
    """What one of the players of all scores is called; a head if they differ."""
    kinds = {each.kind for each in scores.values()}
    return NOUNS[kinds.pop()] if len(kinds) == 1 else NOUNS["heads"]
