"""Emptied layers: all heads of the top, middle, bottom, odd or even layers are removed, and the rest is tuned.

Figure 2 and table 1 of Budhraja et al. (2021). An emptied layer keeps its feed-forward block and its residual
connection. The patterns are those of the method `layers`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headwise.engine import players_of
from headwise.engine.players import depths_of
from headwise.errors import FieldError, require_whole
from headwise.heads import HeadMap
from headwise.masks import HeadMask
from headwise.methods.layers import Pattern, layer_ranks
from headwise.studies.cells import Cell
from headwise.studies.claims import Claim, above, increasing, mean_of
from headwise.studies.group_tables import CROSS_LANGUAGE, IN_LANGUAGE, Groups, drop_table, prepare, value_table
from headwise.studies.groupings import WORD_ORDER
from headwise.studies.resampled import Array, Resampled, relative_drops, resample
from headwise.studies.tables import StudyTable, TableCell
from headwise.studies.tuned_plan import GroupedPlan, Key, by_key, trained_of
from headwise.studies.tuned_study import CITATION, TunedStudy, load_tuned_study
from headwise.studies.work import GridKind, Work

NAME = "layers"
#: The whole model.
NONE = "none"
_RUNS: tuple[Pattern, ...] = ("top", "bottom", "middle")
_ALTERNATING: tuple[Pattern, ...] = ("odd", "even")
#: Table 1 of the paper: accuracy of mBERT without the heads of six of its twelve layers.
PAPER_TASKS = ("MNLI-M", "QQP", "QNLI", "SST-2")
PAPER_TABLE: Mapping[str, tuple[float, ...]] = {
    "top 6": (78.45, 90.53, 87.46, 89.33),
    "bottom 6": (78.71, 89.77, 87.22, 87.84),
    "middle 6": (76.72, 89.07, 85.28, 87.5),
    "odd 6": (78.94, 90.24, 88.72, 88.64),
    "even 6": (79.82, 90.17, 89.09, 90.02),
}


@dataclass(frozen=True)
class LayersPlan(GroupedPlan):
    """The plan of a study of emptied layers.

    Attributes:
        counts: Numbers of top, middle and bottom layers to empty, in increasing order. Odd and even layers are always
            one half of all layers; they are compared with runs of as many layers, so one half is a good last number.

    Example:
        >>> from headwise.scoring import ScoringPlan
        >>> LayersPlan(ScoringPlan("e5-small", "nli", "data")).conditions(12)
        ('none', 'top 2', 'bottom 2', 'middle 2', 'top 4', 'bottom 4', 'middle 4', 'top 6', 'bottom 6', 'middle 6', \
'odd 6', 'even 6')
    """

    counts: Sequence[int] = (2, 4, 6)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.counts or list(self.counts) != sorted(set(self.counts)):
            raise FieldError("counts", f"increasing numbers of layers such as [2, 4, 6], not {list(self.counts)}")
        for count in self.counts:
            require_whole("counts", count)

    def conditions(self, layers: int) -> tuple[str, ...]:
        """The whole model and every pattern with its number of layers.

        Raises:
            HeadwiseError: The model has too few layers.
        """
        if self.counts[-1] > layers:
            raise FieldError("counts", f"the model has {layers} layers, so at most {layers} can be emptied")
        runs = [f"{pattern} {count}" for count in self.counts for pattern in _RUNS]
        return (NONE, *runs, f"odd {(layers + 1) // 2}", f"even {layers // 2}")


def layer_mask(heads: HeadMap, condition: str) -> HeadMask | None:
    """The mask of a condition such as `top 6`; None for `none`.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> from headwise import find_heads
        >>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=3, num_attention_heads=2,
        ...                     intermediate_size=8)
        >>> layer_mask(find_heads(BertModel(config)), "even 1").off
        ('encoder.1.0', 'encoder.1.1')
    """
    if condition == NONE:
        return None
    pattern, count = condition.split()
    places = layer_ranks(heads, pattern)[depths_of(heads, players_of(heads))]  # type: ignore[arg-type]
    return HeadMask.without(heads, np.array(heads.players())[places < int(count)].tolist())


def _cells(plan: LayersPlan, work: Work) -> dict[Key, Cell]:
    heads = work.setting.heads
    return {
        (language, condition, draw): Cell(
            language, plan.test_split, layer_mask(heads, condition), plan.limit_test,
            tuning=plan.tuning(draw), series=f"{condition}, draw {draw}",
        )
        for condition in plan.conditions(len(heads.layers))
        for draw in range(plan.draws)
        for language in plan.languages(work)
    }  # fmt: skip


def cells(plan: LayersPlan, work: Work, _groups: Groups) -> list[Cell]:
    """Every language, pattern and draw."""
    return list(_cells(plan, work).values())


def finish(plan: LayersPlan, work: Work, groups: Groups, measured: Mapping[Cell, Array]) -> TunedStudy:
    """Compare the measurements with the paper."""
    statistics, metric = by_key(_cells(plan, work), measured), work.grid.task.metric
    found = resample(statistics, plan.test_ids(work), metric, plan.resamples, plan.scoring.seed)
    title = f"relative drop of {metric.name} without the heads of some layers"
    drops = [drop_table(f"{NAME}-{source}", title, found, groups, source) for source in groups.sources]
    return TunedStudy(
        work.folder,
        NAME,
        metric.name,
        (_beside(found, groups, metric.name), *drops, value_table(f"{NAME}-languages", found, metric.name)),
        claims(plan, found, groups),
        notes=groups.notes,
    )


def _beside(found: Resampled, groups: Groups, metric: str) -> StudyTable:
    """Table 1 of the paper: half of the layers emptied, our metric beside the paper's accuracies."""
    half = _halves(found)
    rows: list[tuple[TableCell, ...]] = []
    for condition in (NONE, *half):
        ours = [_mean(found, languages, condition) for languages in (groups.inside, groups.across)]
        rows.append((condition, *ours, *PAPER_TABLE.get(condition, (None,) * len(PAPER_TASKS))))
    columns = ("layers emptied", IN_LANGUAGE, CROSS_LANGUAGE, *(f"paper: {task}" for task in PAPER_TASKS))
    note = (
        f"{metric} in percent. {CITATION} Table 1 of the paper is in-language, on four tasks of GLUE; figure 2 shows "
        "the drops by group of languages without numbers."
    )
    return StudyTable(NAME, f"{metric} without the heads of half of the layers, beside the paper", columns,
                      tuple(rows), note)  # fmt: skip


def _halves(found: Resampled) -> list[str]:
    """The largest runs of layers, and the odd and even layers."""
    last = [name for name in found.conditions if name.split()[0] in (*_RUNS, *_ALTERNATING)]
    return last[-len(_RUNS) - len(_ALTERNATING) :]


def _mean(found: Resampled, languages: Sequence[str], condition: str) -> TableCell:
    if not languages:
        return None
    return float(mean_of(found.mean[:, found.place(condition)], found.language_places(languages)))


def claims(plan: LayersPlan, found: Resampled, groups: Groups) -> tuple[Claim, ...]:
    """The claims of the paper about layers."""
    top, bottom, middle, odd, even = _halves(found)
    every, result = groups.languages, []

    def drop(condition: str, languages: Sequence[str]) -> Callable[[Array], Array]:
        places, column = found.language_places(languages), found.place(condition)
        return lambda values: mean_of(relative_drops(values)[..., column], places)

    def less(first: str, others: Sequence[str], languages: Sequence[str]) -> Callable[[Array], Array]:
        """How much more other conditions lose than the first, on average."""
        return lambda values: np.asarray(
            sum(drop(other, languages)(values) for other in others) / len(others) - drop(first, languages)(values)
        )

    runs, paper = (top, bottom, middle), "pruning even layers works better than odd or consecutive layers"
    text = f"Emptying the layers {even} costs less than emptying consecutive layers ({', '.join(runs)})."
    result.append(above(text, found, less(even, runs, every), paper=paper))
    text = f"Emptying the layers {even} costs less than emptying {odd}."
    result.append(above(text, found, less(even, [odd], every), paper="retaining the first layer is beneficial"))
    if groups.across:
        text = f"Cross-language, {bottom} layers matter more than {top}."
        result.append(
            above(text, found, less(top, [bottom], groups.across), paper="for all languages (figure 2 e to k)")
        )
    if groups.inside:
        text = f"In-language, {middle} layers matter more than {top} and {bottom}."
        contrast = less(middle, (top, bottom), groups.inside)
        result.append(above(text, found, lambda values: -contrast(values), paper="table 1, figure 2 a to d"))
    return (*result, *_by_distance(plan, found, groups, top, bottom))


def _by_distance(plan: LayersPlan, found: Resampled, groups: Groups, top: str, bottom: str) -> list[Claim]:
    """The claims about the order of groups, for languages that models are not tuned on."""
    drops, names = relative_drops(found.mean), found.languages
    extra = {
        names[place]: float(drops[place, found.place(bottom)] - drops[place, found.place(top)])
        for place in found.language_places(groups.across)
    }
    result = []
    for grouping in groups.groupings:
        kind, paper = "with fewer resources", "high < medium < low"
        if grouping.kind == WORD_ORDER:
            kind, paper = "unlike the training language in word order", "SVO < SOV < VSO < Agglutinative"
        which = f"for languages {kind} (groups of the {grouping.source})"
        text = f"Bottom layers, compared with top layers, matter more {which}."
        distances = {language: grouping.distance(language) for language in extra}
        result.append(increasing(text, extra, distances, plan.resamples, paper=paper))
    return result


def load(folder: Path) -> TunedStudy:
    """The finished study of a folder."""
    return load_tuned_study(folder, NAME)


LAYERS = GridKind(NAME, LayersPlan, prepare, cells, finish, load, trained_of)
