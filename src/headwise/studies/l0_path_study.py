"""The results of a study of L0 paths: tables, curves, and the claims of Voita et al. (2019)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

import numpy as np

from headwise.report import SIGNIFICANT, Curve
from headwise.scoring.l0_path import L0Point
from headwise.studies.claims import Claim, Contrast, Verdict, above, increasing
from headwise.studies.papers import VOITA_PAPER, voita_rows
from headwise.studies.plots import CurvePlot
from headwise.studies.resampled import Resampled, resample
from headwise.studies.tables import Figure, StudyTable, TableCell
from headwise.studies.tuned_study import TunedStudy
from headwise.tasks.evaluation import Evaluation
from headwise.tasks.metrics import CorpusMetric, Metric

NAME = "l0-path"
SHORT = "Voita et al. (2019)"
#: The model with all heads.
WHOLE = "whole"
#: Kinds of attention, in the order of the paper's table 2.
TYPES = ("encoder", "decoder", "cross")


class PathSettings(Protocol):
    """The fields of a plan that the results depend on."""

    @property
    def tolerance(self) -> float:
        """Largest loss of the metric that counts as none."""

    @property
    def resamples(self) -> int:
        """Number of bootstrap resamples."""


@dataclass(frozen=True)
class Measured:
    """What was measured.

    Attributes:
        language: The language, or pair of languages.
        whole: The metrics of the model before training.
        paths: The points of each path, by its gates.
        scratch: The metrics of the controls from scratch, by `condition_of`; `WHOLE` for all heads.
    """

    language: str
    whole: tuple[Evaluation, ...]
    paths: Mapping[str, tuple[L0Point, ...]]
    scratch: Mapping[str, tuple[Evaluation, ...]]


def condition_of(sites: str, lam: float) -> str:
    """The name of a point of a path.

    Example:
        >>> condition_of("encoder", 0.05)
        'encoder 0.05'
    """
    return f"{sites} {lam:g}"


def scratch_of(condition: str) -> str:
    """The name of the control from scratch of a condition."""
    return f"{condition}, from scratch"


def study_of(
    plan: PathSettings, folder: Path, measured: Measured, ids: Sequence[str], metrics: Sequence[CorpusMetric]
) -> TunedStudy:
    """The study of what was measured.

    Args:
        plan: The plan.
        folder: The run folder.
        measured: What was measured.
        ids: The ids of the test examples.
        metrics: The metrics, the main one first.
    """
    found = resampled(measured, ids, cast(Metric, metrics[0]), plan.resamples)
    metric = metrics[0].name
    tables = [path_table(measured, found, [each.name for each in metrics]), layer_table(measured)]
    if measured.scratch:
        tables.append(scratch_table(measured, found, metric))
    start = f"{metric[:1].upper()}{metric[1:]}"
    text = f"{start} on test data by the number of gated heads that are removed, with 95% intervals."
    curves = tuple(_curve(sites, points) for sites, points in measured.paths.items())
    return TunedStudy(
        folder, NAME, metric, tuple(tables), claims(plan, measured, found, metric),
        (CurvePlot("L0 paths", text, curves, "heads removed"),), paper=SHORT,
    )  # fmt: skip


def resampled(measured: Measured, ids: Sequence[str], metric: Metric, resamples: int) -> Resampled:
    """The main metric of all conditions in every resample of the test examples."""
    statistics = {WHOLE: measured.whole[0].statistics}
    for sites, points in measured.paths.items():
        statistics |= {condition_of(sites, point.lam): point.evaluation.statistics for point in points}
    statistics |= {scratch_of(name): each[0].statistics for name, each in measured.scratch.items()}
    keyed = {(measured.language, name, 0): each for name, each in statistics.items()}
    return resample(keyed, {measured.language: ids}, metric, resamples)


def difference(found: Resampled, one: str, other: str) -> Contrast:
    """The metric of one condition minus that of another."""
    places = found.place(one), found.place(other)
    return lambda values: np.asarray(values[..., 0, places[0]] - values[..., 0, places[1]])


def kept_text(point: L0Point) -> str:
    """Heads kept by type, as in the paper: encoder / decoder / decoder to encoder."""
    by_type = point.kept_by_type
    return "/".join(str(by_type[kind]) for kind in TYPES if kind in by_type)


def path_table(measured: Measured, found: Resampled, metrics: Sequence[str]) -> StudyTable:
    """All points of all paths, each compared with the first one of its path."""
    first = next(iter(measured.paths.values()))[0]
    whole = [each.value for each in measured.whole]
    everything = "/".join(str(count) for count in _all_by_type(first).values())
    rows: list[tuple[TableCell, ...]] = [("none", None, len(first.mask.on), everything, *whole)]
    for sites, points in measured.paths.items():
        base = condition_of(sites, points[0].lam)
        for point in points:
            value, *others = (each.value for each in point.evaluations)
            test = found.compare(difference(found, condition_of(sites, point.lam), base))
            main = Figure(value, test.difference, test.p_value)
            rows.append((sites, f"{point.lam:g}", point.mask.count, kept_text(point), main, *others))
    kinds = "/".join(kind for kind in TYPES if kind in _all_by_type(first))
    note = (
        f"Every mask is compared with the first penalty of its path (+ better, - worse, P < {SIGNIFICANT:g}, paired "
        "bootstrap over examples). none: the model before training."
    )
    return StudyTable(
        NAME,
        f"heads kept and {metrics[0]} by penalty",
        ("gates", "penalty", "heads", kinds, *metrics),
        tuple(rows),
        note,
    )


def _all_by_type(point: L0Point) -> dict[str, int]:
    """Number of all heads by type."""
    found = dict.fromkeys(point.kept_by_type, 0)
    for name in point.mask.players:
        found[name.partition(".")[0]] += 1
    return found


def layer_table(measured: Measured) -> StudyTable:
    """Heads kept in every site, for every point."""
    sites = list(next(iter(measured.paths.values()))[0].kept)
    rows: tuple[tuple[TableCell, ...], ...] = tuple(
        (gates, f"{point.lam:g}", *(point.kept[site] for site in sites))
        for gates, points in measured.paths.items()
        for point in points
    )
    title = "heads kept in every layer (figure 10 of the paper)"
    return StudyTable(f"{NAME}-layers", title, ("gates", "penalty", *sites), rows, shaded=True)


def scratch_table(measured: Measured, found: Resampled, metric: str) -> StudyTable:
    """Pruned models and the same heads from scratch, above the rows of the paper."""
    rows: list[tuple[TableCell, ...]] = []
    points = {condition_of(sites, point.lam): point for sites, each in measured.paths.items() for point in each}
    for name, control in measured.scratch.items():
        heads = "all" if name == WHOLE else kept_text(points[name])
        trained = measured.whole[0].value if name == WHOLE else points[name].evaluation.value
        test = found.compare(difference(found, scratch_of(name), scratch_of(WHOLE)))
        rows.append((name, heads, trained, Figure(control[0].value, test.difference, test.p_value)))
    rows += [(f"paper, {row.data}", "/".join(map(str, row.heads)), row.trained, row.scratch) for row in voita_rows()]
    note = (
        "from scratch: new weights with the same heads, trained on the data of this study alone, and compared with "
        f"all heads from scratch. Paper: {VOITA_PAPER}, table 2, BLEU for English to Russian; it trains both on the "
        "same data. Pre-trained models have seen more data than models from scratch, so the two columns must not be "
        "compared with each other."
    )
    title = f"{metric} of pruned models and of the same heads trained from scratch"
    return StudyTable(f"{NAME}-scratch", title, ("model", "heads", "from trained", "from scratch"), tuple(rows), note)


def _curve(sites: str, points: Sequence[L0Point]) -> Curve:
    """The metric of one path; points without a change of the number of heads are left out."""
    chosen = {len(point.mask.off): point.evaluation for point in reversed(points)}  # the smallest penalty of each
    removed = sorted(chosen)
    values = [chosen[count] for count in removed]
    return Curve(
        f"{sites} gates", "l0", tuple(removed), tuple(each.value for each in values),
        tuple(each.low for each in values), tuple(each.high for each in values),
    )  # fmt: skip


def closest(points: Sequence[L0Point], share: float, kinds: Sequence[str] = TYPES) -> L0Point:
    """The point whose share of kept heads of some types is closest to a share; the smaller penalty of equal ones."""

    def distance(point: L0Point) -> float:
        every = _all_by_type(point)
        kept = sum(point.kept_by_type.get(kind, 0) for kind in kinds)
        return abs(kept / sum(every.get(kind, 0) for kind in kinds) - share)

    return min(points, key=distance)


def claims(plan: PathSettings, measured: Measured, found: Resampled, metric: str) -> tuple[Claim, ...]:
    """The claims of the paper that the paths can decide."""
    result = []
    if "encoder" in measured.paths:
        result.append(_few_encoder_heads(plan, measured.paths["encoder"], found, metric))
    if "all" in measured.paths:
        point = closest(measured.paths["all"], 0.5)
        if len(point.kept_by_type) == len(TYPES):
            result += [_type_claim(point, "encoder", fewer=True), _type_claim(point, "cross", fewer=False)]
            result.append(_layer_claim(point, plan.resamples))
    names = [name for name in measured.scratch if name != WHOLE]
    if names:
        result.append(_scratch_claim(measured, found, names[-1], metric))
    return tuple(result)


def _few_encoder_heads(plan: PathSettings, points: Sequence[L0Point], found: Resampled, metric: str) -> Claim:
    point = closest(points, 0.25, ("encoder",))
    every = _all_by_type(point)["encoder"]
    text = f"Without {every - point.kept_by_type['encoder']} of {every} encoder heads, {metric} drops by at most " + (
        f"{plan.tolerance:g}."
    )
    contrast = difference(found, condition_of("encoder", point.lam), condition_of("encoder", points[0].lam))
    return above(text, found, contrast, -plan.tolerance, "38 of 48 encoder heads: a drop of 0.15 BLEU (WMT)")


def _type_claim(point: L0Point, kind: str, fewer: bool) -> Claim:
    """Whether a type of attention keeps a smaller or a larger share of its heads than the other types."""
    from scipy.stats import fisher_exact  # type: ignore[import-untyped]  # here: it takes about a second to import

    kept, every = point.kept_by_type, _all_by_type(point)
    here = kept[kind], every[kind] - kept[kind]
    others = sum(kept.values()) - here[0], sum(every.values()) - sum(kept.values()) - here[1]
    ratio, p_value = fisher_exact([here, others])
    verdict: Verdict = "undecided" if p_value >= SIGNIFICANT else "yes" if (ratio < 1) == fewer else "no"
    words = {"encoder": "encoder self-attention", "cross": "attention from the decoder to the encoder"}[kind]
    text = f"At penalty {point.lam:g}, {words} keeps a {'smaller' if fewer else 'larger'} share of its heads."
    evidence = f"{here[0]} of {every[kind]} heads kept, others {others[0]} of {sum(others)}, P = {p_value:.3f}"
    paper = "encoder heads go first" if fewer else "decoder-encoder heads are the most important"
    return Claim(text, verdict, evidence, "Fisher's exact test over heads", f"{paper} (figure 9)")


def _layer_claim(point: L0Point, resamples: int) -> Claim:
    """Whether higher decoder layers keep more cross-attention and less self-attention."""
    kept = point.kept
    layers = sorted(int(site.partition(".")[2]) for site in kept if site.startswith("cross."))
    values = {str(layer): float(kept[f"cross.{layer}"] - kept.get(f"decoder.{layer}", 0)) for layer in layers}
    text = (
        f"At penalty {point.lam:g}, higher decoder layers keep more heads from the decoder to the encoder, compared "
        "with self-attention."
    )
    paper = "self-attention is kept in lower layers, decoder-encoder attention in higher ones (figure 10)"
    return increasing(text, values, {str(layer): layer for layer in layers}, resamples, "layers", paper)


def _scratch_claim(measured: Measured, found: Resampled, name: str, metric: str) -> Claim:
    """Whether heads lose more when they are trained from scratch than when the others are pruned."""
    sites = name.partition(" ")[0]
    first = condition_of(sites, measured.paths[sites][0].lam)
    pruned = difference(found, first, name)
    scratch = difference(found, scratch_of(WHOLE), scratch_of(name))
    text = (
        f"With the heads that are left of '{name}', {metric} loses more from scratch than by pruning a trained model."
    )
    paper = "from scratch 0.15 to 0.50 BLEU below pruned models with the same heads (table 2, WMT)"
    return above(text, found, lambda values: scratch(values) - pruned(values), paper=paper)
