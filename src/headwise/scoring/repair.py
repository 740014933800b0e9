"""Repair a pruned model on the examples of a language, and keep the repair only if the metric is not worse on them."""

import dataclasses
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headwise.data.catalog import open_dataset
from headwise.data.examples import Example
from headwise.engine import token_batches
from headwise.engine.evaluation import measure
from headwise.errors import FieldError
from headwise.pruning.repair import SiteRepair, repair_sites, undo_later
from headwise.scoring.plan import plan_of
from headwise.scoring.run_folder import scored_folder
from headwise.scoring.setting import Setting, make_setting


@dataclass(frozen=True)
class Repaired:
    """The result of repairing a pruned model.

    Attributes:
        metric: Name of the task's main metric.
        before: Its value before the repair, on the examples of the repair.
        after: Its value after the repair, on the same examples.
        kept: Whether the repair was kept; if not, `after` is worse than `before` and the weights were restored.
        sites: The repair of each site.
    """

    metric: str
    before: float
    after: float
    kept: bool
    sites: tuple[SiteRepair, ...]

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data for JSON; an infinite strength, which changes only the bias, is `inf` as text."""
        found = dataclasses.asdict(self)
        for site in found["sites"]:
            site["strength"] = "inf" if site["strength"] == math.inf else site["strength"]
        return found


def repair_model(pruned: Any, setting: Setting, examples: Sequence[Example], language: str = "") -> Repaired:
    """Refit the output projections of a pruned model, in place, to give the outputs of the setting's model.

    The metric is measured on the examples before and after the repair. If it is worse, the weights are restored.

    Args:
        pruned: A model that `shrink` or `fold` has made of the setting's model.
        setting: The original model and the task.
        examples: Examples that no result is reported on, such as dev examples.
        language: Their language, or pair of languages.

    Raises:
        HeadwiseError: The pruned model has lost no heads, or there are fewer than two examples.
    """

    def value() -> tuple[str, float]:
        found = measure(pruned, setting.task, examples, setting.tokenizer, language).results[0]
        return found.metric, found.value

    encoded, undo = setting.encode(examples), undo_later(pruned)
    metric, before = value()
    sites = repair_sites(pruned, setting.model, lambda: token_batches(setting.model, setting.heads, encoded))
    _, after = value()
    kept = after <= before if metric == "perplexity" else after >= before  # only perplexity is better if it is lower
    if not kept:
        undo()
    return Repaired(metric, before, after, kept, sites)


def examples_of_run(
    folder: str | os.PathLike[str], language: str, model: Any, tokenizer: Any
) -> tuple[Setting, tuple[Example, ...]]:
    """The setting of a run with its model loaded already, and the examples that a language was scored on.

    Raises:
        HeadwiseError: There is no scoring run in the folder, or it has no such language.
    """
    plan = plan_of(scored_folder(folder))
    setting = make_setting(model, tokenizer, open_dataset(plan.data, plan.task), plan.task, plan.piece, plan.model)
    examples = setting.examples(plan.languages, plan.split, plan.limit).examples
    if language not in examples:
        raise FieldError("language", f"{folder} has no examples of {language}: it has {', '.join(examples)}")
    return setting, examples[language]
