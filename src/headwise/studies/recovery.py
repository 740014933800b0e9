"""Recovery: how much of the final result one epoch of tuning brings back after pruning, and what it changes.

Section 3, figures 4 and 5 of Budhraja et al. (2021). The metric after one epoch is that of a run of all epochs after
its first one, with the same learning rates. The entropy of attention and the embeddings of sentences are compared
before tuning and after one epoch, as in the paper.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headwise.engine import ExampleSet
from headwise.errors import FieldError, require_whole
from headwise.files import hash_json
from headwise.report import Cloud
from headwise.stats import bootstrap_values
from headwise.studies.cells import Cell
from headwise.studies.claims import Claim, above, increasing, mean_of
from headwise.studies.group_tables import Groups, prepare
from headwise.studies.plots import CloudPlot
from headwise.studies.probes import (
    THIRDS,
    entropy_changes,
    head_entropies,
    language_purity,
    require_tsne,
    sentence_embeddings,
    third_of,
    tsne_points,
)
from headwise.studies.random_share import check_shares, random_mask, share_cells, to_percents
from headwise.studies.resampled import Array, Resampled, resample
from headwise.studies.tables import StudyTable, TableCell
from headwise.studies.tuned import TunedModels
from headwise.studies.tuned_plan import GroupedPlan, Key, by_key, trained_of
from headwise.studies.tuned_study import CITATION, TunedStudy, load_tuned_study
from headwise.studies.work import GridKind, Work

NAME = "recovery"
#: Percent of the final accuracy after one epoch, on average over all experiments and languages.
PAPER_RECOVERED = 93.0
#: Change of entropy by third of the model (figure 4), with 90% of the heads removed.
PAPER_ENTROPY = {"bottom": 0.047, "middle": 0.042, "top": 0.176}
BEFORE, AFTER = "before tuning", "after one epoch"


@dataclass(frozen=True)
class RecoveryPlan(GroupedPlan):
    """The plan of a study of recovery.

    Attributes:
        shares: Shares of the heads to remove, in increasing order and below 1; the whole model is always measured.
        entropy_share: Share of the heads removed where entropies are compared.
        entropy_examples: The number of dev examples of the training languages for entropies, the first ones.
        tsne_share: Share of the heads removed where sentence embeddings are compared.
        tsne_sentences: The number of test examples of each language for sentence embeddings, the first ones; 0 to leave
            them out. They need scikit-learn.
    """

    shares: Sequence[float] = (0.1, 0.3, 0.5, 0.7, 0.9)
    entropy_share: float = 0.9
    entropy_examples: int = 500
    tsne_share: float = 0.5
    tsne_sentences: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        check_shares(self.shares)
        for name in ("entropy_share", "tsne_share"):
            if not 0 <= getattr(self, name) < 1:
                raise FieldError(name, f"a number of at least 0 and below 1, not {getattr(self, name)}")
        require_whole("entropy_examples", self.entropy_examples)
        require_whole("tsne_sentences", self.tsne_sentences, 0)
        if self.epochs < 2:
            raise FieldError("epochs", "the result after one epoch is compared with later ones: at least 2")


@dataclass(frozen=True)
class Embedded:
    """Sentences in the plane, before and after tuning.

    Attributes:
        languages: The language of each sentence.
        points: Their t-SNE at each stage, (sentences, 2).
        purity: The share of the nearest neighbours of each sentence that have its language, at each stage.
    """

    languages: tuple[str, ...]
    points: Mapping[str, Array]
    purity: Mapping[str, Array]


def prepare_recovery(plan: RecoveryPlan, work: Work) -> Groups:
    """The groups of languages; fails before tuning if scikit-learn is missing."""
    if plan.tsne_sentences:
        require_tsne()
    return prepare(plan, work)


def _cells(plan: RecoveryPlan, work: Work, epoch: int | None) -> dict[Key, Cell]:
    return share_cells(plan, work, to_percents(plan.shares), range(plan.draws), epoch)


def cells(plan: RecoveryPlan, work: Work, _groups: Groups) -> list[Cell]:
    """Every language, share and draw, after one epoch and at the end."""
    return [cell for epoch in (1, None) for cell in _cells(plan, work, epoch).values()]


def finish(plan: RecoveryPlan, work: Work, groups: Groups, measured: Mapping[Cell, Array]) -> TunedStudy:
    """Compare the measurements with the paper."""
    metric = work.grid.task.metric
    early, final = (by_key(_cells(plan, work, epoch), measured) for epoch in (1, None))
    conditions = {(language, f"{name} after 1", draw): each for (language, name, draw), each in early.items()}
    found = resample({**final, **conditions}, plan.test_ids(work), metric, plan.resamples, plan.scoring.seed)
    before, after = probe_entropies(plan, work)
    embedded = embed(plan, work) if plan.tsne_sentences else None
    tables = [_recovered(found, groups, metric.name), _entropy_table(before, after, len(work.setting.heads.layers))]
    clouds: tuple[CloudPlot, ...] = ()
    if embedded is not None:
        tables.append(_purity_table(embedded))
        clouds = (_clouds(plan, embedded),)
    return TunedStudy(
        work.folder,
        NAME,
        metric.name,
        tuple(tables),
        (*_claims(plan, found, before, after, len(work.setting.heads.layers)), *_purity_claims(plan, groups, embedded)),
        clouds=clouds,
        notes=groups.notes,
    )


def recovered(values: Array) -> Array:
    """The metric after one epoch in percent of the final one; (..., 2 · shares) to (..., shares)."""
    final, early = np.split(values, 2, axis=-1)
    return np.asarray(100 * np.divide(early, final, out=np.full(final.shape, np.nan), where=final != 0))


def _recovered(found: Resampled, groups: Groups, metric: str) -> StudyTable:
    shares = found.conditions[: len(found.conditions) // 2]
    numbers = recovered(found.mean)  # (languages, shares)
    rows: list[tuple[TableCell, ...]] = [
        (language, *row, float(np.mean(row))) for language, row in zip(found.languages, numbers.tolist(), strict=True)
    ]
    for name, members in (("in-language", groups.inside), ("cross-language", groups.across)):
        if members:
            row = mean_of(numbers, found.language_places(members), axis=0).tolist()
            rows.append((name, *row, float(np.mean(row))))
    mean = numbers.mean(0).tolist()
    rows += [("mean", *mean, float(np.mean(mean))), ("paper", *(None,) * len(shares), PAPER_RECOVERED)]
    title = f"{metric} after one epoch, in percent of the final {metric}, by share of heads removed"
    note = f"The final model is that of the best epoch on dev. {CITATION} Mean over all pruning experiments of XNLI."
    return StudyTable(NAME, title, ("language", *shares, "mean"), tuple(rows), note)


def probe_entropies(plan: RecoveryPlan, work: Work) -> tuple[dict[str, float], dict[str, float]]:
    """The entropies of the surviving heads before tuning and after one epoch."""
    percent = round(100 * plan.entropy_share)

    def measure() -> dict[str, Array]:
        chosen = [each for code in plan.trained for each in work.setting.dataset.examples(code, "dev")]
        examples = work.setting.encode(chosen[: plan.entropy_examples])
        found = [head_entropies(model, work.grid.task, examples) for model in _stages(plan, work, percent)]
        return {stage: np.array(list(each.values())) for stage, each in zip((BEFORE, AFTER), found, strict=True)}

    kept = work.journal.once(f"entropy {hash_json([percent, plan.entropy_examples])}", measure)
    names = _surviving(plan, work, percent)
    before, after = (dict(zip(names, kept[stage].tolist(), strict=True)) for stage in (BEFORE, AFTER))
    return before, after


def _stages(plan: RecoveryPlan, work: Work, percent: int) -> list[object]:
    """The pruned model of the first draw before tuning and after one epoch."""
    mask = random_mask(work.setting.heads, percent, 0, plan.scoring.seed)
    models = TunedModels(work.setting, classifier=work.classifier)
    tuning = dataclasses.replace(plan.tuning(0), settings=plan.settings(0, stop_after=1))
    tuned, _ = models.make(mask, tuning, f"{percent}% after one epoch", work.progress)
    return [models.start(mask, tuning).eval(), tuned.eval()]


def _surviving(plan: RecoveryPlan, work: Work, percent: int) -> list[str]:
    mask = random_mask(work.setting.heads, percent, 0, plan.scoring.seed)
    players = work.setting.heads.players()
    return [name for name in players if mask is None or name not in mask.off]


def _entropy_table(before: Mapping[str, float], after: Mapping[str, float], layers: int) -> StudyTable:
    changes = entropy_changes(before, after, layers)
    rows: list[tuple[TableCell, ...]] = []
    for third in reversed(THIRDS):
        names = [name for name in before if third_of(int(name.split(".")[1]), layers) == third]
        means = [float(np.mean([stage[name] for name in names])) if names else None for stage in (before, after)]
        change = float(np.mean(changes[third])) if names else None
        rows.append((third, len(names), *means, change, PAPER_ENTROPY[third]))
    columns = ("layers", "heads", BEFORE, AFTER, "mean absolute change", "paper")
    note = (
        "Entropy of attention in nats, mean over tokens, then over the heads that are left in each third of the model. "
        f"{CITATION} Figure 4: 90% of the heads removed, 500 sentences of the dev set."
    )
    return StudyTable(
        "entropy", "entropy of the surviving heads before and after one epoch", columns, tuple(rows), note
    )


def embed(plan: RecoveryPlan, work: Work) -> Embedded:
    """Embeddings of sentences of every language before tuning and after one epoch."""
    percent, examples, names = round(100 * plan.tsne_share), [], []
    for language in plan.languages(work):
        chosen = work.setting.dataset.examples(language, plan.test_split)[: plan.tsne_sentences]
        examples.append(work.setting.encode(chosen))
        names += [language] * len(chosen)
    together = ExampleSet(
        work.setting.task, tuple(each for some in examples for each in some.encoded), examples[0].pad_id,
        special_ids=examples[0].special_ids,
    )  # fmt: skip

    def measure() -> dict[str, Array]:
        found = {}
        for stage, model in zip((BEFORE, AFTER), _stages(plan, work, percent), strict=True):
            embeddings = sentence_embeddings(model, work.grid.task, together)
            found[f"points {stage}"] = tsne_points(embeddings, plan.scoring.seed)
            found[f"purity {stage}"] = language_purity(embeddings, names)
        return found

    kept = work.journal.once(f"embeddings {hash_json([percent, plan.tsne_sentences, plan.test_split])}", measure)
    points, purity = ({stage: kept[f"{part} {stage}"] for stage in (BEFORE, AFTER)} for part in ("points", "purity"))
    return Embedded(tuple(names), points, purity)


def _purity_table(found: Embedded) -> StudyTable:
    places = {name: [at for at, each in enumerate(found.languages) if each == name] for name in found.languages}
    rows: tuple[tuple[TableCell, ...], ...] = tuple(
        (language, len(at), *(float(100 * found.purity[stage][at].mean()) for stage in (BEFORE, AFTER)))
        for language, at in places.items()
    )
    note = (
        "Share of the ten nearest neighbours of a sentence that have its language, in percent, in the space of the "
        "embeddings (not of the t-SNE). The paper shows the t-SNE only (figure 5)."
    )
    title = "how far sentence embeddings separate languages"
    return StudyTable("embeddings", title, ("language", "sentences", BEFORE, AFTER), rows, note)


def _clouds(plan: RecoveryPlan, found: Embedded) -> CloudPlot:
    text = (
        f"t-SNE of sentence embeddings (mean of the last hidden states) without {round(100 * plan.tsne_share)}% of the "
        "heads. Figure 5 of the paper."
    )
    clouds = []
    for stage, points in found.points.items():
        groups: dict[str, list[tuple[float, float]]] = {name: [] for name in found.languages}
        for name, (x, y) in zip(found.languages, points.round(3).tolist(), strict=True):
            groups[name].append((x, y))
        clouds.append(Cloud(stage, {name: tuple(each) for name, each in groups.items()}))
    return CloudPlot("Sentence embeddings", text, tuple(clouds))


def _claims(
    plan: RecoveryPlan, found: Resampled, before: Mapping[str, float], after: Mapping[str, float], layers: int
) -> list[Claim]:
    """The claims about the metric and about entropies."""
    text = "One epoch of tuning reaches at least 93% of the final result, on average over shares and languages."
    result = [
        above(text, found, lambda values: recovered(values).mean((-2, -1)), PAPER_RECOVERED, paper="93% on average")
    ]
    changes = {name: abs(after[name] - value) for name, value in before.items()}
    top = {name: float(third_of(int(name.split(".")[1]), layers) == "top") for name in before}
    result.append(
        increasing("The entropy of attention changes most in the top third of the layers.", changes, top,
                   plan.resamples, "heads", "top 0.176, middle 0.042, bottom 0.047")
    )  # fmt: skip
    return result


def _purity_claims(plan: RecoveryPlan, groups: Groups, found: Embedded | None) -> list[Claim]:
    """The claim about sentence embeddings: languages with the order SVO mix after one epoch."""
    if found is None:
        return []
    members = groups.of("paper")[0].members("SVO", groups.languages)
    chosen = [place for place, name in enumerate(found.languages) if name in members]
    if len(members) < 2:
        return []
    values = [100 * found.purity[stage][chosen] for stage in (BEFORE, AFTER)]  # (sentences,) each
    statistics = [np.stack([each, np.ones(len(each))], axis=1) for each in values]
    drawn = bootstrap_values(statistics, lambda totals: totals[..., 0] / totals[..., 1], plan.resamples)
    whole = np.array([[[each.mean()] for each in values]])  # (1, stages, 1)
    both = Resampled(("SVO",), (BEFORE, AFTER), whole, drawn[:, None])
    text = "Embeddings of SVO languages mix more after one epoch than before tuning."
    paper = "separate clusters before, overlapping SVO languages after (figure 5)"
    return [above(text, both, lambda each: each[..., 0, 0] - each[..., 0, 1], paper=paper)]


def load(folder: Path) -> TunedStudy:
    """The finished study of a folder."""
    return load_tuned_study(folder, NAME)


RECOVERY = GridKind(
    NAME, RecoveryPlan, prepare_recovery, cells, finish, load, trained_of,
    about=(
        "A random share of the heads is removed, and the metric after one epoch of tuning is compared with that "
        "after all epochs."
    ),
)  # fmt: skip
