"""Comparisons of results, roles that masks keep, what roles are worth, plots and pages."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, spearmanr  # type: ignore[import-untyped]

from headwise import HeadMask, HeadwiseError
from headwise.roles import (
    HeadRoles,
    Joined,
    LanguageRoles,
    alignment_heads,
    compare_roles,
    plot_layers,
    retained_roles,
    role_stability,
    role_values,
    roles_by_layer,
    statistic_stability,
    write_page,
)
from headwise.roles.statistics import Column
from tests.roles.test_summaries import HEADS, language, scores


def pair(link: tuple[float, ...]) -> LanguageRoles:
    """Alignment heads of a pair of languages, with a baseline of 0.3."""
    names = ("link", "top", "weight", "shuffled")
    columns = tuple(
        Column(f"alignment:{name}:{direction}", True, 0.3) for name in names for direction in ("forward", "backward")
    )
    table = np.full((len(HEADS), len(columns)), 0.05)
    table[: len(link), 0] = link
    counts = np.full(table.shape, 200)
    counts[:, 1::2], table[:, 1::2] = 0, np.nan  # as in a causal model, one direction only
    return LanguageRoles(HEADS, columns, table, np.full(table.shape, 0.01), counts, 100, 0, 100.0)


def mask(*off: str, name: str = "de") -> HeadMask:
    return HeadMask(HEADS, tuple(head not in off for head in HEADS), language=name)


def test_the_best_alignment_head_of_a_pair() -> None:
    found = HeadRoles({"de": language(), "en-de": pair((0.35, 0.6, 0.41))}, {})
    (best,) = alignment_heads(found)
    assert (best.pair, best.direction, best.head, best.link, best.baseline) == (
        "en-de", "forward", HEADS[1], 0.6, 0.3
    )  # fmt: skip
    assert best.low < 0.6 < best.high
    assert (best.weight, best.shuffled, best.count, best.heads) == (0.05, 0.05, 200, 2)


def test_pairs_of_languages_do_not_disturb_stability() -> None:
    ramp = np.linspace(0.1, 0.6, 12)
    single = {"de": language(offset_m1=(0.95, 0.95), entropy=ramp), "sw": language(offset_m1=(0.95,), entropy=ramp)}
    alone, together = HeadRoles(single, {}), HeadRoles({**single, "en-de": pair((0.6,)), "en-sw": pair((0.6, 0.6))}, {})
    assert statistic_stability(together)["entropy"] == statistic_stability(alone)["entropy"]
    by_role = {each.role: each for each in role_stability(together)}
    assert by_role["positional"] == role_stability(alone)[0]
    assert by_role["alignment"].jaccard == pytest.approx(1 / 2)
    assert by_role["alignment"].all_languages == HEADS[:1]


def test_two_results_are_compared_head_by_head() -> None:
    draw = np.random.default_rng(0)
    one, other = draw.uniform(size=(2, 12))
    here = HeadRoles({"de": language(entropy=one, offset_m1=(0.95, 0.95, 0.95)), "fr": language()}, {})
    there = HeadRoles({"de": language(entropy=other, offset_m1=(0.95, 0.1, 0.95, 0.95))}, {})
    (found,) = compare_roles(here, there)
    assert found.language == "de"
    assert found.correlations["entropy"].rho == pytest.approx(spearmanr(one, other).statistic)
    assert found.same == pytest.approx(10 / 12)  # the second and the fourth head differ
    (positional,) = found.roles
    assert (positional.one, positional.other, positional.both, positional.jaccard) == (3, 3, 2, 0.5)
    with pytest.raises(HeadwiseError, match="none in common"):
        compare_roles(here, HeadRoles({"sw": language()}, {}))
    fewer = replace(language(), heads=HEADS[:-1])
    with pytest.raises(HeadwiseError, match="different heads"):
        compare_roles(here, HeadRoles({"de": fewer}, {}))


def test_the_roles_along_a_path_of_masks() -> None:
    found = HeadRoles({"de": language(offset_m1=(0.95, 0.95, 0.95), syntax_nsubj_head=(0.9, 0.1, 0.1, 0.9))}, {})
    path = [mask(*HEADS[4:]), mask(HEADS[0]), mask(*HEADS[:3], *HEADS[5:])]
    columns = retained_roles(found, path)
    assert [(each.kept, each.total) for each in columns] == [(12, 12), (11, 12), (4, 12), (2, 12)]
    assert [dict(each.roles) for each in columns] == [
        {"positional": 3, "syntactic": 2}, {"positional": 2, "syntactic": 1}, {"positional": 3, "syntactic": 2},
        {"positional": 0, "syntactic": 1},
    ]  # fmt: skip
    assert [each.none for each in columns] == [8, 8, 0, 1]
    with pytest.raises(HeadwiseError, match="a mask is of the language 'sw', but roles are of de"):
        retained_roles(found, [mask(name="sw")])
    with pytest.raises(HeadwiseError, match=r"the mask of de has no head encoder\.0\.1"):
        retained_roles(found, [HeadMask(HEADS[:1], (True,), language="de")])


def test_what_roles_are_worth_under_both_baselines() -> None:
    found = HeadRoles({"de": language(offset_m1=(0.95,) * 5)}, {})
    values = np.linspace(1.2, 0.1, 12)
    zero = scores(values)
    mean = replace(scores(values[::-1]), provenance=replace(zero.provenance, baseline="mean"))
    (row,) = role_values(found, {"de": zero})
    assert (row.role, row.baseline, row.heads, row.others) == ("positional", "zero", 5, 7)
    assert row.value == pytest.approx(values[:5].mean())
    assert row.p_value == pytest.approx(mannwhitneyu(values[:5], values[5:]).pvalue)
    assert row.significant
    (row,) = role_values(found, {"de": mean})
    assert (row.baseline, row.superiority) == ("mean", 0.0)


def test_roles_by_layer_are_means_over_the_languages_that_have_them() -> None:
    found = HeadRoles(
        {"de": language(offset_m1=(0.95, 0.95)), "fr": language(offset_m1=(0.95,)), "en-de": pair(())}, {}
    )
    names, table = roles_by_layer(found)["encoder"]
    assert names == ("positional", "syntactic", "separator", "alignment")
    assert table.tolist() == [[1.5, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]


def test_a_page_has_every_table_and_its_plots_are_reproducible(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    harmful = (-1.0,) * 3 + (1.0,) * 9
    roles = HeadRoles(
        {"de": language(offset_m1=(0.95, 0.95), syntax_nsubj_head=(0.8,)), "fr": language(), "en-de": pair((0.6,))},
        {"model": "tiny", "data": "trees", "split": "dev", "notes": ["A note."]},
    )
    joined = Joined(
        {"de": scores(harmful), "fr": scores(harmful, "fr")}, masks=[mask(*HEADS[:6])], other=HeadRoles(roles, {})
    )
    write_page(roles, tmp_path / "page.md", joined)
    page = (tmp_path / "page.md").read_text()
    headings = [line[4:] for line in page.splitlines() if line.startswith("### ")]
    assert headings == [
        "Number of heads with each role", "Roles by layer", "Best head of each relation / most frequent offset, %",
        "Stability across languages", "Alignment heads", "Attention to separators: harmful and other heads",
        "Language-agnostic and language-specific heads", "What roles are worth",
        "Roles of the heads that masks keep", "Compared with another model on other data",
    ]  # fmt: skip
    assert "| nsubj → head | 80 / 40 | 20 / 40 |" in page
    assert "| en-de | forward | encoder.0.0 | 60 [58, 62] | 30 |" in page
    assert "nan" not in page
    for name in ("layers", "relations", "separators", "retained"):
        assert f"(page-{name}.svg)" in page
        assert (tmp_path / f"page-{name}.svg").read_text().startswith("<?xml")
    first = (tmp_path / "page-layers.svg").read_bytes()
    plot_layers(roles, tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_bytes() == first
    plot_layers(roles, tmp_path / "layers.png")
    assert (tmp_path / "layers.png").read_bytes().startswith(b"\x89PNG")
