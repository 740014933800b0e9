"""Targeted pruning: each language without its harmful heads, judged on test data beside the usual controls.

For each language the heads are scored on dev examples; those decided harmful go. That mask is also refined: the heads
that hurt given what is off go too, chosen on dev. Beside it stands the mask without all that are likely harmful. The
same number of heads by chance (ten times), and as many as are harmful by Michel's sensitivities, are the controls. Two
masks need no scores of the language itself: the source language's (zero-shot), and one of all together (pooled).
"""

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headwise.errors import require_whole
from headwise.files import write_json
from headwise.heads import HeadMap
from headwise.masks import HeadMask
from headwise.methods import Budget, find_method, score
from headwise.methods.base import Problem
from headwise.refinement import RefinementPlan, refine_mask
from headwise.results import SCORING
from headwise.rules import harmful_mask, likely_mask, lowest_mask, mask_without, tells_likely
from headwise.runs import Journal, open_run, read_run
from headwise.scores import HeadScores
from headwise.scoring import Advance, ScoringPlan, ScoringRun, make_problems
from headwise.studies.asking import plan_config, score_heads, study_languages
from headwise.studies.outcomes import FIGURES, LanguageOutcome, Outcome, TargetedStudy
from headwise.studies.pooled import pool_languages, pooled_mask
from headwise.studies.study import save_tables
from headwise.studies.testing import Array, Bench, check_examples, check_split, open_bench


@dataclass(frozen=True)
class TargetedPlan:
    """What a targeted study is asked.

    Attributes:
        scoring: How heads are scored.
        test_split: The split that masks are judged on.
        source: The language that the model was tuned on, whose mask is tried on all.
        refine: Rounds of refining the mask of harmful players, at most; 0 for none.
        refine_examples: Dev examples to refine on, at most.
        randoms: How many random masks of the size of the targeted one, and of the refined one.
        random_examples: Test examples that each random mask is judged on, at most, drawn anew for each of them: what it
            adds to the base on these is added to the base on all, so that the controls do not cost more than all else.
            None for all.
        limit_test: At most so many test examples of each language, the first ones; None for all.
        resamples: Resamples of the paired bootstrap.

    Raises:
        HeadwiseError: A number is not whole or too small, or heads would be judged on what they are scored on.
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


def run_targeted(plan: TargetedPlan, out: str | os.PathLike[str], progress: Advance | None = None) -> TargetedStudy:
    """Run the study, or go on with one that was stopped.

    Args:
        plan: What to do.
        out: The run folder.
        progress: Called as work goes on.

    Raises:
        HeadwiseError: Something in the plan does not fit, or the folder holds another run.
    """
    folder, languages = Path(out), study_languages(plan.scoring)
    check_examples(plan.scoring, languages, plan.test_split)
    config = {"study": "targeted", **plan_config(plan), "languages": languages}
    with open_run(folder, config, settled=(folder / FIGURES).exists()) as run:
        scored = score_heads(plan.scoring, folder / SCORING, progress)
        bench = open_bench(plan.scoring, plan.test_split, run.journal, plan.limit_test)
        masks = choose_masks(plan, bench.heads, scored, run.journal, progress)
        found = {}
        for done, (language, scores) in enumerate(scored.scores.items()):
            if progress is not None:
                progress(done, len(languages), f"testing {language}")
            found[language] = _judge(plan, bench, language, masks[language], scores)
            chosen = masks[language].get("refined", masks[language]["targeted"])
            chosen.save(folder / "masks" / f"{language}.json")
        if progress is not None:
            progress(len(languages), len(languages), "tested")
    if (pooled := next(iter(masks.values())).get("pooled")) is not None:
        pooled.save(folder / "pooled.json")
    seconds = {language: each.seconds for language, each in scored.languages.items()}
    study = TargetedStudy(folder, bench.task.metric.name, found, scored.scores, seconds, scored.notes)
    write_json(folder / FIGURES, study.to_dict())
    save_tables(study.tables(), folder)
    return study


def choose_masks(
    plan: TargetedPlan,
    heads: HeadMap,
    scored: ScoringRun,
    journal: Journal | None = None,
    progress: Advance | None = None,
) -> dict[str, dict[str, HeadMask]]:
    """The masks to try on each language: nothing but dev examples has a say in them."""
    scores = scored.scores
    harmful = {language: harmful_mask(each, heads) for language, each in scores.items()}
    problems, _ = make_problems(plan.scoring)
    likely = all(map(tells_likely, scores.values()))
    shared = {"pooled": _pool(plan, heads, scored, problems)} if likely and len(scores) > 1 else {}
    if plan.source in harmful:
        shared["zero-shot"] = harmful[plan.source]
    found: dict[str, dict[str, HeadMask]] = {}
    for done, (language, mask) in enumerate(harmful.items()):
        if progress is not None:
            progress(done, len(harmful), f"refining {language}")
        problem = problems[language]
        found[language] = {"targeted": mask, "michel": michel_mask(problem, scores[language], journal), **shared}
        if likely:
            found[language]["likely"] = likely_mask(scores[language], heads)
        if plan.refine:
            how = RefinementPlan(plan.refine, examples=plan.refine_examples, seed=plan.scoring.seed)
            found[language]["refined"] = refine_mask(problem, mask, how, journal).mask
    return found


def _pool(plan: TargetedPlan, heads: HeadMap, scored: ScoringRun, problems: Mapping[str, Problem]) -> HeadMask:
    """The mask that all languages share, from the rounds of all of them."""
    scores = scored.scores
    method = find_method(plan.scoring.method, **plan.scoring.options)
    with read_run(scored.folder) as run:
        pooled = pool_languages(scores, method, problems, run.journal, plan.scoring.seed)
    return pooled_mask(pooled, heads, next(iter(scores.values())))


def michel_mask(problem: Problem, scores: HeadScores, journal: Journal | None = None) -> HeadMask:
    """The mask without the players that the loss is least sensitive to, as many as are harmful."""
    stream = f"michel {problem.language} {problem.data}"
    found = score(find_method("michel"), problem, Budget(), journal=journal, stream=stream)
    return lowest_mask(found, problem.heads, len(scores.decided("harmful")))


def _judge(
    plan: TargetedPlan, bench: Bench, language: str, masks: Mapping[str, HeadMask], scores: HeadScores
) -> LanguageOutcome:
    """Measure one language under all masks."""
    base = bench.statistics(language)
    outcomes = {}
    for name, mask in masks.items():
        statistics = bench.statistics(language, mask)
        test = bench.compare(base, statistics, plan.resamples)
        outcomes[name] = Outcome(bench.value(statistics), len(mask.off), test)
    sizes = {"targeted": len(scores.decided("harmful"))}
    if "refined" in masks:
        sizes["refined"] = players_off(masks["refined"], scores, bench.heads)
    judge = functools.partial(_judge_random, plan, bench, language, base)
    randoms = {
        kind: tuple(judge(random_mask(scores, bench.heads, size, seed), seed) for seed in range(plan.randoms))
        for kind, size in sizes.items()
    }
    return LanguageOutcome(bench.value(base), len(base), outcomes, randoms)


def players_off(mask: HeadMask, scores: HeadScores, heads: HeadMap) -> int:
    """How many players a mask has off: one may be several heads that share their keys."""
    gone = set(mask.off)
    return sum(gone.issuperset(mask_without(heads, [name], scores.kind).off) for name in scores.players)


def _judge_random(plan: TargetedPlan, bench: Bench, language: str, base: Array, mask: HeadMask, seed: int) -> float:
    """The metric under one random mask, by its difference to the base on the examples that it is judged on."""
    if not mask.off:
        return bench.value(base)
    if plan.random_examples is None or plan.random_examples >= len(base):
        return bench.value(bench.statistics(language, mask))
    only = np.sort(np.random.default_rng([seed, 11]).permutation(len(base))[: plan.random_examples])
    found = bench.statistics(language, mask, only.tolist())
    return bench.value(base) + bench.value(found) - bench.value(base[only])


def random_mask(scores: HeadScores, heads: HeadMap, count: int, seed: int) -> HeadMask:
    """A mask without players chosen by chance."""
    order = np.random.default_rng([seed, 7]).permutation(len(scores.players))
    return mask_without(heads, [scores.players[place] for place in order[:count]], scores.kind)
