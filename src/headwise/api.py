"""The main job as functions on objects in hand: load, score, refine, learn gates, evaluate."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from headwise.data.catalog import open_dataset
from headwise.data.dataset import Dataset
from headwise.engine import mean_outputs as means_over
from headwise.engine.evaluation import measure
from headwise.errors import FieldError, HeadwiseError
from headwise.gates import gated
from headwise.language_results import LanguageResults, ScoresByLanguage, evaluation_table
from headwise.masks import HeadMask
from headwise.means import MeanOutputs
from headwise.methods.soft import soft_mask
from headwise.models import load_model, load_tokenizer
from headwise.scoring import (
    BestMask,
    BestMaskPlan,
    RefinementPlan,
    Repaired,
    SafeMask,
    ScoringPlan,
    Setting,
    best_of_run,
    make_problems,
    make_setting,
    repair_model,
    run_scoring,
    safe_mask_of_run,
    score_languages,
)
from headwise.scoring.best_run import best_of_scores, safe_mask_of_scores
from headwise.scoring.refine import refine_languages
from headwise.scoring.run import means_of
from headwise.soft_masks import AnyMask, SoftMask
from headwise.support.progress import Advance, showing

#: A data set, or the name or path of one.
Data = Dataset | str | os.PathLike[str]
Plan = TypeVar("Plan")
#: Options of `score` that a model or a task is loaded with.
_LOADING = ("piece", "device", "dtype")


def load(
    name: str | os.PathLike[str], trust_remote_code: bool = False, device: str = "auto", dtype: str = "float32"
) -> tuple[Any, Any]:
    """Load a model and its tokenizer.

    Args:
        name: A name on the hub, a folder (also of a pruned checkpoint or of an adapter), or the name of a default model
            such as `e5-small-pos`.
        trust_remote_code: Run code that comes with the model.
        device: `auto` (a GPU if there is one), `cpu`, `cuda` or `mps`.
        dtype: Type of the weights: `float32`, `bfloat16`, `float16`, or `auto` (as they were saved).

    Returns:
        The model, in evaluation mode, and the tokenizer.

    Raises:
        HeadwiseError: There is no such model, or it has no tokenizer.
    """
    model = load_model(name, trust_remote_code, device=device, dtype=dtype)
    tokenizer = load_tokenizer(name, trust_remote_code)
    if tokenizer is None:
        raise HeadwiseError(f"{name}: the model has no tokenizer: load it with transformers and choose a tokenizer")
    return model, tokenizer


def score(
    model: Any,
    tokenizer: Any = None,
    data: Data = "",
    *,
    task: str = "",
    languages: str | Sequence[str] = "all",
    out: str | os.PathLike[str] | None = None,
    progress: Advance | bool = True,
    **options: Any,
) -> ScoresByLanguage:
    """Score the heads of a model in every language.

    Args:
        model: A transformers model with a head for the task, a PEFT model around one, or the name of a model.
        tokenizer: Its tokenizer; by default the one that comes with the model of that name.
        data: A data set, or the name of one.
        task: The task, such as `pos`; by default the task that the data set was opened for.
        languages: Codes, as a list or separated by commas, or `all`.
        out: A run folder. The same call continues a stopped run, a larger budget extends it, and `headwise report`
            shows it. By default nothing is kept on disk.
        progress: Show progress; or a function that is called with steps done, all steps and a status.
        options: Other fields of `ScoringPlan`, such as `budget=6_000`, `method="stars"`, `estimand="truncated"`,
            `split="dev"`, `seed=1` or `baseline="mean"`.

    Returns:
        The scores of each language: `scores["zh"].mask("likely")`.

    Raises:
        HeadwiseError: The model, the data and the options do not fit each other.
    """
    loading = {name: options[name] for name in _LOADING if name in options}
    setting = open_setting(model, tokenizer, data, task, **loading)
    codes = ",".join(setting.codes(languages))
    source = setting.dataset.source or setting.dataset.name  # a run folder opens its data by this name
    plan = _build(ScoringPlan, model=setting.name, task=setting.task.name, data=source, languages=codes, **options)
    with showing(progress, "scoring") as advance:
        if out is not None:
            run = run_scoring(plan, out, progress=advance, setting=setting)
            return ScoresByLanguage(run.scores, setting, plan, run.means, run.folder)
        problems, _ = make_problems(plan, setting)
        scored = dict(score_languages(plan, problems, progress=advance))
        found = {language: scored[language].scores for language in problems}
    return ScoresByLanguage(found, setting, plan, means_of(problems))


def mean_outputs(
    model: Any,
    tokenizer: Any = None,
    data: Data = "",
    *,
    task: str = "",
    languages: str | Sequence[str] = "all",
    split: str = "dev",
    limit: int | None = None,
) -> dict[str, MeanOutputs]:
    """Compute the mean output of every head and feed-forward block in every language, for mean ablation.

    Pass the result of a language as `baseline` to `gated`, `shrink`, `fold` or `evaluate`. It is what `score` with
    `baseline="mean"` uses for the same examples.

    Args:
        model: A transformers model, a PEFT model around one, or the name of a model.
        tokenizer: Its tokenizer; by default the one that comes with the model of that name.
        data: A data set, or the name of one.
        task: The task, such as `pos`; by default the task that the data set was opened for.
        languages: Codes, as a list or separated by commas, or `all`.
        split: Which part of the data.
        limit: The maximum number of examples per language, the first ones; None for all.

    Raises:
        HeadwiseError: The model, the data and the task do not fit each other, or there are no such examples.
    """
    setting = open_setting(model, tokenizer, data, task)
    selection = setting.examples(languages, split, limit)
    return {
        language: means_over(setting.model, setting.heads, setting.encode(examples), language)
        for language, examples in selection.examples.items()
    }


def refine(
    scores: ScoresByLanguage, *, languages: Sequence[str] = (), progress: Advance | bool = True, **options: Any
) -> dict[str, HeadMask]:
    """Refine masks: remove heads that hurt given what is already off, and put back heads that are missed.

    Everything is chosen on the examples that were scored on: judge the masks on others.

    Args:
        scores: The result of `score`.
        languages: The languages to refine; by default all.
        progress: Show progress; or a function that is called with steps done, all steps and a status.
        options: Fields of `RefinementPlan`, such as `rounds=12` or `examples=512`.

    Returns:
        The refined mask of each language.

    Raises:
        HeadwiseError: There are no scores of a language, or an option does not exist.
    """
    chosen = list(languages) or list(scores)
    if unknown := [language for language in chosen if language not in scores]:
        raise FieldError("languages", f"there are no scores of {unknown[0]}: there are {', '.join(scores)}")
    problems, _ = make_problems(scores.plan, scores.setting, means=scores.means)
    starts = {language: scores[language].mask("harmful") for language in chosen}
    with showing(progress, "refining") as advance:
        found = refine_languages(problems, starts, _build(RefinementPlan, **options), progress=advance)
    return {language: each.mask for language, each in found.items()}


def best_mask(scores: ScoresByLanguage, language: str, *, progress: Advance | bool = True, **options: Any) -> BestMask:
    """Choose the best mask of a language: harmful, likely, lowest, refined, pooled or soft, or none.

    The kinds of masks are compared by cross-fitting on the examples that were scored: each example is measured under
    masks that were made without it. No mask is chosen unless a gain is likely. The chosen mask is made from all
    examples.

    Args:
        scores: The result of `score` with the method `stars`. With a run folder, measurements are kept in it.
        language: The language.
        progress: Show progress; or a function that is called with steps done, all steps and a status.
        options: Fields of `BestMaskPlan`, such as `kinds=("likely", "refined")`, `units=3_000` or `risk=0.1`.

    Returns:
        What was chosen, the mask, the expected gain with its interval, the chance of a loss, and the cost in units.

    Raises:
        HeadwiseError: There are no scores of the language, the method is not `stars`, or there are too few examples.
    """
    plan = _build(BestMaskPlan, **options)
    with showing(progress, "comparing masks") as advance:
        if scores.folder is not None:
            return best_of_run(scores.folder, language, plan, advance, setting=scores.setting)
        return best_of_scores(scores, language, scores.plan, scores.setting, scores.means, plan, advance)


def safe_mask(
    scores: ScoresByLanguage, *, margin: float = 0.5, confidence: float = 0.95, progress: Advance | bool = True
) -> SafeMask:
    """Find one mask for all languages that costs none of them more than a margin.

    Half of the examples that were scored choose which heads to remove, and the other half tests that no language loses
    more than the margin, with bounds that hold for all languages together.

    Args:
        scores: The result of `score` with the method `stars` in at least two languages. With a run folder, measurements
            are kept in it.
        margin: The largest loss that is allowed in any language, in points of the metric.
        confidence: Probability that no language loses more.
        progress: Show progress; or a function that is called with steps done, all steps and a status.

    Returns:
        The mask, the gain in each language, and the cost in units. All heads are on if no mask is certain enough.

    Raises:
        HeadwiseError: There are fewer than two languages, the method is not `stars`, or there are too few examples.
    """
    with showing(progress, "testing masks") as advance:
        if scores.folder is not None:
            return safe_mask_of_run(scores.folder, margin, confidence, advance, setting=scores.setting)
        return safe_mask_of_scores(scores, scores.plan, scores.setting, margin, confidence, advance)


def repair(
    pruned: Any,
    original: Any,
    tokenizer: Any,
    data: Data,
    language: str,
    *,
    task: str = "",
    split: str = "dev",
    limit: int | None = None,
) -> Repaired:
    """Refit the output projections of a pruned model by least squares, so that they make up for the removed heads.

    The pruned model is changed in place and keeps its shape. No gradients are computed. The repair is kept only if the
    metric on the same examples is not worse, so judge the result on other examples.

    Args:
        pruned: A model that `shrink` or `fold` has made.
        original: The model that it was made of.
        tokenizer: Their tokenizer.
        data: A data set, or the name of one.
        language: The language to repair the model for.
        task: The task, such as `pos`; by default the task that the data set was opened for.
        split: Which part of the data.
        limit: The maximum number of examples, the first ones; None for all.

    Returns:
        The metric before and after the repair, whether it was kept, and the errors of each site.

    Raises:
        HeadwiseError: The models, the data and the task do not fit each other, or there are fewer than two examples.
    """
    setting = open_setting(original, tokenizer, data, task)
    examples = setting.examples([language], split, limit).examples[language]
    return repair_model(pruned, setting, examples, language)


def learn_gates(
    model: Any,
    tokenizer: Any = None,
    data: Data = "",
    *,
    task: str = "",
    languages: str | Sequence[str] = "all",
    out: str | os.PathLike[str] | None = None,
    progress: Advance | bool = True,
    **options: Any,
) -> dict[str, SoftMask]:
    """Learn a soft mask for every language: a real gate for each head, with the weights of the model frozen.

    Gates are trained on one part of the examples and chosen on the other part, both of the split `dev`: judge the masks
    on other examples. If no gates are better than none, all gates are 1.

    Args:
        model: A transformers model with a head for the task, a PEFT model around one, or the name of a model.
        tokenizer: Its tokenizer; by default the one that comes with the model of that name.
        data: A data set, or the name of one.
        task: The task, such as `pos`; by default the task that the data set was opened for.
        languages: Codes, as a list or separated by commas, or `all`.
        out: A run folder, which gets the masks as `soft/<language>.json`. The same call continues a stopped run. By
            default nothing is kept on disk.
        progress: Show progress; or a function that is called with steps done, all steps and a status.
        options: Options of the method `soft`, such as `l1=(0.01, 0)` or `epochs=20`, and other fields of `ScoringPlan`,
            such as `budget=60_000`, `players="ffn"` or `seed=1`.

    Returns:
        The soft mask of each language.

    Raises:
        HeadwiseError: The model, the data and the options do not fit each other.
    """
    fields = {each.name for each in dataclasses.fields(ScoringPlan)} - {"options", "method"}
    own = {name: value for name, value in options.items() if name not in fields}
    plan = {"game": "log-likelihood", **{name: value for name, value in options.items() if name in fields}}
    found = score(
        model, tokenizer, data, task=task, languages=languages, out=out, progress=progress, method="soft", options=own,
        **plan,
    )  # fmt: skip
    return {language: soft_mask(each) for language, each in found.items()}


def evaluate(
    model: Any,
    tokenizer: Any = None,
    data: Data = "",
    *,
    task: str = "",
    languages: str | Sequence[str] = "all",
    split: str = "test",
    mask: AnyMask | Mapping[str, AnyMask] | None = None,
    baseline: MeanOutputs | Mapping[str, MeanOutputs] | None = None,
    progress: Advance | bool = True,
) -> LanguageResults:
    """Measure a model in every language.

    Args:
        model: A transformers model with a head for the task, pruned or not, or the name of a model.
        tokenizer: Its tokenizer; by default the one that comes with the model of that name.
        data: A data set, or the name of one.
        task: The task; by default the task that the data set was opened for.
        languages: Codes, as a list or separated by commas, or `all`.
        split: Which part of the data.
        mask: Run under this mask, hard or soft, or under the mask of each language.
        baseline: The mean outputs that replace the heads that are off, of all languages or of each. By default the
            output of these heads becomes 0.
        progress: Show progress; or a function that is called with steps done, all steps and a status.

    Returns:
        The measurement of each language, shown as a table.

    Raises:
        HeadwiseError: The model, the data and the task do not fit each other, or there are no such examples.
    """
    setting = open_setting(model, tokenizer, data, task)
    codes, found = setting.codes(languages), {}
    with showing(progress, "evaluating") as advance:
        for done, language in enumerate(codes):
            advance(done, len(codes), language)
            own = mask.get(language) if isinstance(mask, Mapping) else mask
            means = baseline.get(language) if isinstance(baseline, Mapping) else baseline
            with gated(setting.model, own or HeadMask.full(setting.heads), heads=setting.heads, baseline=means):
                examples = setting.dataset.examples(language, split)
                found[language] = measure(setting.model, setting.task, examples, setting.tokenizer, language)
        advance(len(codes), len(codes), "")
    return LanguageResults(found, *evaluation_table(found))


def open_setting(
    model: Any,
    tokenizer: Any,
    data: Data,
    task: str,
    piece: str = "text",
    device: str = "auto",
    dtype: str = "float32",
) -> Setting:
    """The setting of a model and data, each an object or a name."""
    task = task or getattr(data, "task", "")
    if not task:
        raise FieldError("task", "the data set does not say its task: give it, such as task='pos'")
    dataset = data if isinstance(data, Dataset) else open_dataset(data, task)
    if isinstance(model, str | os.PathLike):
        name, loaded = str(model), load_model(model, device=device, dtype=dtype)
        tokenizer = load_tokenizer(model) if tokenizer is None else tokenizer
    else:
        name, loaded = "", model  # a model in hand stays on its device, in its dtype
    if tokenizer is None:
        raise FieldError("tokenizer", "give the tokenizer of the model")
    return make_setting(loaded, tokenizer, dataset, task, piece, name)


def _build(plan: type[Plan], **options: Any) -> Plan:
    """A plan out of options.

    Raises:
        HeadwiseError: There is no such option.
    """
    known = [field.name for field in dataclasses.fields(plan)]  # type: ignore[arg-type]
    if unknown := [name for name in options if name not in known]:
        raise FieldError(unknown[0], f"there is no such option: choose from {', '.join(known)}")
    return plan(**options)
