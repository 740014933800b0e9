"""Reports with invented numbers. As a program, this module writes one: `… FILE [small|large]`."""

import sys
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from headwise.report import (
    Curve,
    Gain,
    LanguageCost,
    MaskGains,
    Report,
    Section,
    curves_section,
    gains_section,
    write_report,
)
from headwise.roles.statistics.base import Column
from headwise.roles.table import HeadRoles, LanguageRoles
from headwise.scores import HeadScores, Provenance
from headwise.stats import Decision

LANGUAGES = ("ar", "eu", "zh", "en", "fi", "hi", "sw", "th", "cs", "de", "ja", "ko", "tr", "ur", "yo")
#: More languages, for a large report.
MANY = (*LANGUAGES, "af", "am", "az", "bg", "bn", "ca", "cy", "da", "el", "es", "et", "fa", "fr", "ga", "gl", "gu",
        "he", "hr", "hu", "hy", "id", "is", "it", "ka", "kk", "km", "kn", "lo", "lt", "lv", "mk", "ml", "mn", "mr",
        "my")  # fmt: skip
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


def sample_gains(languages: Iterable[str], seed: int = 1, players: Sequence[str] = HEADS) -> tuple[Gain, ...]:
    """Random gains: some better, some worse, some not significant."""
    rng = np.random.default_rng(seed)
    found = []
    for language in languages:
        base, change, reach = 60 + 30 * rng.random(), 1.6 + 3 * rng.standard_normal(), 0.8 + rng.random()
        off = tuple(players[place] for place in np.sort(rng.permutation(len(players))[: rng.integers(4, 30)]))
        found.append(
            Gain(
                language, len(off), base, base + change, change - reach, change + reach,
                p_value=0.0002 if abs(change) > 2 * reach else 0.021 if abs(change) > reach else 0.34,
                random_mean=base - 1 - rng.random(), random_sd=0.4 + rng.random(), off=off,
                parameters=(118_000_000, 118_000_000 - 49_000 * len(off)),
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


def sample_kinds(languages: Iterable[str], players: Sequence[str] = HEADS) -> tuple[MaskGains, ...]:
    """Gains of several kinds of masks."""
    names, command = list(languages), "headwise prune runs/pos --language {language} --refined --out pruned-{language}"
    return (
        MaskGains("refined", "improved step by step", sample_gains(names, 3, players), command=command),
        MaskGains("targeted", "the heads that are decided to be harmful", sample_gains(names, 1, players)),
        MaskGains("pooled", "one mask for all languages", sample_gains(names, 4, players), main=False),
    )


def sample_gain_section(languages: Iterable[str], players: Sequence[str] = HEADS) -> Section:
    """The section of gains of several kinds of masks."""
    return gains_section(sample_kinds(languages, players), "accuracy", "head", len(players), "On test data.")


def sample_roles(languages: Iterable[str], players: tuple[str, ...] = HEADS, seed: int = 5) -> HeadRoles:
    """Random roles: a few heads attend to the previous token or to separators."""
    rng = np.random.default_rng(seed)
    columns, n = (Column("offset:-1"), Column("separator_top")), len(players)
    return HeadRoles(
        {
            language: LanguageRoles(
                players, columns, rng.beta(0.5, 2.0, (n, 2)), np.full((n, 2), 0.02), np.full((n, 2), 400), 100, 0, 100.0
            )
            for language in languages
        },
        {"fingerprint": "8d1c0c4d3b7aee10"},
    )


def sample_report(languages: tuple[str, ...] = LANGUAGES[:8], players: tuple[str, ...] = HEADS) -> Report:
    """A report with every part."""
    return Report(
        title="Heads of e5-small-pos, pos",
        model="multilingual-e5-small (4-bit origin), LoRA-tuned on English",
        task="part-of-speech tagging",
        data="PUD, test",
        note="The numbers in this report are made up.\nThey only look plausible.",
        sections=(
            sample_gain_section(languages, players),
            curves_section(sample_curves(languages), "accuracy", "heads removed"),
        ),
        scores=sample_scores(languages, players),
        roles=sample_roles(languages, players),
        cost=tuple(
            LanguageCost(
                language,
                {"scoring": 61234.0 + 1000 * place, "controls": 1040.0, "refining": 18432.0, "testing": 6500.0},
                185.2,
            )
            for place, language in enumerate(languages)
        ),
        provenance={"data_fingerprint": "a41b7c0cc2d1", "seed": "7", "machine": "2 cores"},
        commands=("headwise score e5-small-pos --task pos --languages ar,eu,zh", "headwise report runs/pos"),
    )


#: The heads of a large model: 24 layers of 16 heads.
LARGE = tuple(f"encoder.{layer}.{head}" for layer in range(24) for head in range(16))


def large_report() -> Report:
    """A report of 24 × 16 heads in 50 languages."""
    return sample_report(MANY, LARGE)


if __name__ == "__main__":
    write_report(sys.argv[1], large_report() if sys.argv[2:] == ["large"] else sample_report())
