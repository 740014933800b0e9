"""What the model card of a pruned model says about the run that its heads were chosen by: data, gains, commands."""

import os
from pathlib import Path
from typing import Any

from headwise.errors import HeadwiseError
from headwise.runs.config import read_config
from headwise.scoring import plan_of
from headwise.scoring.run_folder import load_scores, scored_folder
from headwise.soft_masks import AnyMask
from headwise.studies.figures import HasGains
from headwise.studies.language_heads_study import NAME as LANGUAGE_HEADS
from headwise.studies.page import load_study, scoring_command
from headwise.studies.tuned_study import TunedStudy


def facts_of_run(run: str | os.PathLike[str], language: str, mask: AnyMask, rule: str) -> tuple[str, ...]:
    """Sentences about a run for the model card of a mask that was chosen by it.

    Args:
        run: The run folder of `headwise score` or of a study.
        language: The language of the mask.
        mask: The mask.
        rule: How the heads were chosen, such as `likely` or `count`.
    """
    folder = Path(run)
    scored = scored_folder(folder)
    scores = load_scores(scored)[language].provenance
    plan = plan_of(scored)
    facts = [
        f"Heads were scored by `{scores.method}` ({scores.estimand} values, game `{scores.game}`, {scores.units:.0f} "
        f"units) on the split `{plan.split}` of `{plan.data}`, and chosen by the rule `{rule}`.",
        f"Hash of these examples as the model reads them: `{scores.data}`.",
        *_gains(folder, language, mask, rule),
        f"Command of the scoring run: `{scoring_command(plan, scored)}`.",
    ]
    return tuple(facts)


def _gains(folder: Path, language: str, mask: AnyMask, rule: str) -> list[str]:
    """The gain of the mask on test data, if a finished study has measured exactly this mask."""
    if "study" not in read_config(folder):
        return []
    try:
        study: Any = load_study(folder)
    except HeadwiseError:  # not finished
        return []
    if isinstance(study, TunedStudy) and study.kind == LANGUAGE_HEADS:
        return _text_gains(study, language, mask, rule)
    if not isinstance(study, HasGains):
        return []
    for kind in study.mask_gains():
        for gain in kind.gains:
            if gain.language == language and gain.off and set(gain.off) == set(mask.off):
                return [
                    f"{study.metric} on test data ({language}): {gain.base:.2f} before, {gain.pruned:.2f} after, gain "
                    f"{gain.difference:+.2f} (95% interval {gain.low:+.2f} to {gain.high:+.2f}, "
                    f"P = {gain.p_value:.3g})."
                ]
    return []


def _text_gains(study: TunedStudy, language: str, mask: AnyMask, rule: str) -> list[str]:
    """The gain in bits per byte of a mask of a study of language heads."""
    condition = study.scores[language].provenance.method if rule == "count" else rule
    [table] = [table for table in study.results if table.name == "conditions"]
    for row in table.rows:
        code, name, off, bits, gain, low, high, p_value = row
        if (code, name) == (language, condition) and off in (None, len(mask.off)):
            return [
                f"Bits per byte on test data ({language}): {bits:.4f}, {gain:+.2f}% saved in comparison with the whole "
                f"model (95% interval {low:+.2f}% to {high:+.2f}%, P = {p_value:.3g})."
            ]
    return []
