"""The contents of a report: every part except the title is optional."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from markupsafe import Markup

from headwise.errors import HeadwiseError
from headwise.heads import PlayerKind
from headwise.roles.table import HeadRoles
from headwise.scores import HeadScores

if TYPE_CHECKING:  # imports torch
    from headwise.attention.view import AttentionView

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
        off: Names of the removed heads; empty if they are not known.
        parameters: Number of parameters of the model before and after pruning, if known.
        flops: Floating-point operations per example before and after pruning, counted, if known.

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
    off: tuple[str, ...] = ()
    parameters: tuple[int, int] | None = None
    flops: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.base) and math.isfinite(self.pruned)):
            raise HeadwiseError(f"{self.language}: a gain is between two numbers, not {self.base} and {self.pruned}")

    @property
    def difference(self) -> float:
        """The change of the metric, in percentage points."""
        return self.pruned - self.base

    @property
    def random_difference(self) -> float | None:
        """The mean change of the metric when the same number of heads is removed at random."""
        return None if self.random_mean is None else self.random_mean - self.base

    @property
    def mark(self) -> str:
        """`+` if significantly better, `−` if significantly worse, otherwise empty."""
        if not self.p_value < SIGNIFICANT or not self.difference:
            return ""
        return "+" if self.difference > 0 else "−"


@dataclass(frozen=True)
class MaskGains:
    """The gains of all languages by one kind of mask.

    Attributes:
        name: Name of the kind, such as `refined`.
        about: How its heads are chosen, as a clause.
        gains: The gains; a language that has no mask of this kind is left out.
        main: Whether the kind is shown from the start; other kinds can be switched on.
        command: The command that prunes a model in this way, with `{language}` for the language.
    """

    name: str
    about: str
    gains: tuple[Gain, ...]
    main: bool = True
    command: str = ""


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
class LanguageCost:
    """The cost of the results of one language, in units: passes of one example through the whole model.

    Attributes:
        language: The language.
        units: Units of each step, such as `scoring`, `refining` and `testing`.
        seconds: Elapsed time of scoring, if known.
    """

    language: str
    units: Mapping[str, float]
    seconds: float | None = None


@dataclass(frozen=True)
class Section:
    """One section of the page.

    Attributes:
        title: The title.
        body: The markup.
        headline: A sentence for the top of the page.
        masks: The players that masks remove, by name of the mask and language; the atlas shows them.
    """

    title: str
    body: Markup
    headline: str = ""
    masks: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)


@dataclass(frozen=True)
class ComparedRun:
    """Another run on the same heads, which the page compares with the main one.

    Attributes:
        name: Its name, such as that of its folder; different for each run.
        scores: Its scores, by language.
    """

    name: str
    scores: Mapping[str, HeadScores]


@dataclass(frozen=True)
class Report:
    """The contents of the page.

    Attributes:
        title: The title.
        model: Name of the model.
        task: Name of the task.
        data: Name of the data.
        facts: Short facts below the title; by default the model, the task and the data.
        note: A note at the top of the page.
        about: What was done, in one or two sentences.
        sections: The sections of a study, which come first.
        scores: Scores of the heads, by language.
        name: Name of the run that the scores come from, where it is compared with other runs.
        compared: Other runs on the same heads.
        attention: Attention of some heads on sentences whose labels are the codes of their languages.
        roles: Roles of the heads, if they were measured.
        cost: The cost, by language.
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
    facts: tuple[str, ...] = ()
    note: str = ""
    about: str = ""
    sections: tuple[Section, ...] = ()
    scores: Mapping[str, HeadScores] = field(default_factory=dict)
    name: str = "this run"
    compared: tuple[ComparedRun, ...] = ()
    attention: "AttentionView | None" = None
    roles: HeadRoles | None = None
    cost: tuple[LanguageCost, ...] = ()
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
