"""Language heads: which heads of a language model belong to one language, which are general, and what they do.

For each language, heads are scored on one half of the texts by their effect on the log-likelihood per byte. Everything
else is measured on the other half, as bits per byte:

- the model without its lowest heads by each of several rankings, at the same number of heads, with soft masks, and
  without random heads;
- the model without the heads of one language, on every language;
- the model with the heads of one language scaled by several factors (steering), on every language.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from headwise.errors import FieldError, require_whole
from headwise.masks import HeadMask
from headwise.methods import Budget, Method, Problem, find_method
from headwise.methods.base import run_method
from headwise.methods.soft import soft_mask
from headwise.roles.corpus import read_corpus
from headwise.roles.measure import measure_language
from headwise.roles.table import LanguageRoles
from headwise.scores import HeadScores
from headwise.scores.rules import FALSE_SHARE
from headwise.scores.specificity import GENERAL_LANGUAGES, Specificity
from headwise.scoring import ScoringPlan, make_problems
from headwise.scoring.run_folder import SOFT
from headwise.soft_masks import AnyMask, SoftMask
from headwise.studies.grid import Array, Cell
from headwise.studies.judge import check_split
from headwise.studies.language_heads_study import (
    NAME,
    SOFT_MASK,
    WHOLE,
    Effects,
    Found,
    scaled_name,
    study_of,
    without_name,
)
from headwise.studies.ranked import check_complete, random_orders
from headwise.studies.resampled import resample
from headwise.studies.tuned_study import TunedStudy, load_tuned_study
from headwise.studies.work import GridKind, Work
from headwise.tasks.causal import BitsPerByte

#: The tasks whose labels are the tokens of a text.
TASKS = ("lm", "translation")
#: The game of the study.
GAME = "log-likelihood-per-byte"
#: Rankings to compare with, besides random ones.
RANKINGS = ("lahis", "chg", "michel")
#: The ranking that also chooses heads of languages, besides the method of the plan.
LAHIS = "lahis"


@dataclass(frozen=True)
class LanguageHeadsPlan:
    """The plan of a study of language heads.

    Attributes:
        scoring: The plan of the scoring run: a causal model and texts (`lm`), or a translation model and pairs.
        count: Number of heads that each ranking removes, and of the heads of a language that are turned off or scaled.
        rankings: Rankings to compare with the method of the plan, some of `lahis`, `chg` and `michel`.
        chg_epochs: Number of epochs of each stage of `chg`.
        soft_epochs: Maximum number of epochs of soft masks; 0 for no soft masks.
        randoms: Number of random masks.
        scales: Factors of the heads of a language, in ascending order.
        general: A head is general if it is likely helpful in at least this number of languages.
        false_share: Expected share of wrong ones among likely helpful heads, and among heads of languages.
        roles: Also measure what heads attend to (retrieval, induction; transition for translation).
        test_split: The split that everything is judged on.
        limit_test: The maximum number of test examples of each language, the first ones; None for all.
        resamples: Number of resamples of the paired bootstrap.

    Raises:
        HeadwiseError: A field is out of range, or the test split overlaps with the scoring split.

    Example:
        >>> plan = LanguageHeadsPlan(ScoringPlan("smollm2-135m", "lm", "texts", "en,fr", game=GAME))
        >>> plan.count, list(plan.scales)
        (10, [0, 0.5, 1, 1.5, 2, 3])
    """

    scoring: ScoringPlan
    count: int = 10
    rankings: Sequence[str] = RANKINGS
    chg_epochs: int = 2
    soft_epochs: int = 5
    randoms: int = 3
    scales: Sequence[float] = (0, 0.5, 1, 1.5, 2, 3)
    general: int = GENERAL_LANGUAGES
    false_share: float = FALSE_SHARE
    roles: bool = True
    test_split: str = "test"
    limit_test: int | None = None
    resamples: int = 2000

    def __post_init__(self) -> None:
        check_split(self.scoring, self.test_split)
        limits = (("count", 1), ("chg_epochs", 1), ("soft_epochs", 0), ("randoms", 0), ("general", 1), ("resamples", 1))
        for name, least in limits:
            require_whole(name, getattr(self, name), least)
        if self.limit_test is not None:
            require_whole("limit_test", self.limit_test)
        if unknown := set(self.rankings) - set(RANKINGS):
            raise FieldError("rankings", f"some of {', '.join(RANKINGS)}, not {min(unknown)!r}")
        scales: list[Any] = list(self.scales)
        if any(isinstance(each, str) or each < 0 for each in scales) or scales != sorted(set(scales)):
            raise FieldError("scales", f"ascending numbers of at least 0, not {scales}")
        _check_scoring(self.scoring)

    @property
    def soft(self) -> Method | None:
        """The method that learns soft masks, if it is asked for."""
        return find_method("soft", epochs=self.soft_epochs) if self.soft_epochs else None

    def ranking(self, name: str) -> Method:
        """The method of a ranking."""
        return find_method(name, epochs=self.chg_epochs) if name == "chg" else find_method(name)


def _check_scoring(scoring: ScoringPlan) -> None:
    """Raise an error if the values of a plan are not unbiased effects of heads on the likelihood of texts."""
    for name, value, wanted in (
        ("game", scoring.game, GAME), ("players", scoring.players, "heads"), ("baseline", scoring.baseline, "zero"),
    ):  # fmt: skip
        if value != wanted:
            raise FieldError(name, f"must be {wanted!r} in a study of language heads, not {value!r}")
    if scoring.task not in TASKS:
        raise FieldError("task", f"must be one of {', '.join(TASKS)}, whose labels are texts, not {scoring.task!r}")
    method = find_method(scoring.method)
    if not (method.signed and method.unbiased):
        raise FieldError("method", f"must give unbiased values with standard errors, such as stars: not {method.name}")


@dataclass(frozen=True)
class Prepared:
    """What is known before anything is measured on test data.

    Attributes:
        found: Scores, rankings and roles.
        masks: By condition and language, the mask to measure; None for the whole model.
    """

    found: Found
    masks: Mapping[str, Mapping[str, AnyMask | None]]


def prepare(plan: LanguageHeadsPlan, work: Work) -> Prepared:
    """Score heads by all methods and choose the masks of every condition; only examples to score on are used."""
    scored = work.score(plan.scoring)
    if len(scored.scores) < 2:
        raise FieldError("languages", "heads of one language need at least two languages to compare")
    for scores in scored.scores.values():
        check_complete(scores)
    problems, _ = make_problems(plan.scoring, work.setting)
    if plan.count >= len(work.setting.heads.players()):
        raise FieldError("count", f"the model has only {len(work.setting.heads.players())} heads")
    names = [*plan.rankings, *(["soft"] if plan.soft else [])]
    runs = {name: _run_ranking(plan, work, name, problems) for name in names}
    rankings = {plan.scoring.method: scored.scores} | {
        name: {code: scores for code, (scores, _) in runs[name].items()} for name in plan.rankings
    }
    soft = {code: soft_mask(scores) for code, (scores, _) in runs.get("soft", {}).items()}
    seconds = {
        code: {"scoring": each.seconds, **{name: runs[name][code][1] for name in names}}
        for code, each in scored.languages.items()
    }
    units = {
        code: {"scoring": each.provenance.units, **{name: runs[name][code][0].provenance.units for name in names}}
        for code, each in scored.scores.items()
    }
    scale = _likelihoods(plan, work, list(scored.scores))
    values = {
        name: Specificity.of(each, scale, plan.general, plan.false_share)
        for name, each in rankings.items()
        if name in (plan.scoring.method, LAHIS)
    }
    roles = _measure_roles(plan, work, list(scored.scores)) if plan.roles else {}
    found = Found(plan.scoring.method, rankings, values, soft, roles, units, seconds, scored.notes)
    prepared = Prepared(found, choose_masks(plan, work, found))
    _save(prepared, work)
    return prepared


def _run_ranking(
    plan: LanguageHeadsPlan, work: Work, name: str, problems: Mapping[str, Problem]
) -> dict[str, tuple[HeadScores, float]]:
    """The scores of a method for each language, and its seconds."""
    found = {}
    method = plan.soft if name == "soft" else plan.ranking(name)
    assert method is not None
    for place, (language, problem) in enumerate(problems.items()):
        if work.progress is not None:
            work.progress(place, len(problems), f"{name}, {language}")
        stream = f"{name} {language} {problem.data}"
        run = run_method(method, problem, Budget(), plan.scoring.seed, work.journal, stream)
        found[language] = (run.scores, run.seconds)
    return found


def _likelihoods(plan: LanguageHeadsPlan, work: Work, languages: Sequence[str]) -> dict[str, float]:
    """The negative log-likelihood per byte of each language with all heads, in nats ÷ 100, on the scoring examples."""
    cells = {code: Cell(code, plan.scoring.split, limit=plan.scoring.limit) for code in languages}
    measured = work.grid.measure(cells.values())
    return {code: float(BitsPerByte().value(measured[cell].sum(0)) * np.log(2)) / 100 for code, cell in cells.items()}


def _measure_roles(plan: LanguageHeadsPlan, work: Work, languages: Sequence[str]) -> dict[str, LanguageRoles]:
    """What heads attend to in each language, on the examples that heads are scored on."""
    setting = work.setting
    chosen = setting.examples(languages, plan.scoring.split, plan.scoring.limit).examples
    found = {}
    for place, (language, examples) in enumerate(chosen.items()):
        if work.progress is not None:
            work.progress(place, len(chosen), f"roles, {language}")
        corpus = read_corpus(setting.model, setting.heads, setting.tokenizer, examples)
        found[language] = measure_language(setting.model, setting.heads, corpus, work.journal, f"roles {language}")
    return found


def choose_masks(plan: LanguageHeadsPlan, work: Work, found: Found) -> dict[str, dict[str, AnyMask | None]]:
    """By condition and language, the mask to measure."""
    heads, languages = work.setting.heads, found.languages
    main = found.rankings[found.method]
    masks: dict[str, dict[str, AnyMask | None]] = {WHOLE: dict.fromkeys(languages)}
    for name, scores in found.rankings.items():
        masks[name] = {code: each.mask(count=plan.count) for code, each in scores.items()}
    masks["harmful"] = {code: _or_none(each.mask("harmful")) for code, each in main.items()}
    masks["likely"] = {code: _or_none(each.mask("likely", false_share=plan.false_share)) for code, each in main.items()}
    if found.soft:
        masks[SOFT_MASK] = dict(found.soft)
    for name, order in random_orders(heads, plan.randoms, plan.scoring.seed).items():
        masks[name] = dict.fromkeys(languages, HeadMask.without(heads, order[: plan.count]))
    for ranking, values in found.values.items():
        for code in languages:
            off = HeadMask.without(heads, values.top(code, plan.count))
            masks[without_name(code, ranking)] = dict.fromkeys(languages, off)
    for code in languages:
        own = found.values[found.method].top(code, plan.count)
        for factor in plan.scales:
            masks[scaled_name(code, factor)] = dict.fromkeys(languages, _scale(work, own, factor))
    return masks


def _or_none(mask: HeadMask) -> HeadMask | None:
    return mask if mask.off else None


def _scale(work: Work, chosen: Sequence[str], factor: float) -> AnyMask | None:
    """The mask that scales some heads."""
    heads = work.setting.heads
    if factor == 1:
        return None
    if factor == 0:
        return HeadMask.without(heads, chosen)
    return SoftMask.of(heads, [float(factor) if name in chosen else 1.0 for name in heads.players()])


def _save(prepared: Prepared, work: Work) -> None:
    """Write the scores of all rankings, and the masks of each language."""
    found = prepared.found
    for name, scores in found.rankings.items():
        for code, each in scores.items():
            each.save(work.folder / "rankings" / name / f"{code}.json")
    for code, mask in found.soft.items():
        mask.save(work.folder / SOFT / f"{code}.json")
    full = HeadMask.full(work.setting.heads)
    for code in found.languages:
        own = prepared.masks[without_name(code, found.method)][code]
        replace(own or full, language=code).save(work.folder / "language-heads" / f"{code}.json")
        lowest = prepared.masks[found.method][code]
        replace(lowest or full, language=code).save(work.folder / "masks" / f"{code}.json")


def cells(plan: LanguageHeadsPlan, _work: Work, prepared: Prepared) -> list[Cell]:
    """Every condition in every language."""
    return [cell for by_language in _cells(plan, prepared).values() for cell in by_language.values()]


def _cells(plan: LanguageHeadsPlan, prepared: Prepared) -> dict[str, dict[str, Cell]]:
    return {
        name: {code: Cell(code, plan.test_split, mask, plan.limit_test, series=name) for code, mask in masks.items()}
        for name, masks in prepared.masks.items()
    }


def finish(plan: LanguageHeadsPlan, work: Work, prepared: Prepared, measured: dict[Cell, Array]) -> TunedStudy:
    """The study of the measurements."""
    grid = _cells(plan, prepared)
    keyed = {(code, name, 0): measured[cell] for name, each in grid.items() for code, cell in each.items()}
    whole = grid[WHOLE]
    ids = {code: [example.id for example in work.grid.examples(cell)] for code, cell in whole.items()}
    found = resample(keyed, ids, BitsPerByte(), plan.resamples, plan.scoring.seed)
    testing = {
        code: (len(set(each)) * len(ids[code]), work.grid.seconds(each))
        for code in whole
        if (each := [cells[code] for cells in grid.values()])
    }
    off = {
        name: {code: len(mask.off) if isinstance(mask, HeadMask) else None for code, mask in masks.items()}
        for name, masks in prepared.masks.items()
    }
    sizes = {code: _bytes_per_character(work.grid.examples(cell)) for code, cell in whole.items()}
    effects = Effects(found, off, sizes, testing, tuple(plan.scales), plan.count)
    return study_of(work.folder, prepared.found, effects)


def _bytes_per_character(examples: Sequence[Any]) -> float:
    texts = [each.text if hasattr(each, "text") else each.target for each in examples]
    return sum(len(text.encode()) for text in texts) / max(1, sum(map(len, texts)))


def load_language_heads(folder: Path) -> TunedStudy:
    """The finished study of a folder.

    Raises:
        HeadwiseError: There is none, or it is not finished.
    """
    return load_tuned_study(folder, NAME)


LANGUAGE_HEADS = GridKind(
    NAME, LanguageHeadsPlan, prepare, cells, finish, load_language_heads, metric=BitsPerByte(),
    about=(
        "Heads of a language model are scored in several languages. The study shows which heads are of one language "
        "and which are general, what removing or scaling them does to every language, and what masks gain."
    ),
)  # fmt: skip
