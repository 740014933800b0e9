"""Reports with invented numbers. As a program, this module writes one: `… FILE [LANGUAGES]`."""

import sys
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from headwise.report import Curve, Gain, Report, ScoringCost, Section, curves_section, write_report
from headwise.scores import HeadScores, Provenance
from headwise.stats import Decision
from headwise.studies.targeted_study import gain_sections

LANGUAGES = ("Arabic", "Basque", "Chinese", "English", "Finnish", "Hindi", "Swahili", "Thai", "Czech", "German",
             "Japanese", "Korean", "Turkish", "Urdu", "Yoruba")  # fmt: skip
HEADS = tuple(f"encoder.{layer}.{head}" for layer in range(12) for head in range(12))
RANKINGS = ("shapley", "michel", "random")


def sample_scores(languages: Iterable[str], players: tuple[str, ...] = HEADS, seed: int = 0) -> dict[str, HeadScores]:
    """Random scores with a part that all languages share."""
    rng = np.random.default_rng(seed)
    shared = 0.004 * rng.standard_t(4, len(players)) + 0.0015
    found = {}
    for language in languages:
        value = shared + 0.002 * rng.standard_normal(len(players))
        stderr = 0.0003 + 0.001 * rng.random(len(players))
        found[language] = HeadScores(
            players=players,
            value=tuple(value.tolist()),
            stderr=tuple(stderr.tolist()),
            count=tuple(rng.integers(64, 4096, len(players)).tolist()),
            decision=tuple(_decide(v / s) for v, s in zip(value, stderr, strict=True)),
            provenance=Provenance("stars", "truncated(0.5)", game="probability", language=language, seed=7,
                                  units=61234.0, error_rate=0.1, confidence="betting", model="e5-small-pos",
                                  fingerprint="8d1c0c4d3b7aee10", versions={"headwise": "0.3", "torch": "2.6"}),
            kind="heads" if players[0].count(".") == 2 and players[0].split(".")[1].isdigit() else "ffn",
        )  # fmt: skip
    return found


def _decide(ratio: float) -> Decision:
    return "helpful" if ratio > 3.3 else "harmful" if ratio < -3.3 else "undecided"


WORDS: dict[str, Decision] = {"-": "harmful", "+": "helpful", "?": "undecided"}


def scores_of(values: Sequence[float], decisions: str = "", estimand: str = "full") -> HeadScores:
    """Scores of a few heads with the given values, and a character of `WORDS` for each decision."""
    n = len(values)
    decided = tuple(WORDS[letter] for letter in decisions or "?" * n)
    names = tuple(f"encoder.0.{head}" for head in range(n))
    return HeadScores(names, tuple(values), (0.1,) * n, (9,) * n, decided, Provenance("stars", estimand))


def sample_gains(languages: Iterable[str], seed: int = 1) -> tuple[Gain, ...]:
    """Random gains: some better, some worse, some not significant."""
    rng = np.random.default_rng(seed)
    found = []
    for language in languages:
        base, change, reach = 60 + 30 * rng.random(), 1.6 + 3 * rng.standard_normal(), 0.8 + rng.random()
        clear = abs(change) > reach
        random = base - 1 - rng.random()
        found.append(
            Gain(
                language, int(rng.integers(4, 30)), base, base + change, change - reach, change + reach,
                p_value=0.0002 if abs(change) > 2 * reach else 0.021 if clear else 0.34,
                random_mean=random, random_sd=0.4 + rng.random(), michel=base - 2 * rng.random(),
                zero_shot=base + change / 3, pooled=base + change / 2,
            )
        )  # fmt: skip
    return tuple(found)


def sample_curves(languages: Iterable[str], heads: int = 144, seed: int = 2) -> tuple[Curve, ...]:
    """Random curves with bands."""
    rng = np.random.default_rng(seed)
    removed = np.arange(heads + 1)
    found = []
    for language in languages:
        base = 60 + 25 * rng.random()
        for ranking, knee in zip(RANKINGS, (0.65, 0.45, 0.3), strict=True):
            fall = 1 / (1 + np.exp((removed / heads - knee) * 14))
            value = 8 + (base - 8) * fall + rng.standard_normal(heads + 1) * 0.5
            spread = 1 + 3 * rng.random() * fall
            found.append(
                Curve(
                    language, ranking, tuple(removed.tolist()), *map(_floats, (value, value - spread, value + spread))
                )
            )
    return tuple(found)


def _floats(values: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(values.tolist())


def sample_gain_sections(languages: Iterable[str]) -> tuple[Section, ...]:
    """Gains of every kind of mask."""
    names = list(languages)
    gains = {kind: sample_gains(names, seed) for kind, seed in (("targeted", 1), ("likely", 4), ("refined", 3))}
    return gain_sections(gains, "accuracy", "heads removed")


def sample_report(languages: tuple[str, ...] = LANGUAGES[:8], players: tuple[str, ...] = HEADS) -> Report:
    """A report with every part."""
    return Report(
        title="Harmful heads of e5-small in 8 languages",
        model="multilingual-e5-small (4-bit origin), LoRA-tuned on English",
        task="part-of-speech tagging",
        data="PUD, test",
        note="The numbers in this report are made up.\nThey only look plausible.",
        sections=(
            *sample_gain_sections(languages),
            curves_section(sample_curves(languages), "accuracy", "heads removed"),
        ),
        scores=sample_scores(languages, players),
        cost=tuple(ScoringCost(language, 61234.0 + 1000 * len(language), 185.2) for language in languages),
        provenance={"Data fingerprint": "a41b7c0cc2d1", "Machine": "2 cores"},
        commands=("headwise score e5-small-pos --task pos --languages ar,eu,zh", "headwise report runs/pos"),
    )


if __name__ == "__main__":
    write_report(sys.argv[1], sample_report(LANGUAGES[: int(sys.argv[2]) if len(sys.argv) > 2 else 8]))
