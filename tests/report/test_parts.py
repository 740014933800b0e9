"""The parts of the page: positions of players, comparison of languages, colours."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]

from headwise import HeadwiseError
from headwise.heads import PlayerKind
from headwise.report import Report
from headwise.report.grids import grids
from headwise.report.languages import clustered
from headwise.report.page import render
from headwise.report.palette import STEPS, colour_rules
from tests.report.reading import read
from tests.report.samples import LANGUAGES, sample_scores, scores_of


def test_an_encoder_and_decoder_have_three_maps() -> None:
    players = tuple(f"{stack}.{layer}.0" for stack in ("encoder", "decoder", "cross") for layer in range(2))
    page = read(render(Report("", scores=sample_scores(["a"], players))))
    assert [title.text for title in page.all("figure")[0].all("h3")] == ["Encoder", "Decoder", "Cross-attention"]
    assert len(page.all("figure")[0].all(role="grid")) == 3


def test_pruned_heads_leave_gaps() -> None:
    players = ("encoder.0.1", "encoder.2.0", "encoder.2.2")
    [grid] = grids(players, "heads")
    assert (grid.row_names, grid.columns) == (("0", "1", "2"), 3)
    assert grid.gaps == ((0, 0), (0, 2), (1, 0), (1, 1), (1, 2), (2, 1))
    page = read(render(Report("", scores=sample_scores(["a"], players))))
    assert "absent" in page.text
    assert len((page.all("figure")[0].all(class_="gone")[0].attributes["d"] or "").split("z")) == len(grid.gaps) + 1


def test_feed_forward_blocks_have_one_row_per_stack() -> None:
    players = tuple(f"{stack}.ffn.{layer}" for stack in ("encoder", "decoder") for layer in range(6))
    page = read(render(Report("", scores=sample_scores(["a", "b"], players))))
    drawn = [[len(row.children) for row in figure.all(role="row")] for figure in page.all("figure")]
    assert drawn == [[6, 6], [6, 6]]
    assert page.all("h2")[0].text == "Values of feed-forward blocks"


def test_different_estimands_are_not_compared() -> None:
    scores = {"a": scores_of(range(9)), "b": scores_of(range(9), estimand="truncated(0.5)")}
    assert [title.text for title in read(render(Report("", scores=scores))).all("h2")] == [
        "Values of heads",
        "Provenance",
    ]


def test_heads_with_common_keys_have_one_cell() -> None:
    players = ("decoder.0.kv0", "decoder.0.kv1", "decoder.1.kv0")
    [grid] = grids(players, "heads")
    assert grid.places == {(0, 0): 0, (0, 1): 1, (1, 0): 2}
    assert grid.column_title == "key-value head"
    assert "decoder.0.kv1" in render(Report("", scores=sample_scores(["zh"], players)))


def test_the_map_of_languages_shows_their_rank_correlations() -> None:
    scores = sample_scores(LANGUAGES)
    [found] = read(render(Report("", scores=scores))).all(class_="likeness")
    cells = [cell.attributes["aria-label"] or "" for cell in found.all("rect")]
    assert len(cells) == len(LANGUAGES) ** 2
    for cell in cells:
        one, other = cell.split("\n")[0].split(", ")
        expected = stats.spearmanr(scores[one].value, scores[other].value).statistic
        assert float(cell.split("= ")[1]) == pytest.approx(expected, abs=6e-4)


def test_a_language_with_constant_values_has_no_correlations() -> None:
    scores = {"a": scores_of(range(9)), "b": scores_of([1.0] * 9), "c": scores_of(range(9)[::-1])}
    [found] = read(render(Report("", scores=scores))).all(class_="likeness")
    labels = {(cell.attributes["aria-label"] or ""): cell.attributes["class"] for cell in found.all("rect")}
    assert labels["a, b\nρ = –"] == "none"
    assert labels["a, c\nρ = −1.000"] == "s-16"
    assert labels["a, a\nρ = 1.000"] == "s16"


def test_correlated_languages_are_neighbours() -> None:
    families = np.array([0, 1, 2, 0, 1, 2, 0])
    rho = np.where(families[:, None] == families, 0.9, 0.2)
    order = families[clustered(rho)].tolist()
    assert len(list(itertools.groupby(order))) == 3
    assert sorted(clustered(rho)) == list(range(7))


def test_specific_heads_are_decided_everywhere_and_opposite_in_one_language() -> None:
    values = [0.1] * 5
    scores = {
        "a": scores_of(values, "-+-?+"),
        "b": scores_of(values, "++++-"),
        "c": scores_of(values, "+++-+"),
        "d": scores_of(values, "++--+"),
    }
    table = read(render(Report("", scores=scores))).all("section")[2].all("tbody")[0]
    found = [[cell.text for cell in row.children] for row in table.children]
    assert found == [
        ["encoder.0.0", "b, c, d", "a", "0"],
        ["encoder.0.4", "a, c, d", "b", "0"],
        ["encoder.0.2", "b, c", "a, d", "0"],
        ["encoder.0.3", "b", "c, d", "1"],
    ]
    assert [bold.text for bold in table.all("strong")] == ["a", "b"]


def test_with_two_languages_no_head_is_specific() -> None:
    scores = {"a": scores_of([0.1] * 4, "-+++"), "b": scores_of([0.1] * 4, "++++")}
    found = read(render(Report("", scores=scores))).all("section")[2]
    assert "1 head, none of them specific" in found.text


def test_missing_values_and_standard_errors_are_shown() -> None:
    scores = dataclasses.replace(scores_of([math.nan, 0.5, 0.25]), stderr=(0.1, math.nan, 0.1))
    [row] = read(render(Report("", scores={"a": scores}))).all(role="row")
    assert [cell.attributes["aria-label"] for cell in row.children] == [
        "encoder.0.0\nno value",
        "encoder.0.1\n+0.500\nundecided, 9 flips",
        "encoder.0.2\n+0.250 ± 0.100\n95%: +0.054 to +0.446\nundecided, 9 flips",
    ]


@pytest.mark.parametrize(
    ("name", "kind"),
    [("encoder.0.99999999", "heads"), (f"encoder.{'9' * 5000}.0", "heads"), ("encoder.ffn.512", "ffn")],
)
def test_player_numbers_that_are_too_large_are_an_error(name: str, kind: PlayerKind) -> None:
    with pytest.raises(HeadwiseError, match=f"'{name}' is not a valid player"):
        grids(("encoder.ffn.0" if kind == "ffn" else "encoder.0.0", name), kind)


def test_both_themes_have_every_colour_once() -> None:
    rules = colour_rules()
    for step in range(-STEPS, STEPS + 1):
        assert rules.count(f"--c{step}:#") == 2
        assert f".s{step},.own .o{step}{{fill:var(--c{step})}}" in rules
