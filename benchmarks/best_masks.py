r"""Test gains of `best_mask` against each single kind of mask, for each language and data set.

For each language, heads are scored on dev, `best_mask` compares the kinds of masks by cross-fitting on dev, and the
best mask and all kinds made from all dev examples are judged on test by the paired bootstrap. The last line has the
mean gain of each kind, and the number of languages that are significantly better or worse (p < 0.05). Its reliability
table compares the stated chance of a loss with the share of chosen masks that lost on test.

Results are stored in `--out`, so the same command resumes after an interruption. The data folder (HEADWISE_DATA) is
needed for all sets but `commands` and `phrasebook`. `commands` needs a model that is tuned first:

    headwise tune e5-small --task intents --data commands --train-languages en --out runs/e5-commands --epochs 4 \
      --learning-rate 2e-4 --batch-tokens 384 --bfloat16

The languages of each set are dealt to groups of at most `--group` languages, which are scored together: pooled masks
come from the other languages of the group. The first groups of all sets are done first.

    python -m benchmarks.best_masks [--quick] [--sets pud,xnli] [--out runs/best-masks]
"""

import argparse
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from statistics import mean
from typing import cast

import numpy as np
from numpy.typing import NDArray

from headwise import HeadMask, HeadwiseError
from headwise.data.folders import default_folder
from headwise.engine import EngineSettings
from headwise.engine.evaluation import MaskJudge
from headwise.files import hash_json, write_json
from headwise.scoring import BestMaskPlan, ScoringPlan, Setting, best_of_run, load_setting, run_scoring
from headwise.scoring.best_run import masks_of_run
from headwise.scoring.plan import plan_of
from headwise.soft_masks import AnyMask, SoftMask
from headwise.studies.judge import Judge
from headwise.tasks.metrics import Metric

#: Model, task, data (None for the data folder) and languages of each set.
SETS: dict[str, tuple[str, str, str | None, str]] = {
    "commands": ("runs/e5-commands", "intents", "commands", "all"),
    "massive": ("e5-small-intents", "intents", None, "all"),
    "pud": ("e5-small-pos", "pos", None, "ar,cs,de,en,es,fr,hi,id,it,ja,ko,pl,pt,ru,sv,tr,zh"),
    "xnli": ("e5-small-nli", "nli", None, "all"),
    "treebanks": ("e5-small-pos", "pos", None, "bg,el,fa,he,nl,ur,vi"),
    "phrasebook": ("e5-small-pos", "pos", "phrasebook", "all"),
}
#: The largest number of languages of a set.
MOST_LANGUAGES = 20
#: Bounds of the groups of the reliability table.
GROUPS = ((0.0, 0.01), (0.01, 0.05), (0.05, 0.1), (0.1, 0.2))


@dataclass(frozen=True)
class Gain:
    """The gain of a mask on test.

    Attributes:
        gain: The difference from no mask, in points.
        low: Lower end of its 95% interval.
        high: Upper end.
        p_value: Two-sided p-value of the paired bootstrap.
        removed: Number of heads that are off.
    """

    gain: float
    low: float
    high: float
    p_value: float
    removed: int


@dataclass(frozen=True)
class Row:
    """The result of one language of a set.

    Attributes:
        name: Name of the set.
        language: The language.
        base: The metric on test without a mask, in percent.
        chosen: The kind that `best_mask` chose.
        stated: The expected gain on dev, the ends of its interval, and the chance of a loss.
        units: Cost of the comparison.
        minutes: Processor time of the comparison.
        gains: The test gains of `best` and of every kind.
        ahead: The difference on test between `best` and every kind, and its p-value.
    """

    name: str
    language: str
    base: float
    chosen: str
    stated: tuple[float, float, float, float]
    units: float
    minutes: float
    gains: dict[str, Gain]
    ahead: dict[str, tuple[float, float]]

    @classmethod
    def load(cls, file: Path) -> "Row":
        """Read a row from its file."""
        found = json.loads(file.read_text(encoding="utf-8"))
        return cls(**{**found, "gains": {kind: Gain(**each) for kind, each in found["gains"].items()}})


def judge_language(setting: Setting, run: Path, name: str, language: str, plan: BestMaskPlan, most: int | None) -> Row:
    """Compare masks on dev, and judge all of them on test, in the precision of the run."""
    began = time.process_time()
    best = best_of_run(run, language, plan, setting=setting)
    minutes = (time.process_time() - began) / 60
    kinds = masks_of_run(run, language, plan, setting)
    masks: dict[str, AnyMask] = {"best": best.mask, **{str(kind): mask for kind, mask in kinds.items()}}
    examples = setting.examples([language], "test", most).examples[language]
    judging = MaskJudge(setting.model, setting.heads, setting.task, examples, setting.tokenizer, language)
    judging = judging.changed(settings=EngineSettings(bfloat16=plan_of(run).bfloat16))
    full = HeadMask.full(setting.heads)
    found = _measured(judging, (full, *masks.values()), run.parent / "judged" / language)
    base, measured = found[_about(full)], {kind: found[_about(mask)] for kind, mask in masks.items()}
    judge, gains, ahead = Judge(cast(Metric, judging.metric), 10_000), {}, {}
    for kind, each in measured.items():
        test, other = judge.compare(base, each), judge.compare(each, measured["best"])
        gains[kind] = Gain(test.difference, test.low, test.high, test.p_value, len(masks[kind].off))
        if kind != "best":
            ahead[kind] = other.difference, other.p_value
    stated = (best.gain, best.low, best.high, best.chance_of_loss)
    return Row(name, language, judge.value(base), best.chosen, stated, best.units, minutes, gains, ahead)


def _measured(judging: MaskJudge, masks: Iterable[AnyMask], folder: Path) -> dict[str, NDArray[np.float64]]:
    """The statistics of test examples under different masks, which are kept in a folder."""
    different = {_about(mask): mask for mask in masks}
    files = {about: folder / f"{about}-{len(judging.examples)}.npy" for about in different}
    missing = [about for about, file in files.items() if not file.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    if missing:
        for about, each in zip(
            missing, judging.measure([different[about] for about in missing]).statistics, strict=True
        ):
            np.save(files[about], each)
    return {about: np.load(file) for about, file in files.items()}


def _about(mask: AnyMask) -> str:
    """A hash of the gates of a mask."""
    return hash_json(list(map(float, mask.gates if isinstance(mask, SoftMask) else mask.on)))


def reliability(rows: Sequence[Row]) -> list[dict[str, float]]:
    """For groups of chosen masks with a similar stated chance of a loss: the mean of it, and the share that lost.

    Example:
        >>> gains = {"best": Gain(-0.5, -1, 0, 0.1, 3)}
        >>> row = Row("pud", "zh", 70.0, "likely", (0.5, -1.0, 2.0, 0.15), 9.0, 0.1, gains, {})
        >>> reliability([row])
        [{'from': 0.1, 'to': 0.2, 'masks': 1, 'stated': 0.15, 'lost': 1.0}]
    """
    found = []
    for low, high in GROUPS:
        group = [row for row in rows if row.chosen != "none" and (low or -1) < row.stated[3] <= high]
        if group:
            stated, lost = mean(row.stated[3] for row in group), mean(row.gains["best"].gain < 0 for row in group)
            about = {"from": low, "to": high, "masks": len(group)}
            found.append({**about, "stated": round(stated, 4), "lost": round(float(lost), 4)})
    return found


def summary(rows: Sequence[Row]) -> dict[str, object]:
    """For each set and all of them: the mean gain of each kind, and the numbers of better and worse languages."""
    found: dict[str, object] = {}
    for name in dict.fromkeys([*(row.name for row in rows), "all"]):
        chosen = [row for row in rows if name in (row.name, "all")]
        kinds = dict.fromkeys(kind for row in chosen for kind in row.gains)
        found[name] = {kind: _of_kind(chosen, kind) for kind in kinds}
    kept = [row for row in rows if row.chosen != "none"]
    inside = [row.stated[1] <= row.gains["best"].gain <= row.stated[2] for row in kept]
    return {
        **found,
        "chosen": {kind: sum(row.chosen == kind for row in rows) for kind in sorted({row.chosen for row in rows})},
        "inside_interval": round(mean(inside), 3) if inside else None,
        "reliability": reliability(rows),
        "units": round(mean(row.units for row in rows)),
        "minutes": round(mean(row.minutes for row in rows), 2),
    }


def _of_kind(rows: Sequence[Row], kind: str) -> dict[str, float]:
    """The mean gain of a kind, and the languages in which it, or `best` compared to it, is significantly different."""
    gains = [row.gains[kind] for row in rows if kind in row.gains]
    ahead = [row.ahead[kind] for row in rows if kind in row.ahead]
    better, worse = (sum(sign * each.gain > 0 and each.p_value < 0.05 for each in gains) for sign in (1, -1))
    found = {"gain": round(mean(each.gain for each in gains), 3), "better": better, "worse": worse, "of": len(gains)}
    if ahead:
        wins, losses = (sum(sign * change > 0 and p < 0.05 for change, p in ahead) for sign in (1, -1))
        found |= {"best_better": wins, "best_worse": losses}
    return found


def rows_of_set(name: str, turn: int, options: argparse.Namespace) -> Iterable[Row]:
    """The rows of one group of languages of a set; those that have a file are read from it."""
    model, task, data, languages = SETS[name]
    source = data or default_folder()
    if source is None:
        raise HeadwiseError(f"{name}: set HEADWISE_DATA to the data folder, or use --sets commands,phrasebook")
    setting = load_setting(model, task, str(source))
    codes = setting.codes(options.languages or languages)
    groups = -(-len(codes) // options.group)
    here = codes[turn::groups] if turn < groups else []
    run, scores = options.out / name, options.out / name / f"scores-{turn}"
    plan = BestMaskPlan()
    if options.kinds:
        plan = replace(plan, kinds=options.kinds.split(","))
    scoring = ScoringPlan(
        model, task, str(source), ",".join(here), budget=options.budget, limit=options.limit, seed=options.seed,
        bfloat16=options.bfloat16,
    )  # fmt: skip
    files = {language: run / "rows" / f"{language}.json" for language in here}
    if not options.stored and not all(file.exists() for file in files.values()):
        run_scoring(scoring, scores, setting=setting)
    for language, file in files.items():
        if not options.stored and not file.exists():
            row = judge_language(setting, scores, name, language, plan, options.limit_test)
            write_json(file, asdict(row))
        if file.exists():
            yield Row.load(file)


def parse() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="two languages of the phrasebook, few units, no soft masks"
    )
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--languages", default="", help="codes separated by commas (default: all of each set)")
    parser.add_argument("--kinds", default="", help="kinds of masks separated by commas (default: all)")
    parser.add_argument("--budget", type=float, default=3000, help="maximum number of units of a language's scores")
    parser.add_argument("--limit", type=int, default=256, help="maximum number of dev examples of a language")
    parser.add_argument("--limit-test", type=int, default=1000, help="maximum number of test examples of a language")
    parser.add_argument("--turns", type=int, default=MOST_LANGUAGES, help="number of groups of each set (default: all)")
    parser.add_argument("--stored", action="store_true", help="only print the rows that are stored already")
    parser.add_argument("--bfloat16", action="store_true", help="compute in bfloat16")
    parser.add_argument("--group", type=int, default=4, help="maximum number of languages that are scored together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="run folder (default: runs/best-masks, or runs/best-masks-quick)")
    options = parser.parse_args()
    options.out = options.out or Path("runs/best-masks-quick" if options.quick else "runs/best-masks")
    if options.quick:
        options.sets, options.languages, options.budget = "phrasebook", "tr,zh", 900
        options.kinds = options.kinds or "likely,lowest,refined,pooled"
        options.limit, options.limit_test = 24, 24
    if unknown := [name for name in options.sets.split(",") if name not in SETS]:
        parser.error(f"--sets: {unknown[0]} does not exist, choose from {', '.join(SETS)}")
    return options


def main() -> None:
    options = parse()
    rows: list[Row] = []
    turns = range(min(options.turns, -(-MOST_LANGUAGES // options.group)))
    for turn, name in product(turns, options.sets.split(",")):
        for row in rows_of_set(name, turn, options):
            rows.append(row)
            gains = ", ".join(f"{kind} {each.gain:+.2f}" for kind, each in row.gains.items())
            gain, low, high, loss = row.stated
            print(
                f"{name} {row.language}: {row.base:.2f}, chosen {row.chosen}, expected {gain:+.2f} ({low:+.2f} to "
                f"{high:+.2f}), chance of a loss {loss:.1%}; test: {gains}; {row.units:,.0f} units, "
                f"{row.minutes:.1f} min",
                flush=True,
            )
    print(json.dumps(summary(rows)))


if __name__ == "__main__":
    try:
        main()
    except HeadwiseError as error:
        raise SystemExit(str(error)) from None
