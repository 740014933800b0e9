"""Tables, labels, summaries and joins with scores, on small tables whose answers are known."""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import mannwhitneyu  # type: ignore[import-untyped]

from headwise import HeadMask, HeadScores, HeadwiseError, Provenance
from headwise.roles import (
    HeadRoles,
    LanguageRoles,
    best_heads,
    label_heads,
    role_stability,
    separator_test,
    shared_heads,
    statistic_stability,
    surviving_roles,
)
from headwise.roles.statistics import Column
from headwise.stats import Decision

Values = Sequence[float] | NDArray[np.float64]
HEADS = tuple(f"encoder.{layer}.{head}" for layer in range(2) for head in range(6))
COLUMNS = (
    Column("separator_top"), Column("separator_all"), Column("offset:-1"), Column("syntax:nsubj:head", True, 0.4),
    Column("syntax:punct:head", True, 0.1), Column("entropy", share=False),
)  # fmt: skip


def language(**values: Values) -> LanguageRoles:
    """A table with the given columns; other values are 0.2."""
    table = np.full((len(HEADS), len(COLUMNS)), 0.2)
    for name, given in values.items():
        place = [column.name.replace(":", "_").replace("-", "m") for column in COLUMNS].index(name)
        table[: len(given), place] = given
    return LanguageRoles(
        HEADS, COLUMNS, table, np.full(table.shape, 0.01), np.full(table.shape, 400), examples=100, cut=0, units=100.0
    )


def scores(value: Values, name: str = "de") -> HeadScores:
    decision: tuple[Decision, ...] = tuple("harmful" if each < 0 else "helpful" for each in value)
    return HeadScores(
        HEADS, tuple(value), (0.001,) * len(HEADS), (9,) * len(HEADS), decision,
        Provenance("stars", "full", language=name),
    )  # fmt: skip


def test_labels_follow_the_thresholds() -> None:
    found = HeadRoles(
        {"de": language(offset_m1=(0.95, 0.9, 0.899), syntax_nsubj_head=(0.1, 0.5, 0.499), syntax_punct_head=(0.9,))},
        {},
    )
    labels = {(label.head, label.role): label for label in label_heads(found)}
    assert set(labels) == {
        ("encoder.0.0", "positional"), ("encoder.0.1", "positional"), ("encoder.0.1", "syntactic"),
    }  # fmt: skip
    assert labels["encoder.0.0", "positional"].sure
    assert not labels["encoder.0.1", "positional"].sure
    assert labels["encoder.0.1", "syntactic"].threshold == pytest.approx(0.5)


def test_few_occurrences_give_no_role() -> None:
    table = language(syntax_nsubj_head=(0.9,))
    table.count[0, 3] = 19
    assert label_heads(HeadRoles({"de": table}, {})) == ()


def test_the_best_head_of_a_relation() -> None:
    best, _ = best_heads(language(syntax_nsubj_head=(0.3, 0.6, 0.5)))
    assert (best.relation, best.direction, best.head, best.value, best.baseline) == (
        "nsubj", "head", "encoder.0.1", 0.6, 0.4
    )  # fmt: skip
    assert best.low < 0.6 < best.high


def test_stability_across_languages() -> None:
    found = HeadRoles({"de": language(offset_m1=(0.95, 0.95)), "sw": language(offset_m1=(0.95, 0.1, 0.95))}, {})
    positional = role_stability(found)[0]
    assert positional.any_language == HEADS[:3]
    assert positional.all_languages == HEADS[:1]
    assert positional.jaccard == pytest.approx(1 / 3)
    ramp = np.linspace(0.1, 0.6, 12)
    rising = HeadRoles({"de": language(entropy=ramp), "sw": language(entropy=ramp**2)}, {})
    assert statistic_stability(rising) == {"entropy": pytest.approx(1.0)}


def test_surviving_roles_count_the_heads_that_a_mask_keeps() -> None:
    found = HeadRoles({"de": language(offset_m1=(0.95, 0.95, 0.95))}, {})
    mask = HeadMask(HEADS, tuple(head not in ("encoder.0.1", "encoder.1.5", "encoder.1.4") for head in HEADS))
    (row,) = surviving_roles(found, {"de": mask})
    assert (row.role, row.heads, row.kept, row.share) == ("positional", 3, 2, 0.75)


def test_the_separator_test_is_mann_whitney_with_holms_correction() -> None:
    draw = np.random.default_rng(0)
    high, mixed = np.r_[draw.uniform(0.6, 0.9, 6), draw.uniform(0.0, 0.4, 6)], draw.uniform(0, 1, 12)
    found = HeadRoles({"de": language(separator_top=high), "sw": language(separator_top=mixed)}, {})
    harmful = (-1.0,) * 6 + (1.0,) * 6
    one, other = separator_test(found, {"de": scores(harmful), "sw": scores(harmful, "sw")})
    assert (one.language, one.harmful, one.others) == ("de", 6, 6)
    assert one.p_value == pytest.approx(mannwhitneyu(high[:6], high[6:]).pvalue)
    assert one.superiority == 1.0
    assert one.significant
    assert one.harmful_mean == pytest.approx(high[:6].mean())
    assert other.p_value == pytest.approx(mannwhitneyu(mixed[:6], mixed[6:]).pvalue)
    assert not other.significant


def test_without_harmful_heads_nothing_is_tested() -> None:
    (row,) = separator_test(HeadRoles({"de": language()}, {}), {"de": scores((1.0,) * 12)})
    assert np.isnan(row.p_value)
    assert not row.significant


def test_agnostic_and_specific_heads_with_their_separators() -> None:
    base = np.array([1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1])
    flipped = base.copy()
    flipped[7] = -0.2
    found = HeadRoles(
        {
            "de": language(separator_all=np.full(12, 0.4), offset_m1=(0.95,)),
            "fr": language(separator_all=np.full(12, 0.5)),
            "sw": language(separator_all=np.full(12, 0.9)),
        },
        {},
    )
    shared = shared_heads(found, {"de": scores(base), "fr": scores(base, "fr"), "sw": scores(flipped, "sw")})
    agnostic = [each for each in shared if each.kind == "agnostic"]
    assert [each.head for each in agnostic] == list(HEADS[:6])
    assert agnostic[0].roles == {"positional": frozenset({"de"})}
    (specific,) = [each for each in shared if each.kind == "specific"]
    assert (specific.head, specific.language, specific.separators) == (HEADS[7], "sw", 0.9)
    assert specific.separators_elsewhere == pytest.approx(0.45)
    assert specific.separators_spread == pytest.approx(np.std([0.4, 0.5], ddof=1))


def test_scores_of_other_languages_or_heads_are_refused() -> None:
    found = HeadRoles({"de": language()}, {})
    with pytest.raises(HeadwiseError, match="roles are of de and scores of sw"):
        separator_test(found, {"sw": scores((1.0,) * 12, "sw")})
    few = HeadScores(HEADS[:2], (1.0, 1.0), (0.1, 0.1), (9, 9), ("helpful",) * 2, Provenance("stars", "full"))
    with pytest.raises(HeadwiseError, match=r"the scores of de have no head encoder\.0\.2"):
        separator_test(found, {"de": few})


def test_tables_are_saved_in_three_formats(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    table = language(offset_m1=(0.95,))
    table.count[3, 2] = 0
    table.value[3, 2] = np.nan
    found = HeadRoles({"de": table}, {"model": "tiny"})
    for name in ("roles.json", "roles.csv", "roles.parquet"):
        found.save(tmp_path / name)
    rows = list(found.rows())
    assert len(rows) == len(HEADS) * len(COLUMNS) - 1
    with (tmp_path / "roles.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert [row["head"] for row in written] == [row["head"] for row in rows]
    assert [float(row["value"]) for row in written] == [row["value"] for row in rows]
    assert written[0]["baseline"] == ""
    assert parquet.read_table(tmp_path / "roles.parquet").to_pylist()[5]["statistic"] == rows[5]["statistic"]
    again = HeadRoles.load(tmp_path / "roles.json")
    np.testing.assert_array_equal(again["de"].value, table.value)
    np.testing.assert_array_equal(again["de"].count, table.count)
    assert again["de"].columns[3] == COLUMNS[3]
    assert again.about == {"model": "tiny"}
    with pytest.raises(HeadwiseError, match=r"use \.parquet, \.csv, \.json"):
        found.save(tmp_path / "roles.xlsx")
    with pytest.raises(KeyError, match="there is no language 'fr': there are de"):
        found["fr"]
    with pytest.raises(KeyError, match="there is no statistic 'nothing'"):
        found["de"]["nothing"]
