"""Random shares of heads: how much is lost when 10 to 90% of the heads are removed at random and the rest is tuned.

Figures 1 and 3 of Budhraja et al. (2021). Every share and every draw has its own random heads, drawn independently:
the paper draws heads at random for each share and reports the mean of three runs, and says nothing of nested sets. The
heads are cut out of the pre-trained encoder, which is then tuned. Drops are relative to the whole model, tuned in the
same way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwise.draws import Draws
from headwise.errors import FieldError
from headwise.heads import HeadMap
from headwise.masks import HeadMask
from headwise.studies.cells import Cell
from headwise.studies.claims import Claim, above, below, increasing
from headwise.studies.group_tables import Groups, drop_curves, drop_table, group_drop, prepare, value_table
from headwise.studies.groupings import WORD_ORDER
from headwise.studies.plots import CurvePlot
from headwise.studies.resampled import Array, Resampled, relative_drops, resample
from headwise.studies.tables import StudyTable, TableCell
from headwise.studies.tuned_plan import GroupedPlan, Key, TunedPlan, by_key, trained_of
from headwise.studies.tuned_study import CITATION, TunedStudy, load_tuned_study
from headwise.studies.work import GridKind, Work

NAME = "random-share"
#: Relative drops in percent that the text of the paper states for mBERT, by percent of heads removed: in-language (four
#: tasks of GLUE, figure 1e) and cross-language (XNLI, figure 3).
PAPER_DROPS = {25: ("", "about 2.5"), 50: ("2", "5"), 90: ("7.5", "10 to 15")}


@dataclass(frozen=True)
class RandomSharePlan(GroupedPlan):
    """The plan of a study of random shares.

    Attributes:
        shares: Shares of the heads to remove, in increasing order and below 1; the whole model is always measured.

    Example:
        >>> from headwise.scoring import ScoringPlan
        >>> RandomSharePlan(ScoringPlan("e5-small", "nli", "data"), shares=[0.5, 0.9]).percents
        (0, 50, 90)
    """

    shares: Sequence[float] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    draws: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        check_shares(self.shares)

    @property
    def percents(self) -> tuple[int, ...]:
        """The shares in percent, with 0 for the whole model."""
        return to_percents(self.shares)


def check_shares(shares: Sequence[float]) -> None:
    """Raise an error if shares are not an increasing list of whole percents between 0 and 1."""
    percents = to_percents(shares)
    whole = all(abs(100 * share - round(100 * share)) < 1e-6 for share in shares)
    if not shares or not whole or list(percents) != sorted(set(percents)) or percents[-1] >= 100:
        raise FieldError("shares", f"increasing numbers above 0 and below 1 such as [0.1, 0.5], not {list(shares)}")


def to_percents(shares: Sequence[float]) -> tuple[int, ...]:
    """Shares in percent, with 0 in front."""
    return (0, *(round(100 * share) for share in shares))


def random_mask(heads: HeadMap, percent: int, draw: int, seed: int) -> HeadMask | None:
    """A mask without a random share of the heads; None for the whole model.

    Every share and draw has its own heads, independent of those of others.
    """
    players = heads.players()
    count = round(percent / 100 * len(players))
    if not count:
        return None
    # A draw is identified by the draw and the share.
    generator = Draws(seed, stream=NAME).generator(100 * draw + percent)
    return HeadMask.without(heads, [players[place] for place in generator.permutation(len(players))[:count]])


def share_cells(
    plan: TunedPlan, work: Work, percents: Sequence[int], draws: Sequence[int], epoch: int | None = None
) -> dict[Key, Cell]:
    """The cells of shares and draws, by language, share (such as `50%`) and draw.

    Args:
        plan: The plan.
        work: The state of the study.
        percents: The shares to remove, in percent.
        draws: The draws.
        epoch: Measure the models after this epoch; None for the best epoch.
    """
    heads, seed = work.setting.heads, plan.scoring.seed
    return {
        (language, f"{percent}%", draw): Cell(
            language, plan.test_split, random_mask(heads, percent, draw, seed), plan.limit_test,
            tuning=plan.tuning(draw), epoch=epoch, series=f"{percent}%, draw {draw}",
        )
        for percent in percents
        for draw in draws
        for language in plan.languages(work)
    }  # fmt: skip


def _cells(plan: RandomSharePlan, work: Work) -> dict[Key, Cell]:
    return share_cells(plan, work, plan.percents, range(plan.draws))


def cells(plan: RandomSharePlan, work: Work, _groups: Groups) -> list[Cell]:
    """Every language, share and draw."""
    return list(_cells(plan, work).values())


def finish(plan: RandomSharePlan, work: Work, groups: Groups, measured: Mapping[Cell, Array]) -> TunedStudy:
    """Compare the measurements with the paper."""
    statistics, metric = by_key(_cells(plan, work), measured), work.grid.task.metric
    found = resample(statistics, plan.test_ids(work), metric, plan.resamples, plan.scoring.seed)
    title = f"relative drop of {metric.name} by share of heads removed"
    tables = [drop_table(f"{NAME}-{source}", title, found, groups, source) for source in groups.sources]
    text = f"Loss of {metric.name} relative to the whole model (%), with 95% intervals."
    return TunedStudy(
        work.folder,
        NAME,
        metric.name,
        (_beside(found, groups), *tables, value_table(f"{NAME}-languages", found, metric.name)),
        claims(plan, found, groups),
        (CurvePlot("Relative drop by group", text, drop_curves(found, plan.percents, groups)),),
        notes=groups.notes,
    )


def _beside(found: Resampled, groups: Groups) -> StudyTable:
    """Our drops in-language and cross-language beside those of the paper."""
    rows: list[tuple[TableCell, ...]] = []
    for condition in found.conditions:
        ours = [_drop(found, languages, condition) for languages in (groups.inside, groups.across)]
        rows.append((condition, *ours, *PAPER_DROPS.get(int(condition[:-1]), ("", ""))))
    columns = ("removed", "in-language", "cross-language", "paper: in-language", "paper: cross-language")
    note = (
        f"Relative drops in percent. {CITATION} In-language: four tasks of GLUE (figure 1e); cross-language: XNLI "
        "(figure 3). The paper gives figures; the numbers are those that its text states."
    )
    return StudyTable(NAME, "relative drop by share of heads removed, beside the paper", columns, tuple(rows), note)


def _drop(found: Resampled, languages: Sequence[str], condition: str) -> TableCell:
    if not languages:
        return None
    value, low, high = found.interval(lambda values: group_drop(values, found, languages, condition))
    return f"{value:.2f} ({low:.2f} to {high:.2f})"


def claims(plan: RandomSharePlan, found: Resampled, groups: Groups) -> tuple[Claim, ...]:
    """The claims of the paper about random shares, at the share closest to one half."""
    half = min(plan.percents[1:], key=lambda percent: (abs(percent - 50), percent))
    at, result = f"{half}%", []

    def gap(values: Array) -> Array:
        inside, across = (group_drop(values, found, each, at) for each in (groups.inside, groups.across))
        return across - inside

    if groups.inside and groups.across:
        text = f"Cross-language results suffer more than in-language results when {at} of the heads are removed."
        result.append(above(text, found, gap, paper="50%: 5% against 2%"))
    places = found.language_places(groups.across)
    drops = {found.languages[place]: float(relative_drops(found.mean)[place, found.place(at)]) for place in places}
    for grouping in groups.groupings:
        kind = "unlike the training language in word order" if grouping.kind == WORD_ORDER else "with fewer resources"
        result.append(
            increasing(
                f"At {at}, languages {kind} lose more (groups of the {grouping.source}).",
                drops,
                {language: grouping.distance(language) for language in drops},
                plan.resamples,
                paper="SVO and high-resource languages lose less (figure 3)",
            )
        )
    small = [f"{percent}%" for percent in plan.percents[1:] if percent <= 25]
    if small and groups.across:
        text = f"Without {small[-1]} of the heads, cross-language results drop by less than 2.5%."
        paper = "up to 25% of the heads: about 2.5%"
        result.append(
            below(text, found, lambda values: group_drop(values, found, groups.across, small[-1]), 2.5, paper)
        )
    return tuple(result)


def load(folder: Path) -> TunedStudy:
    """The finished study of a folder."""
    return load_tuned_study(folder, NAME)


RANDOM_SHARE = GridKind(NAME, RandomSharePlan, prepare, cells, finish, load, trained_of)
