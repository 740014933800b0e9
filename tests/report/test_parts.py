"""The parts of the page: positions of players, comparison of languages, colours."""

import dataclasses
import itertools
import json
import re
from typing import Any

import numpy as np
import pytest
from markupsafe import Markup
from scipy import stats  # type: ignore[import-untyped]

from headwise import HeadwiseError
from headwise.heads import PlayerKind
from headwise.report import Report, Section, masks_section
from headwise.report.grids import grids
from headwise.report.languages import clustered
from headwise.report.page import render
from headwise.report.palette import STEPS, colour_rules
from headwise.roles.statistics.base import Column
from headwise.roles.table import HeadRoles, LanguageRoles
from tests.report.reading import read
from tests.report.samples import LANGUAGES, sample_scores, scores_of


def grids_of(players: tuple[str, ...]) -> list[dict[str, Any]]:
    """The maps in the data of a page."""
    report = Report("", scores=sample_scores(["a"], players))
    [found] = read(render(report)).all("script", id="data")
    [shape] = json.loads(found.text)["shapes"]
    maps: list[dict[str, Any]] = shape["grids"]
    return maps


def test_an_encoder_and_decoder_have_three_maps() -> None:
    players = tuple(f"{stack}.{layer}.0" for stack in ("encoder", "decoder", "cross") for layer in range(2))
    found = grids_of(players)
    assert [each["title"] for each in found] == ["Encoder", "Decoder", "Cross-attention"]
    assert found[1]["places"] == [[0, 0, 2], [1, 0, 3]]


def test_pruned_heads_leave_gaps() -> None:
    players = ("encoder.0.1", "encoder.2.0", "encoder.2.2")
    [grid] = grids(players, "heads")
    assert (grid.row_names, grid.columns) == (("0", "1", "2"), 3)
    assert grid.gaps == ((0, 0), (0, 2), (1, 0), (1, 1), (1, 2), (2, 1))
    page = read(render(Report("", scores=sample_scores(["a"], players))))
    assert "absent" in page.all("main")[0].text
    whole = read(render(Report("", scores=sample_scores(["a"], ("encoder.0.0", "encoder.0.1")))))
    assert "absent" not in whole.all("main")[0].text


def test_feed_forward_blocks_have_one_row_per_stack() -> None:
    players = tuple(f"{stack}.ffn.{layer}" for stack in ("encoder", "decoder") for layer in range(6))
    [found] = grids_of(players)
    assert (found["rows"], found["columns"], len(found["places"])) == (["Encoder", "Decoder"], 6, 12)
    page = read(render(Report("", scores=sample_scores(["a", "b"], players))))
    assert page.all("h2")[0].text == "Atlas of feed-forward blocks"


def test_languages_with_the_same_players_share_a_shape() -> None:
    scores = {**sample_scores(["a", "b"]), **sample_scores(["c"], ("encoder.0.0",))}
    [found] = read(render(Report("", scores=scores))).all("script", id="data")
    data = json.loads(found.text)
    assert [len(shape["players"]) for shape in data["shapes"]] == [144, 1]
    assert [language["shape"] for language in data["languages"]] == [0, 0, 1]


def test_a_group_of_heads_is_removed_if_all_its_heads_are_and_has_their_roles() -> None:
    heads = tuple(f"decoder.0.{head}" for head in range(4))
    [scores] = sample_scores(["zh"], ("decoder.0.kv0", "decoder.0.kv1")).values()
    scores = dataclasses.replace(scores, members=(heads[:2], heads[2:]))
    masks = {"harmful": {"zh": heads[:3], "de": heads}}
    section = Section("Masks", Markup(""), masks=masks)
    columns = (Column("separator_top"),)
    value = np.array([[0.1], [0.1], [0.1], [0.9]])
    one = LanguageRoles(heads, columns, value, np.full((4, 1), 0.01), np.full((4, 1), 99), 99, 0, 99.0)
    report = Report("", scores={"zh": scores}, sections=(section,), roles=HeadRoles({"zh": one}, {}))
    data = json.loads(read(render(report)).all("script", id="data")[0].text)
    assert data["masks"] == {"harmful": {"zh": [0]}}
    assert data["roles"] == {"separator": {"zh": [[1, "separator_top", 0.9, 1]]}}


def test_different_estimands_are_not_compared() -> None:
    scores = {"a": scores_of(range(9)), "b": scores_of(range(9), estimand="truncated(0.5)")}
    assert [title.text for title in read(render(Report("", scores=scores))).all("main")[0].all("h2")] == [
        "Atlas of heads",
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
        one, other = (name.split()[-1] for name in cell.split("\n")[0].split(", "))
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


@pytest.mark.parametrize(
    ("name", "kind"),
    [("encoder.0.99999999", "heads"), (f"encoder.{'9' * 5000}.0", "heads"), ("encoder.ffn.512", "ffn")],
)
def test_player_numbers_that_are_too_large_are_an_error(name: str, kind: PlayerKind) -> None:
    with pytest.raises(HeadwiseError, match=f"'{name}' is not a valid player"):
        grids(("encoder.ffn.0" if kind == "ffn" else "encoder.0.0", name), kind)


def test_every_colour_has_a_light_and_a_dark_variant() -> None:
    rules = colour_rules()
    for step in range(-STEPS, STEPS + 1):
        assert len(re.findall(rf"--c{step}:light-dark\(#\w{{6}},#\w{{6}}\)", rules)) == 1
        assert f".s{step}{{fill:var(--c{step})}}" in rules


def test_masks_of_a_scoring_run_are_listed_with_the_commands_that_prune() -> None:
    masks = {"harmful": {"zh": ("encoder.0.1",), "de": ()}, "likely": {"zh": ("encoder.0.1", "encoder.2.3"), "de": ()}}
    commands = {name: f"headwise prune runs/x --language {{language}} --{name}" for name in masks}
    found = masks_section(masks, commands, "head")
    assert found is not None
    page = read(found.body)
    table = [[cell.text for cell in row.children] for row in page.all("tbody")[0].children]
    assert table == [
        ["Chinese zh", "harmful", "1", "encoder.0: 1"],
        ["Chinese zh", "likely", "2", "encoder.0: 1; encoder.2: 3"],
    ]
    assert page.all("pre")[0].text.splitlines() == [
        "headwise prune runs/x --language zh --harmful",
        "headwise prune runs/x --language zh --likely",
    ]
    assert masks_section({"harmful": {"zh": ()}}, commands, "head") is None
