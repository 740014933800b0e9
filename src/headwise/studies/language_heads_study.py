"""The results of a study of language heads: gains, classes of heads, effects on every language, steering."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from headwise.methods.lahis import language_heads
from headwise.report import SIGNIFICANT, Curve
from headwise.roles.table import LanguageRoles
from headwise.scores import HeadScores
from headwise.scores.specificity import GENERAL, OTHER, SEVERAL, Specificity
from headwise.soft_masks import SoftMask
from headwise.studies.claims import Claim, Contrast, above
from headwise.studies.plots import CurvePlot
from headwise.studies.ranked import RANDOM
from headwise.studies.resampled import Array, Resampled
from headwise.studies.tables import Figure, StudyTable, TableCell
from headwise.studies.tuned_study import TunedStudy

NAME = "language-heads"
#: The model with all heads.
WHOLE = "whole"
#: The condition of learned soft masks.
SOFT_MASK = "soft"
#: Masks of each language that are compared, besides rankings and random masks, with what they remove.
_OWN = ("harmful", "likely", SOFT_MASK)
#: Statistics of attention that the tables show.
ROLES = ("retrieval", "induction", "transition")
#: What gains are.
METRIC = "bits per byte saved (%)"
#: The paper of language heads that are found by `lahis`.
LIU = "Liu et al. (arXiv 2511.07498): heads of a language are important for that language alone"
_MARKS = f"+ better, - worse than the whole model: P < {SIGNIFICANT:g}, paired bootstrap over texts"
#: Languages with more bits per character than this are called little known.
_LITTLE_KNOWN = 2.5


def without_name(language: str, ranking: str) -> str:
    """The condition without the heads of a language by a ranking.

    Example:
        >>> without_name("sw", "stars")
        'without sw by stars'
    """
    return f"without {language} by {ranking}"


def scaled_name(language: str, factor: float) -> str:
    """The condition with the heads of a language scaled.

    Example:
        >>> scaled_name("sw", 1.5)
        'sw x 1.5'
    """
    return f"{language} x {factor:g}"


@dataclass(frozen=True, eq=False)
class Found:
    """What was found on the examples that heads are scored on.

    Attributes:
        method: The method of the values.
        rankings: Scores by ranking and language; those of the method are the first.
        values: Values in percent of the negative log-likelihood, by ranking: of the method, and of `lahis`.
        soft: The soft mask of each language; empty for none.
        roles: What heads attend to, by language; empty if it was not measured.
        units: Cost by language and step.
        seconds: Time by language and step.
        notes: Notes to print with the results.
    """

    method: str
    rankings: Mapping[str, Mapping[str, HeadScores]]
    values: Mapping[str, Specificity]
    soft: Mapping[str, SoftMask]
    roles: Mapping[str, LanguageRoles]
    units: Mapping[str, Mapping[str, float]]
    seconds: Mapping[str, Mapping[str, float]]
    notes: tuple[str, ...] = ()

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages."""
        return tuple(self.rankings[self.method])

    @property
    def main(self) -> Specificity:
        """The values of the method."""
        return self.values[self.method]

    @cached_property
    def attended(self) -> dict[str, Array]:
        """The statistics of attention that were measured, mean over languages, (heads,) each."""
        found = {}
        for name in ROLES:
            places = [(each, each.place(name)) for each in self.roles.values()]
            known = [each[name] for each, place in places if place is not None and each.count[:, place].any()]
            if known:
                found[name] = np.asarray(np.nanmean(known, axis=0))
        return found


@dataclass(frozen=True, eq=False)
class Effects:
    """What was measured on test data.

    Attributes:
        found: Bits per byte of every language under every condition.
        off: Number of heads that are off, by condition and language; None for soft masks.
        sizes: Bytes per character of each language.
        testing: Number of rows and of seconds of testing, by language.
        scales: Factors of the heads of a language.
        count: Number of heads that rankings remove.
    """

    found: Resampled
    off: Mapping[str, Mapping[str, int | None]]
    sizes: Mapping[str, float]
    testing: Mapping[str, tuple[int, float]]
    scales: tuple[float, ...]
    count: int

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages."""
        return self.found.languages

    @property
    def randoms(self) -> list[str]:
        """The conditions without random heads."""
        return [name for name in self.found.conditions if name.startswith(f"{RANDOM} ")]

    def gain(self, languages: Sequence[str], *conditions: str) -> Contrast:
        """Bits per byte saved in percent, mean over languages and conditions: from metrics to a number."""
        rows = self.found.language_places(languages)
        places, base = [self.found.place(name) for name in conditions], self.found.place(WHOLE)

        def contrast(values: Array) -> Array:
            chosen = values[..., rows, :]  # (..., languages, conditions)
            return np.asarray(100 * (1 - chosen[..., places] / chosen[..., [base]]).mean((-1, -2)))

        return contrast

    def figure(self, language: str, *conditions: str) -> Figure:
        """The gain of one language with its test."""
        test = self.found.compare(self.gain([language], *conditions))
        return Figure(test.difference, test.difference, test.p_value, signed=True)

    def bits(self, language: str, condition: str = WHOLE) -> float:
        """Bits per byte."""
        [row] = self.found.language_places([language])
        return float(self.found.mean[row, self.found.place(condition)])


def study_of(folder: Path, found: Found, effects: Effects) -> TunedStudy:
    """The study of what was found and measured."""
    tables = [gain_table(found, effects), class_table(found)]
    tables += [matrix_table(effects, ranking) for ranking in found.values]
    if found.attended:
        tables.append(role_table(found))
    tables += [steering_table(effects), cost_table(found, effects), interval_table(effects), head_table(found)]
    seconds = {code: sum(each.values()) + effects.testing[code][1] for code, each in found.seconds.items()}
    return TunedStudy(
        folder, NAME, METRIC, tuple(tables), claims(found, effects), (steering_plot(effects),),
        notes=(*found.notes, *_little_known(effects)), paper="this study",
        scores=found.rankings[found.method], seconds=seconds,
    )  # fmt: skip


def _little_known(effects: Effects) -> tuple[str, ...]:
    """A note on languages that the model knows little of."""
    per_character = {code: effects.bits(code) * size for code, size in effects.sizes.items()}
    known = [f"{code} ({bits:.2f})" for code, bits in per_character.items() if bits > _LITTLE_KNOWN]
    if not known:
        return ()
    return (
        f"The model needs more than {_LITTLE_KNOWN:g} bits per character in {', '.join(known)}: it knows little of "
        "these languages, and a gain there may only move it towards the frequencies of letters.",
    )


def gain_table(found: Found, effects: Effects) -> StudyTable:
    """The gain of every kind of mask in every language."""
    own = [name for name in _OWN if name in effects.found.conditions]
    rows = []
    for code in effects.languages:
        cells: list[TableCell] = [code, effects.bits(code), effects.bits(code) * effects.sizes[code]]
        cells += [effects.figure(code, name) for name in found.rankings]
        cells += [effects.figure(code, *effects.randoms)] if effects.randoms else []
        for name in own:
            cells += [effects.off[name][code]] if name != SOFT_MASK else []
            cells.append(effects.figure(code, name))
        rows.append(tuple(cells))
    names = [part for name in own for part in ([f"{name}: off", name] if name != SOFT_MASK else [name])]
    columns = ("language", "bits/byte", "bits/char", *found.rankings, *([RANDOM] if effects.randoms else []), *names)
    note = (
        f"Gains: bits per byte saved, in percent; {_MARKS}. Each ranking removes its lowest heads ({effects.count}); "
        f"{RANDOM} is the mean of {len(effects.randoms)} masks. harmful: decided by {found.method}; likely: by its "
        "values and standard errors; soft: a learned gate for every head."
    )
    return StudyTable("gains", "gain of removing heads", columns, tuple(rows), note)


def class_table(found: Found) -> StudyTable:
    """The heads of each language, and the general heads."""
    main, scores = found.main, found.rankings[found.method]
    classes = [*found.languages, SEVERAL, GENERAL, OTHER]
    rows: list[tuple[TableCell, ...]] = []
    for name in classes:
        members = main.members(name)
        counts: tuple[TableCell, ...] = (None, None, None)
        if name in scores:
            likely = int(main.helpful[main.languages.index(name)].sum())
            counts = (len(scores[name].decided("helpful")), likely, len(scores[name].decided("harmful")))
        shown = ", ".join(members) if name != OTHER else ""
        rows.append((name, len(members), *counts, shown))
    note = (
        f"A head is general if it is likely helpful in at least {min(main.general, len(found.languages))} languages. "
        "Another head is of one language if it is likely helpful there and its value (in percent of the negative "
        "log-likelihood) is above its mean in the other languages; of several languages if that holds for more than "
        f"one. Expected share of wrong ones: {main.false_share:g} each."
    )
    columns = ("class", "heads", "decided helpful", "likely helpful", "decided harmful", "names")
    return StudyTable("classes", "heads of one language, and general heads", columns, tuple(rows), note)


def matrix_table(effects: Effects, ranking: str) -> StudyTable:
    """What turning the heads of each language off does to every language."""
    rows: list[tuple[TableCell, ...]] = []
    for code in effects.languages:
        condition = without_name(code, ranking)
        rows.append((code, *(effects.figure(other, condition) for other in effects.languages)))
    if effects.randoms:
        rows.append((RANDOM, *(effects.figure(other, *effects.randoms) for other in effects.languages)))
    note = (
        f"Rows: the heads of a language ({effects.count}) are off, those whose values by {ranking} are most above "
        f"their mean in the other languages. Columns: bits per byte saved in that language, in percent; {_MARKS}."
    )
    title = f"the heads of one language are off, by {ranking}"
    return StudyTable(f"without-{ranking}", title, ("heads of", *effects.languages), tuple(rows), note)


def role_table(found: Found) -> StudyTable:
    """What the heads of each class attend to."""
    classes = np.array(found.main.classes)
    rows = []
    for name in (*found.languages, SEVERAL, GENERAL, OTHER):
        chosen = classes == name
        means = [float(np.nanmean(each[chosen])) if chosen.any() else None for each in found.attended.values()]
        rows.append((name, int(chosen.sum()), *means))
    note = (
        "Means over the heads of a class. retrieval: share of tokens whose largest weight is on a copy of the next "
        "token; induction: weight on tokens after other occurrences of the same token; transition: share of tokens "
        "whose largest weight is on the source token that the next token translates."
    )
    columns = ("class", "heads", *found.attended)
    return StudyTable("class-roles", "what heads of each class attend to", columns, tuple(rows), note)


def steering_table(effects: Effects) -> StudyTable:
    """The gain of scaling the heads of each language, in that language and in the others."""
    rows: list[tuple[TableCell, ...]] = []
    for code in effects.languages:
        others = [other for other in effects.languages if other != code]
        for place, languages in (("own", [code]), ("others", others)):
            tests = [effects.found.compare(effects.gain(languages, scaled_name(code, each))) for each in effects.scales]
            rows.append((code, place, *(Figure(t.difference, t.difference, t.p_value, signed=True) for t in tests)))
    columns = ("heads of", "measured in", *(f"x {each:g}" for each in effects.scales))
    note = (
        f"The heads of a language ({effects.count}) are scaled. own: bits per byte saved in that language; others: "
        f"mean over the other languages; in percent; {_MARKS}."
    )
    return StudyTable("steering", "the heads of one language are scaled", columns, tuple(rows), note)


def cost_table(found: Found, effects: Effects) -> StudyTable:
    """Units and minutes of every step."""
    steps = [*next(iter(found.units.values()))]
    rows: list[tuple[TableCell, ...]] = []
    for code in effects.languages:
        tested, seconds = effects.testing[code]
        total = sum(found.seconds[code].values()) + seconds
        units = [round(found.units[code][step]) for step in steps]
        rows.append((code, *units, tested, total / 60))
    note = "Units: passes of an example through the model. testing: rows, before shared layers are counted once."
    return StudyTable("cost", "cost", ("language", *steps, "testing", "minutes"), tuple(rows), note)


def interval_table(effects: Effects) -> StudyTable:
    """Every condition in every language with its interval, for a CSV file."""
    rows = []
    for code in effects.languages:
        for name in effects.found.conditions:
            test = effects.found.compare(effects.gain([code], name))
            off = effects.off[name][code]
            rows.append((code, name, off, effects.bits(code, name), test.difference, test.low, test.high, test.p_value))
    columns = ("language", "condition", "off", "bits per byte", "gain %", "low", "high", "P")
    return StudyTable("conditions", "all conditions with 95% intervals", columns, tuple(rows), printed=False)


def head_table(found: Found) -> StudyTable:
    """Every head with its class, values, decisions and roles, for a CSV file."""
    main, scores = found.main, found.rankings[found.method]
    best = language_heads(found.rankings["lahis"]).heads if "lahis" in found.rankings else {}
    rows = []
    for place, (head, name) in enumerate(zip(main.players, main.classes, strict=True)):
        decided = [f"{each.decision[place]} {code}" for code, each in scores.items()]
        shown = ", ".join(each for each in decided if not each.startswith("undecided"))
        by_lahis = [", ".join(code for code, heads in best.items() if head in heads)] if best else []
        attended = [float(each[place]) for each in found.attended.values()]
        values = [*main.values[:, place].tolist(), *main.lower[:, place].tolist()]
        rows.append((head, name, shown, *by_lahis, *(_finite(each) for each in (*values, *attended))))
    columns = (
        *("head", "class", "decisions", *(["top 4% by lahis"] if best else [])),
        *(f"value {code} (%)" for code in main.languages),
        *(f"above others, {code}" for code in main.languages),
        *found.attended,
    )
    return StudyTable("heads", "all heads", columns, tuple(rows), printed=False)


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def steering_plot(effects: Effects) -> CurvePlot:
    """Curves over the factor of the heads of each language."""
    curves = []
    for code in effects.languages:
        others = [other for other in effects.languages if other != code]
        for line, languages in (("that language", [code]), ("mean of the other languages", others)):
            points = [effects.found.interval(effects.gain(languages, scaled_name(code, s))) for s in effects.scales]
            percent = tuple(round(100 * each) for each in effects.scales)
            curves.append(Curve(code, line, percent, *(tuple(each) for each in zip(*points, strict=True))))
    text = (
        f"Bits per byte saved (%) on test data when the heads of one language ({effects.count}; the language is the "
        "title of each plot) are scaled, with 95% intervals."
    )
    return CurvePlot("Steering by scaling heads", text, tuple(curves), "scale of the heads of the language, %")


def claims(found: Found, effects: Effects) -> tuple[Claim, ...]:
    """What the study checks by tests over all languages."""
    checked = []
    for ranking in found.values:
        own = _mean([effects.gain([code], without_name(code, ranking)) for code in effects.languages])
        others = _mean(
            [
                effects.gain([each for each in effects.languages if each != code], without_name(code, ranking))
                for code in effects.languages
            ]
        )
        start = f"Heads of a language by {ranking}: turning them off costs that language more than"
        paper = LIU if ranking == "lahis" else ""
        checked.append(above(f"{start} the others.", effects.found, _minus(others, own), paper=paper))
        if effects.randoms:
            random = effects.gain(effects.languages, *effects.randoms)
            checked.append(above(f"{start} random heads.", effects.found, _minus(random, own)))
    checked += _gain_claims(found, effects)
    if higher := [each for each in effects.scales if each > 1]:
        steered = _mean([effects.gain([code], scaled_name(code, higher[0])) for code in effects.languages])
        text = f"Scaling the heads of a language by {higher[0]:g} makes texts of that language more likely."
        checked.append(above(text, effects.found, steered))
    return tuple(checked)


def _gain_claims(found: Found, effects: Effects) -> list[Claim]:
    """Whether removing heads helps, and whether the method chooses them better than other rankings do."""
    main = effects.gain(effects.languages, found.method)
    text = f"Removing the lowest heads ({effects.count}) by {found.method} makes texts more likely."
    checked = [above(text, effects.found, main)]
    others: dict[str, tuple[str, ...]] = {name: (name,) for name in found.rankings if name != found.method}
    if effects.randoms:
        others[RANDOM] = tuple(effects.randoms)
    for name, conditions in others.items():
        other = effects.gain(effects.languages, *conditions)
        text = f"The lowest heads by {found.method} are better removed than those by {name}."
        checked.append(above(text, effects.found, _minus(main, other)))
    if found.soft:
        gain = effects.gain(effects.languages, SOFT_MASK)
        checked.append(above("Soft masks make texts more likely.", effects.found, gain))
    return checked


def _mean(contrasts: Sequence[Contrast]) -> Contrast:
    return lambda values: np.asarray(np.mean([each(values) for each in contrasts], axis=0))


def _minus(one: Contrast, other: Contrast) -> Contrast:
    return lambda values: np.asarray(one(values) - other(values))
