"""Test gains of masks that are made without a labelled example of the language, against those made with labels.

For each language, heads are scored by games without labels on the same dev examples, with the same budget, and judged
on the same test examples as in `benchmarks.best_masks`, which is run first: its rows have the gains with labels. The
kinds of masks are `likely` and `lowest`; for `agreement`, the answers of the model in English are labels that soft
masks are trained on. The last line has the mean gain of each game and kind, and its share of the mean gain with labels.

Results are stored in `--out`, so the same command resumes after an interruption. The data folder (HEADWISE_DATA) is
needed, except with `--quick`, which follows `benchmarks.best_masks --quick`.

    python -m benchmarks.label_free [--quick] [--sets pud,massive,xnli] [--languages zh,tr] [--labelled runs/best-masks]
"""

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import cast

from benchmarks.best_masks import SETS, Gain
from benchmarks.best_masks import Row as Labelled
from headwise import HeadMask, HeadwiseError
from headwise.data.folders import default_folder
from headwise.engine import EngineSettings
from headwise.engine.evaluation import MaskJudge
from headwise.files import write_json
from headwise.methods.soft import Soft, soft_mask
from headwise.scoring import ScoringPlan, Setting, load_setting, run_scoring
from headwise.scoring.best import BestMaskPlan, lowest_mask
from headwise.soft_masks import AnyMask
from headwise.studies.judge import Judge
from headwise.tasks.metrics import Metric

#: Games without labels of the language.
AGREEMENT = "agreement(en)"
GAMES = (AGREEMENT, "top-probability", "negative-entropy")


@dataclass(frozen=True)
class Row:
    """The gains in one language by one game.

    Attributes:
        name: Name of the set.
        language: The language.
        game: The game.
        gains: The test gain of each kind of mask.
        labelled: The test gain of the same kinds, made with labels, in points.
    """

    name: str
    language: str
    game: str
    gains: dict[str, Gain]
    labelled: dict[str, float]

    @classmethod
    def load(cls, file: Path) -> "Row":
        """Read a row from its file."""
        found = json.loads(file.read_text(encoding="utf-8"))
        return cls(**{**found, "gains": {kind: Gain(**each) for kind, each in found["gains"].items()}})


def summary(rows: Sequence[Row]) -> dict[str, dict[str, dict[str, float]]]:
    """For each set, the means of each game and kind; the share is that of the mean gain with labels.

    Example:
        >>> gains = {"lowest": Gain(1.0, 0.5, 1.5, 0.01, 9)}
        >>> summary([Row("pud", "zh", "top-probability", gains, {"lowest": 4.0})])["pud"]["top-probability lowest"]
        {'gain': 1.0, 'better': 1, 'worse': 0, 'of': 1, 'labelled': 4.0, 'share': 0.25}
    """
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, game in dict.fromkeys((row.name, row.game) for row in rows):
        own = [row for row in rows if (row.name, row.game) == (name, game)]
        for kind in own[0].gains:
            gains, labelled = [row.gains[kind] for row in own], mean(row.labelled[kind] for row in own)
            better, worse = (sum(sign * each.gain > 0 and each.p_value < 0.05 for each in gains) for sign in (1, -1))
            gain = mean(each.gain for each in gains)
            found.setdefault(name, {})[f"{game} {kind}"] = {
                "gain": round(gain, 2),
                "better": better,
                "worse": worse,
                "of": len(own),
                "labelled": round(labelled, 2),
                "share": round(gain / labelled, 2) if labelled else float("nan"),
            }
    return found


def masks_of_game(
    setting: Setting, game: str, codes: Sequence[str], options: argparse.Namespace, out: Path
) -> dict[str, dict[str, AnyMask]]:
    """The masks of every kind for each language."""
    plan = ScoringPlan(
        setting.name, setting.task.name, setting.dataset.source, ",".join(codes), game=game, budget=options.budget,
        limit=options.limit, seed=options.seed, bfloat16=options.bfloat16,
    )  # fmt: skip
    found: dict[str, dict[str, AnyMask]] = {}
    for language, scores in run_scoring(plan, out / "scores", setting=setting).scores.items():
        found[language] = {"likely": scores.mask("likely"), "lowest": lowest_mask(scores)}
    if game == AGREEMENT:
        training = _with_options(plan, BestMaskPlan().soft)
        for language, scores in run_scoring(training, out / "soft", setting=setting).scores.items():
            found[language]["soft"] = soft_mask(scores)
    return found


def _with_options(plan: ScoringPlan, soft: Soft) -> ScoringPlan:
    """The plan of soft masks with the options of another plan."""
    fields = {**asdict(plan), "method": Soft.name, "options": asdict(soft), "budget": BestMaskPlan().units}
    return ScoringPlan(**fields)


def rows_of_set(name: str, options: argparse.Namespace) -> Iterable[Row]:
    """The rows of a set; those that have a file are read from it."""
    model, task, data, _ = SETS[name]
    source = data or default_folder()
    if source is None:
        raise HeadwiseError("set HEADWISE_DATA to the data folder, or use --quick")
    setting, codes = load_setting(model, task, str(source)), options.languages.split(",")
    for game in options.games.split(","):
        out = options.out / name / game.partition("(")[0]
        files = {language: out / "rows" / f"{language}.json" for language in codes}
        if not all(file.exists() for file in files.values()):
            for language, masks in masks_of_game(setting, game, codes, options, out).items():
                row = _judged(setting, Labelled.load(options.labelled / name / "rows" / f"{language}.json"), masks,
                              game, options)  # fmt: skip
                write_json(files[language], asdict(row))
        yield from map(Row.load, files.values())


def _judged(
    setting: Setting, labelled: Labelled, masks: dict[str, AnyMask], game: str, options: argparse.Namespace
) -> Row:
    language, masks = labelled.language, {kind: mask for kind, mask in masks.items() if kind in labelled.gains}
    examples = setting.examples([language], "test", options.limit_test).examples[language]
    settings = EngineSettings(bfloat16=options.bfloat16)
    judging = MaskJudge(
        setting.model, setting.heads, setting.task, examples, setting.tokenizer, language, settings=settings
    )
    base, *measured = judging.measure([HeadMask.full(setting.heads), *masks.values()]).statistics
    judge, gains = Judge(cast(Metric, judging.metric), 10_000), {}
    for (kind, mask), each in zip(masks.items(), measured, strict=True):
        test = judge.compare(base, each)
        gains[kind] = Gain(test.difference, test.low, test.high, test.p_value, len(mask.off))
    return Row(labelled.name, language, game, gains, {kind: labelled.gains[kind].gain for kind in gains})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the phrasebook, few units and examples")
    parser.add_argument("--sets", default="pud,massive,xnli")
    parser.add_argument("--languages", default="zh,tr,hi", help="codes separated by commas")
    parser.add_argument("--games", default=",".join(GAMES))
    parser.add_argument(
        "--labelled", type=Path, default=Path("runs/best-masks"), help="folder of benchmarks.best_masks"
    )
    parser.add_argument("--budget", type=float, default=3000, help="maximum number of units of a language's scores")
    parser.add_argument("--limit", type=int, default=256, help="maximum number of dev examples of a language")
    parser.add_argument("--limit-test", type=int, default=1000, help="maximum number of test examples of a language")
    parser.add_argument("--bfloat16", action="store_true", help="compute in bfloat16")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/label-free"))
    options = parser.parse_args()
    if options.quick:
        options.sets, options.languages, options.out = "phrasebook", "tr,zh", options.out / "quick"
        options.labelled, options.games = Path("runs/best-masks-quick"), f"{AGREEMENT},top-probability"
        options.budget, options.limit, options.limit_test = 500, 24, 24
    rows: list[Row] = []
    for name in options.sets.split(","):
        for row in rows_of_set(name, options):
            rows.append(row)
            gains = ", ".join(
                f"{kind} {each.gain:+.2f} ({each.low:+.2f} to {each.high:+.2f}; with labels {row.labelled[kind]:+.2f})"
                for kind, each in row.gains.items()
            )
            print(f"{name} {row.language} {row.game}: {gains}", flush=True)
    print(json.dumps(summary(rows)))


if __name__ == "__main__":
    try:
        main()
    except HeadwiseError as error:
        raise SystemExit(str(error)) from None
