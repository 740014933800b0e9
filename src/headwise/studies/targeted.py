"""Targeted pruning: remove the harmful heads of each language, and compare with controls on test data.

For each language the heads are scored on dev examples. These masks are judged on test examples:

- `targeted` removes the heads that are decided to be harmful.
- `likely` removes all heads that are likely harmful.
- `refined` is the targeted mask after refinement.
- `zero-shot` is the targeted mask of the source language.
- `pooled` is one mask for all languages.
- Controls remove the same number of heads: at random, or those with the lowest importance by Michel et al. (`michel`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from headwise.draws import Draws
from headwise.errors import require_whole
from headwise.masks import HeadMask
from headwise.methods import Budget, Problem, find_method, score
from headwise.pruning.sizes import ModelSizes
from headwise.runs import Journal, read_run
from headwise.scores import HeadScores
from headwise.scores.rules import tells_likely
from headwise.scoring import RefinementPlan, ScoringPlan, ScoringRun, make_problems
from headwise.scoring.pool import pool_languages, pooled_mask
from headwise.scoring.refine import refine_languages
from headwise.scoring.run import plan_method
from headwise.studies.grid import Array, Cell
from headwise.studies.judge import Judge, check_split
from headwise.studies.targeted_study import MASKS, LanguageOutcome, Outcome, TargetedStudy, load_targeted
from headwise.studies.work import GridKind, Work


@dataclass(frozen=True)
class TargetedPlan:
    """The plan of a targeted study.

    Attributes:
        scoring: The plan of the scoring run.
        test_split: The split that masks are judged on.
        source: The language that the model was tuned on; its mask is judged on all languages (`zero-shot`).
        refine: The maximum number of rounds of refinement; 0 for no refined masks.
        refine_examples: The maximum number of dev examples for refinement.
        randoms: The number of random masks of the size of the targeted mask, and of the size of the refined mask.
        random_examples: The maximum number of test examples for each random mask, a random sample for each. The
            difference from the whole model on this sample is added to the metric on all examples. None for all.
        limit_test: The maximum number of test examples of each language, the first ones; None for all.
        resamples: Number of resamples of the paired bootstrap.

    Raises:
        HeadwiseError: A number is not whole or too small, or the test split overlaps with the scoring split.
    """

    scoring: ScoringPlan
    test_split: str = "test"
    source: str = "en"
    refine: int = 12
    refine_examples: int = 512
    randoms: int = 10
    random_examples: int | None = None
    limit_test: int | None = None
    resamples: int = 10_000

    def __post_init__(self) -> None:
        check_split(self.scoring, self.test_split)
        for name, least in (("refine", 0), ("refine_examples", 1), ("randoms", 0), ("resamples", 1)):
            require_whole(name, getattr(self, name), least)
        for name in ("random_examples", "limit_test"):
            if getattr(self, name) is not None:
                require_whole(name, getattr(self, name))


@dataclass(frozen=True)
class Prepared:
    """The scores and masks, before they are judged.

    Attributes:
        scored: The scoring run.
        masks: The masks of each language, by name.
        units: The cost of choosing masks after scoring, by language and step.
    """

    scored: ScoringRun
    masks: Mapping[str, Mapping[str, HeadMask]]
    units: Mapping[str, Mapping[str, float]]


def prepare(plan: TargetedPlan, work: Work) -> Prepared:
    """Score heads and choose the masks of every language; only dev examples are used."""
    scored = work.score(plan.scoring)
    masks, units = choose_masks(plan, work, scored)
    for language, each in masks.items():
        each.get("refined", each["targeted"]).save(work.folder / "masks" / f"{language}.json")
    if (pooled := next(iter(masks.values())).get("pooled")) is not None:
        pooled.save(work.folder / "pooled.json")
    return Prepared(scored, masks, units)


def choose_masks(
    plan: TargetedPlan, work: Work, scored: ScoringRun
) -> tuple[dict[str, dict[str, HeadMask]], dict[str, dict[str, float]]]:
    """The masks to judge for each language, by name; and the units that each language and step cost."""
    scores, (problems, _) = scored.scores, make_problems(plan.scoring, work.setting, means=scored.means)
    harmful = {language: each.mask("harmful") for language, each in scores.items()}
    likely = all(map(tells_likely, scores.values()))
    shared = {"pooled": _pool(plan, scored, problems)} if likely and len(scores) > 1 else {}
    if plan.source in harmful:
        shared["zero-shot"] = harmful[plan.source]
    found: dict[str, dict[str, HeadMask]] = {}
    units: dict[str, dict[str, float]] = {}
    for language, mask in harmful.items():
        michel = michel_scores(problems[language], work.journal)
        found[language] = {"targeted": mask, "michel": michel.mask(count=len(scores[language].decided("harmful")))}
        units[language] = {"controls": michel.provenance.units}
    refined = {}
    if plan.refine:
        how = RefinementPlan(plan.refine, examples=plan.refine_examples, seed=plan.scoring.seed)
        refined = refine_languages(problems, harmful, how, work.journal, work.progress)
    for language, masks in found.items():
        masks |= shared
        if likely:
            masks["likely"] = scores[language].mask("likely")
        if language in refined:
            masks["refined"] = refined[language].mask
            units[language]["refining"] = refined[language].units
    return found, units


def _pool(plan: TargetedPlan, scored: ScoringRun, problems: Mapping[str, Problem]) -> HeadMask:
    """One mask for all languages, from the rounds of all of them."""
    assert scored.folder is not None
    method = plan_method(plan.scoring)
    with read_run(scored.folder) as run:
        pooled = pool_languages(scored.scores, method, problems, run.journal, plan.scoring.seed)
    return pooled_mask(pooled, next(iter(scored.scores.values())))


def michel_scores(problem: Problem, journal: Journal | None = None) -> HeadScores:
    """The gradient importance of the players of a problem."""
    stream = f"michel {problem.language} {problem.data}"
    return score(find_method("michel"), problem, Budget(), journal=journal, stream=stream)


def cells(plan: TargetedPlan, work: Work, prepared: Prepared) -> list[Cell]:
    """The whole model, every mask and every random mask, for every language."""
    found = []
    for language, masks in prepared.masks.items():
        base = Cell(language, plan.test_split, limit=plan.limit_test)
        found += [base, *(_cell(base, mask) for mask in masks.values())]
        examples = len(work.grid.examples(base))
        for size in _random_sizes(prepared, language).values():
            found += [_random(plan, prepared, base, size, draw, examples) for draw in range(plan.randoms)]
    return found


def _cell(base: Cell, mask: HeadMask) -> Cell:
    return Cell(base.language, base.split, mask if mask.off else None, base.limit)


def _random_sizes(prepared: Prepared, language: str) -> dict[str, int]:
    """The number of players that random masks remove, by the name of the mask of that size."""
    masks, scores = prepared.masks[language], prepared.scored.scores[language]
    sizes = {"targeted": len(scores.decided("harmful"))}
    if "refined" in masks:
        sizes["refined"] = players_off(masks["refined"], scores)
    return sizes


def players_off(mask: HeadMask, scores: HeadScores) -> int:
    """The number of players that a mask removes; one player may be several heads that share their keys."""
    gone = set(mask.off)
    return sum(gone.issuperset(scores.without([name]).off) for name in scores.players)


def _random(plan: TargetedPlan, prepared: Prepared, base: Cell, size: int, draw: int, examples: int) -> Cell:
    """The cell of one random mask."""
    mask = random_mask(prepared.scored.scores[base.language], size, plan.scoring.seed, draw)
    if not mask.off:
        return base
    if plan.random_examples is None or plan.random_examples >= examples:
        return _cell(base, mask)
    order = np.argsort(Draws(plan.scoring.seed, "random mask examples").uniform(draw, 1, examples)[0], kind="stable")
    only = tuple(np.sort(order[: plan.random_examples]).tolist())
    return Cell(base.language, base.split, mask, base.limit, only)


def random_mask(scores: HeadScores, count: int, seed: int, draw: int) -> HeadMask:
    """A random mask; it removes the same players in every language."""
    order = np.argsort(Draws(seed, "random mask").uniform(draw, 1, len(scores.players))[0], kind="stable")
    return scores.without([scores.players[place] for place in order[:count]])


def finish(plan: TargetedPlan, work: Work, prepared: Prepared, measured: dict[Cell, Array]) -> TargetedStudy:
    """Make the study from the measurements."""
    judge = Judge(work.grid.task.metric, plan.resamples)
    sizes = ModelSizes(work.setting.model)
    found = {language: _outcome(plan, prepared, judge, measured, language, sizes) for language in prepared.masks}
    scored = prepared.scored
    seconds = {language: each.seconds for language, each in scored.languages.items()}
    return TargetedStudy(work.folder, judge.metric.name, found, scored.scores, seconds, scored.notes)


def _outcome(
    plan: TargetedPlan,
    prepared: Prepared,
    judge: Judge,
    measured: dict[Cell, Array],
    language: str,
    sizes: ModelSizes,
) -> LanguageOutcome:
    """The results of all masks in one language."""
    cell = Cell(language, plan.test_split, limit=plan.limit_test)
    base = measured[cell]
    outcomes = {}
    for name, mask in prepared.masks[language].items():
        statistics = measured[_cell(cell, mask)]
        size = sizes.after(mask) if name in MASKS else None
        test = judge.compare(base, statistics)
        outcomes[name] = Outcome(judge.value(statistics), len(mask.off), test, mask.off, size)

    def random_value(size: int, draw: int) -> float:
        chosen = _random(plan, prepared, cell, size, draw, len(base))
        if chosen.only is None:
            return judge.value(measured[chosen])
        part = list(chosen.only)
        return judge.value(base) + judge.value(measured[chosen]) - judge.value(base[part])

    randoms = {
        kind: tuple(random_value(size, draw) for draw in range(plan.randoms))
        for kind, size in _random_sizes(prepared, language).items()
    }
    tested = {key: len(found) for key, found in measured.items() if key.language == language}
    units = {**prepared.units[language], "testing": float(sum(tested.values()))}
    return LanguageOutcome(judge.value(base), len(base), outcomes, randoms, units)


TARGETED = GridKind("targeted", TargetedPlan, prepare, cells, finish, load_targeted)
