"""The results of a study that prunes, then tunes: tables in the layout of Ma et al. (2021), plots, and claims."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headwise.report import SIGNIFICANT, Curve, Section
from headwise.scores import HeadScores
from headwise.scoring.run_folder import SCORING, load_scores
from headwise.stats import PairedTest
from headwise.stats.sign_flips import sign_flip_p_value
from headwise.studies.claims import Claim, Verdict, claims_sections, claims_table, paragraph
from headwise.studies.papers import MA, ma_controls, ma_tables
from headwise.studies.plots import CurvePlot
from headwise.studies.ranked import RANDOM
from headwise.studies.study import check_numbers, read_figures
from headwise.studies.tables import Figure, StudyTable, TableCell, section_of

NAME = "prune-then-tune"
FORMAT, VERSION = "headwise-prune-then-tune-study", 1
#: The arms: which heads are removed. Random arms are numbered.
LOWEST, HIGHEST = "lowest", "highest"
#: The modes in words.
MODE_NAMES = {"cross": "cross-lingual", "multi": "multi-lingual"}
#: Mean gains that the text of the paper states, by task and mode, for mBERT and XLM-R.
_STATED = {
    ("pos", "cross"): "+0.91 (mBERT), +1.78 (XLM-R)",
    ("pos", "multi"): "+0.15 (mBERT), +0.17 (XLM-R)",
    ("ner", "cross"): "+0.81 (mBERT), +1.08 (XLM-R)",
    ("ner", "multi"): "+0.31 (mBERT), +0.67 (XLM-R)",
}
_TEST = "sign-flip permutation test over languages"


@dataclass(frozen=True)
class Point:
    """One tuned model in one language.

    Attributes:
        count: Number of heads removed.
        dev: Dev value.
        test: Metric on test data, in percent.
    """

    count: int
    dev: float
    test: float


@dataclass(frozen=True)
class Arm:
    """The models of one way to choose heads, in one language.

    Attributes:
        points: The models, with more and more heads removed.
        comparison: The paired bootstrap test of the model with the best dev value against the whole model.
    """

    points: tuple[Point, ...]
    comparison: PairedTest

    @property
    def best(self) -> Point:
        """The model with the best dev value; of equal ones that with fewer heads removed."""
        return max(self.points, key=lambda point: (point.dev, -point.count))

    @property
    def best_on_test(self) -> Point:
        """The model with the best test value: chosen on the data that it is measured on, so too high."""
        return max(self.points, key=lambda point: (point.test, -point.count))


@dataclass(frozen=True)
class TargetOutcome:
    """The results in one language.

    Attributes:
        mode: `cross` or `multi`.
        language: The language.
        base: The metric of the whole model, tuned.
        base_dev: Its dev value.
        examples: Number of test examples.
        arms: The results by arm.
    """

    mode: str
    language: str
    base: float
    base_dev: float
    examples: int
    arms: Mapping[str, Arm]

    def gain(self, arm: str) -> float:
        """The gain of the model of an arm with the best dev value; `random` is the mean over the random arms."""
        return float(np.mean(self.gains(arm)))

    def gains(self, arm: str) -> list[float]:
        """The gains of an arm, one for each of its draws."""
        return [found.best.test - self.base for name, found in self.arms.items() if name.partition(" ")[0] == arm]


@dataclass(frozen=True)
class PruneThenTuneStudy:
    """The results of a study that prunes, then tunes.

    Attributes:
        folder: The run folder.
        metric: The metric's name.
        task: The task.
        source: The source language.
        method: The method that ranked the heads.
        outcomes: The results by mode and language.
        scores: The scores of the source.
        seconds: The time of scoring.
        notes: Notes to print with the results.
    """

    folder: Path
    metric: str
    task: str
    source: str
    method: str
    outcomes: tuple[TargetOutcome, ...]
    scores: Mapping[str, HeadScores]
    seconds: Mapping[str, float]
    notes: tuple[str, ...]

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes of the study."""
        return tuple(dict.fromkeys(each.mode for each in self.outcomes))

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of arms: lowest, and the controls."""
        return tuple(dict.fromkeys(arm.partition(" ")[0] for each in self.outcomes for arm in each.arms))

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The claims of the paper, for each mode."""
        return tuple(claim for mode in self.modes for claim in self._claims(mode))

    def _claims(self, mode: str) -> Iterator[Claim]:
        # In the source itself, nothing is transferred.
        chosen = [each for each in self.outcomes if each.mode == mode and each.language != self.source]
        if not chosen:
            return
        start, gains = f"{MODE_NAMES[mode].capitalize()}: ", [each.gain(LOWEST) for each in chosen]
        text = f"{start}removing the lowest-ranked heads before tuning improves {self.metric}"
        yield _claim(text, gains, f"mean gain {_STATED.get((self.task, mode), '')}".strip())
        if HIGHEST in self.kinds:
            text = f"{start}the lowest-ranked heads are better to remove than the highest-ranked ones"
            yield _claim(text, [each.gain(LOWEST) - each.gain(HIGHEST) for each in chosen], "yes (table 5)")
        if RANDOM in self.kinds:
            text = f"{start}the lowest-ranked heads are better to remove than random ones"
            yield _claim(text, [each.gain(LOWEST) - each.gain(RANDOM) for each in chosen], "yes (table 5)")
            text = (
                f"{start}the whole model is beaten more often without the lowest-ranked heads than without random ones"
            )
            wins = [(each.gain(LOWEST) > 0) - np.mean(np.array(each.gains(RANDOM)) > 0) for each in chosen]
            found = _claim(text, [float(each) for each in wins], "yes (tables 2, 3 and 5)")
            won, share = (
                sum(gain > 0 for gain in gains),
                np.mean([np.mean(np.array(each.gains(RANDOM)) > 0) for each in chosen]),
            )
            words = (
                f"{won} of {len(chosen)} languages, random {share:.0%} of the time, {found.evidence.partition(', ')[2]}"
            )
            yield dataclasses.replace(found, evidence=words)

    @property
    def paragraph(self) -> str:
        """Which claims hold here, and how much choosing on test data adds."""
        return f"{paragraph(self.claims, 'Ma et al. (2021)')} {self._caution()}"

    def _caution(self) -> str:
        over = [each.arms[LOWEST].best_on_test.test - each.arms[LOWEST].best.test for each in self.outcomes]
        return (
            f"Choosing the number of heads on test data, as the paper does, adds {np.mean(over):.2f} points on "
            "average. Cross-lingual results of several languages come from the same models, so their gains are not "
            "independent."
        )

    def tables(self) -> tuple[StudyTable, ...]:
        """Results and controls beside those of the paper, the claims, and every model."""
        claims = dataclasses.replace(claims_table(self.claims), note=self.paragraph)
        controls = [self._controls()] if len(self.kinds) > 1 else []
        return (self._main(), *controls, claims, self._points())

    def _main(self) -> StudyTable:
        columns = ("mode", "target", "unpruned", "off", "best on dev", "off on test", "best on test (paper's rule)")
        models = [model for mode in self.modes for model in ma_tables(self.task, mode, self.source)]
        names = tuple(dict.fromkeys(models))
        rows = [self._row(each, names) for each in self.outcomes]
        for mode in self.modes:
            chosen = [each for each in self.outcomes if each.mode == mode]
            offs = [float(np.mean([getattr(each.arms[LOWEST], name).count for each in chosen])) for name in _BEST]
            gains = [
                float(np.mean([getattr(each.arms[LOWEST], name).test - each.base for each in chosen])) for name in _BEST
            ]
            cells: list[TableCell] = [mode, "mean gain", None]
            cells += [part for off, gain in zip(offs, gains, strict=True) for part in (off, Figure(gain, signed=True))]
            paper = (ma_tables(self.task, mode, self.source).get(name, {}) for name in names)
            cells += [
                part
                for found in paper
                for part in (
                    None,
                    Figure(float(np.mean([b - a for a, b in found.values()])), signed=True) if found else None,
                )
            ]
            rows.append(tuple(cells))
        note = (
            "off: heads removed. best on dev is the result; best on test is chosen on the data that it is measured on, "
            f"as in the paper. + and - mark a difference from unpruned (P < {SIGNIFICANT}, paired bootstrap over test "
            f"examples, which does not cover the randomness of tuning). Paper: {MA}, F1; its mean gains are over all "
            "its targets of the source."
        )
        title = f"{self.metric} on test data, source {self.source}, heads ranked by {self.method}"
        paper_columns = tuple(f"paper {name} {part}" for name in names for part in ("unpruned", "pruned"))
        return StudyTable(
            NAME, title, (*columns, *paper_columns), tuple(rows), note if names else note.partition(" Paper:")[0]
        )

    def _row(self, each: TargetOutcome, names: Sequence[str]) -> tuple[TableCell, ...]:
        arm = each.arms[LOWEST]
        figure = Figure(arm.best.test, arm.comparison.difference, arm.comparison.p_value)
        tables = ma_tables(self.task, each.mode, self.source)
        paper = [part for name in names for part in tables.get(name, {}).get(each.language, (None, None))]
        test = arm.best_on_test
        return (each.mode, each.language, each.base, arm.best.count, figure, test.count, test.test, *paper)

    def _controls(self) -> StudyTable:
        rows: list[tuple[TableCell, ...]] = []
        paper = self.source == "en" and any(ma_controls(self.task, mode) for mode in self.modes)
        for each in self.outcomes:
            stated = ma_controls(self.task, each.mode).get(each.language, (None, None)) if paper else ()
            rows.append((each.mode, each.language, *(_gain(each, kind) for kind in self.kinds), *stated))
        for mode in self.modes:
            chosen = [each for each in self.outcomes if each.mode == mode]
            means = [Figure(float(np.mean([each.gain(kind) for each in chosen])), signed=True) for kind in self.kinds]
            rows.append((mode, "mean", *means, *((None, None) if paper else ())))
        columns = ("mode", "target", *self.kinds, *(("paper highest", "paper random") if paper else ()))
        note = (
            "The number of heads is chosen on dev for every column; random is the mean and the standard deviation of "
            "its draws." + (" Paper: mBERT, one random draw, the number of heads chosen on test data." if paper else "")
        )
        title = f"difference of {self.metric} from the unpruned model"
        return StudyTable("controls", title, columns, tuple(rows), note)

    def _points(self) -> StudyTable:
        rows = tuple(
            (each.mode, each.language, arm, point.count, point.dev, point.test)
            for each in self.outcomes
            for arm, found in {
                "unpruned": _unpruned(each),
                **{name: arm.points for name, arm in each.arms.items()},
            }.items()
            for point in found
        )
        columns = ("mode", "target", "arm", "off", "dev", "test")
        return StudyTable("points", f"{self.metric} of every tuned model", columns, rows, printed=False)

    def curves(self) -> tuple[Curve, ...]:
        """The metric on test data by number of heads removed; bands of random heads are the range of the draws."""
        return tuple(_curve(each, kind) for each in self.outcomes for kind in self.kinds)

    def plots(self) -> tuple[CurvePlot, ...]:
        """The curves as one plot."""
        text = f"{self.metric[:1].upper()}{self.metric[1:]} (%) on test data by heads removed before tuning."
        return (CurvePlot("Pruned, then tuned", text, self.curves(), "heads removed"),)

    def sections(self) -> tuple[Section, ...]:
        """The curves, the claims and the tables."""
        return (
            *(plot.section(self.metric) for plot in self.plots()),
            *claims_sections(self.claims, "Ma et al. (2021)", self._caution()),
            *(section_of(table) for table in self.tables() if table.printed and table.name != "claims"),
        )

    def to_dict(self) -> dict[str, Any]:
        """The results as plain data."""
        return {
            "format": FORMAT,
            "version": VERSION,
            **{name: getattr(self, name) for name in ("metric", "task", "source", "method")},
            "outcomes": [dataclasses.asdict(each) for each in self.outcomes],
            "claims": [dataclasses.asdict(each) for each in self.claims],
            "paragraph": self.paragraph,
            "seconds": dict(self.seconds),
            "notes": list(self.notes),
        }


#: The two choices of the number of heads, as properties of `Arm`.
_BEST = ("best", "best_on_test")


def _claim(text: str, differences: Sequence[float], paper: str) -> Claim:
    """The claim that differences are above 0 on average."""
    p_value = sign_flip_p_value(differences)
    mean = float(np.mean(differences)) if differences else 0.0
    verdict: Verdict = "undecided" if p_value >= SIGNIFICANT else "yes" if mean > 0 else "no"
    evidence = f"{mean:+.2f}, P = {p_value:.3f}, {len(differences)} languages"
    return Claim(text, verdict, evidence, _TEST, paper)


def _gain(each: TargetOutcome, kind: str) -> Figure:
    gains = each.gains(kind)
    if kind != RANDOM:
        test = each.arms[kind].comparison
        return Figure(gains[0], test.difference, test.p_value, signed=True)
    return Figure(float(np.mean(gains)), spread=float(np.std(gains)), signed=True)


def _unpruned(each: TargetOutcome) -> tuple[Point, ...]:
    return (Point(0, each.base_dev, each.base),)


def _curve(each: TargetOutcome, kind: str) -> Curve:
    """The curve of an arm; over random arms the mean, as far as all of them go."""
    draws = [arm.points for name, arm in each.arms.items() if name.partition(" ")[0] == kind]
    length = min(map(len, draws))
    values = np.array([[each.base, *(point.test for point in points[:length])] for points in draws])  # (draws, points)
    counts = (0, *(point.count for point in draws[0][:length]))
    label = f"{each.language}, {MODE_NAMES[each.mode]}"
    if kind != RANDOM:
        return Curve(label, kind, counts, tuple(values[0].tolist()))
    parts = (values.mean(0), values.min(0), values.max(0))
    return Curve(label, kind, counts, *(tuple(part.tolist()) for part in parts))


def load_prune_then_tune(folder: Path) -> PruneThenTuneStudy:
    """The study in a run folder.

    Raises:
        HeadwiseError: There is none, or it is not finished.
    """
    with read_figures(folder, f"{NAME}.json", FORMAT, VERSION) as data:
        outcomes = tuple(_read_outcome(each) for each in data["outcomes"])
        return PruneThenTuneStudy(
            folder,
            data["metric"],
            data["task"],
            data["source"],
            data["method"],
            outcomes,
            load_scores(folder / SCORING),
            data["seconds"],
            tuple(data["notes"]),
        )


def _read_outcome(data: Mapping[str, Any]) -> TargetOutcome:
    check_numbers(data["base"], data["base_dev"], data["examples"])
    arms = {}
    for name, arm in data["arms"].items():
        points = tuple(Point(**point) for point in arm["points"])
        check_numbers(*(number for point in points for number in dataclasses.astuple(point)))
        arms[name] = Arm(points, PairedTest(**arm["comparison"]))
    return TargetOutcome(**{**data, "arms": arms})
