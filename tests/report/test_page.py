"""The whole page: complete, well-formed, safe, small and deterministic."""

import dataclasses
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise import HeadwiseError
from headwise.attention.view import AttentionView, SentenceAttention
from headwise.report import (
    Cloud,
    Curve,
    Gain,
    LanguageCost,
    MaskGains,
    Report,
    curves_section,
    gains_section,
    scatter_section,
    table_section,
    write_report,
)
from headwise.report.attended import MOST_CHARACTERS
from headwise.report.page import render
from headwise.roles import label_heads
from headwise.stats import Decision
from headwise.support.embedding import safe_json
from tests.report.reading import Element, read
from tests.report.samples import (
    HEADS,
    LANGUAGES,
    large_report,
    sample_compared,
    sample_curves,
    sample_gains,
    sample_kinds,
    sample_report,
    sample_roles,
    sample_scores,
    token_row,
)

TITLES = [
    "Gains", "Atlas of heads", "Iterative pruning", "Compare", "Similarity of languages", "Shared and specific", "Cost",
    "Provenance", "How to reproduce",
]  # fmt: skip
NASTY = "\"'><script>alert(1)</script>&amp;\u202e"


@pytest.fixture(scope="module")
def page() -> Element:
    return read(render(sample_report()))


def titles(page: Element) -> list[str]:
    return [title.text for title in page.all("main")[0].all("h2")]


def section(page: Element, title: str) -> Element:
    [found] = [each for each in page.all("section") if each.all("h2")[0].text == title]
    return found


def report_of(*kinds: MaskGains, metric: str = "accuracy") -> Report:
    """A report with gains only."""
    return Report("", sections=(gains_section(kinds, metric, "head", 144),))


def headline_of(report: Report) -> str:
    [found] = read(render(report)).all(class_="headline")
    return found.text


def data_of(text: str) -> Any:
    """The JSON object that the script of a page reads."""
    [found] = read(text).all("script", id="data")
    return json.loads(found.text)


def rows(table: Element) -> list[list[str]]:
    return [[cell.text for cell in row.children] for row in table.all("tbody")[0].children]


def test_the_sections_are_in_order_and_linked_from_the_contents(page: Element) -> None:
    assert titles(page) == TITLES
    links = [link.attributes["href"] for link in page.all("nav")[0].all("a")]
    assert links == [f"#{each.attributes['id']}" for each in page.all("section")]


#: A language that is better, one that is worse, and one without a significant difference.
THREE = (
    Gain("zh", 3, 50.0, 54.0, 2.0, 6.0, 0.0001, 49.0, 0.5, off=("encoder.0.1", "encoder.0.3", "encoder.5.4")),
    Gain("tr", 9, 50.0, 48.0, -3.0, -1.0, 0.02, 48.0, 0.7),
    Gain("xx", 5, 50.0, 50.4, -0.5, 1.3, 0.4),
)


def test_the_headline_is_about_the_best_language() -> None:
    assert headline_of(report_of(MaskGains("targeted", "", THREE), metric="F1")) == (
        "Without 3 of its 144 heads, F1 in Chinese rises from 50.0 to 54.0: +4.0 points (95% interval +2.0 to +6.0). "
        "Without 3 random heads it changes by −1.0 points. Over 3 languages, targeted masks change F1 by +0.8 points "
        "on average: significantly better in 1, significantly worse in 1."
    )


def test_the_headline_is_about_the_main_kind_of_mask_with_the_largest_mean_gain() -> None:
    better, best = (Gain("tr", 1, 50.0, to, 1.0, 6.0, 0.01) for to in (52.5, 58.0))
    kinds = (
        MaskGains("targeted", "", THREE),
        MaskGains("refined", "", (better,)),
        MaskGains("pooled", "", (best,), main=False),
    )
    found = headline_of(report_of(*kinds))
    assert found == (
        "Without 1 of its 144 heads, accuracy in Turkish rises from 50.0 to 52.5: +2.5 points (95% interval +1.0 to "
        "+6.0)."
    )


@pytest.mark.parametrize(
    ("gains", "sentence"),
    [
        (
            [Gain("zh", 0, 50.0, 50.0, 0.0, 0.0, 1.0), Gain("tr", 0, 60.0, 60.0, 0.0, 0.0, 1.0)],
            "No mask helped: no head was chosen for removal in any of 2 languages.",
        ),
        (
            [Gain("zh", 2, 50.0, 50.3, -0.4, 1.0, 0.5), Gain("tr", 3, 60.0, 58.0, -3.0, -1.0, 0.01)],
            "No mask helped: none is significantly better than the whole model in any of 2 languages. The largest "
            "change of accuracy is +0.3 points in Chinese (95% interval −0.4 to +1.0). Some masks are significantly "
            "worse, in 1 language.",
        ),
    ],
)
def test_the_headline_says_that_no_mask_helped(gains: list[Gain], sentence: str) -> None:
    assert headline_of(report_of(MaskGains("refined", "", tuple(gains)))) == sentence


def test_without_gains_the_headline_summarizes_the_scores() -> None:
    scores = sample_scores(["a", "b"])
    harmful = sorted(len(each.decided("harmful")) for each in scores.values())
    [found] = read(render(Report("", scores=scores))).all(class_="headline")
    assert found.text == f"144 heads scored in 2 languages: {harmful[0]} to {harmful[1]} of them are harmful."


def test_one_table_holds_the_gains_of_all_masks() -> None:
    pooled = MaskGains(
        "pooled", "", (Gain("zh", 4, 50.0, 51.0, 0.2, 1.8, 0.03, parameters=(2_000_000, 1_900_000)),), False
    )
    found = section(read(render(report_of(MaskGains("targeted", "", THREE), pooled))), "Gains")
    titles = [button.text for button in found.all("thead")[0].all("button")]
    assert titles == [
        "Language", "Mask", "Removed", "Whole model", "Pruned", "Difference", "95% interval", "P", "Random",
        "Parameters", "Heads removed",
    ]  # fmt: skip
    [table] = found.all("table")
    assert rows(table)[0] == [
        "Chinese zh", "targeted", "3", "50.0", "54.0", "+4.0+", "+2.0 to +6.0", "< 0.001", "−1.0 ± 0.5", "–",
        "encoder.0: 1, 3; encoder.5: 4",
    ]  # fmt: skip
    assert rows(table)[1] == [
        "Chinese zh", "pooled", "4", "50.0", "51.0", "+1.0+", "+0.2 to +1.8", "0.030", "–", "1.9 million (−5.0%)", "",
    ]  # fmt: skip
    assert [row[:2] + row[5:6] for row in rows(table)[2:]] == [
        ["Turkish tr", "targeted", "−2.0−"],
        ["xx", "targeted", "+0.4"],
    ]


def test_every_column_and_every_kind_of_mask_can_be_hidden() -> None:
    kinds = (MaskGains("targeted", "", THREE), MaskGains("pooled", "", THREE[:1], main=False))
    found = section(read(render(report_of(*kinds))), "Gains")
    columns = [box.attributes["data-column"] for box in found.all("input") if "data-column" in box.attributes]
    assert columns == [str(place) for place in range(2, len(found.all("th", scope="col")))]
    boxes = [box for box in found.all("input") if "data-kind" in box.attributes]
    assert ["checked" in box.attributes for box in boxes] == [True, False]
    assert [row.attributes["data-kind"] for row in found.all("tbody")[0].children] == ["0", "1", "0", "0"]


def test_columns_without_values_are_left_out() -> None:
    plain = tuple(dataclasses.replace(gain, random_mean=None, random_sd=None, off=()) for gain in THREE)
    page = read(render(report_of(MaskGains("targeted", "", plain))))
    assert [button.text for button in page.all("thead")[0].all("button")][7:] == ["P"]
    assert "random" not in page.all("main")[0].text


def position(lane: Element, name: str) -> float:
    """The horizontal position of the first mark of a kind, in percent of the width."""
    [found] = [each for each in lane.all("svg", class_="at") if name in (each.children[0].attributes["class"] or "")]
    return float((found.attributes["x"] or "").removesuffix("%"))


def test_the_chart_has_a_dot_with_interval_and_control_for_every_mask() -> None:
    page = read(render(report_of(MaskGains("targeted", "", THREE), MaskGains("refined", "", THREE[:2]))))
    [chart] = page.all(class_="gain-chart")
    assert [label.text for label in chart.all(class_="gain-label")] == ["Chinese zh", "xx", "Turkish tr"]
    lanes = [lane for lane in chart.all("svg") if "data-kind" in lane.attributes]
    assert [lane.attributes["data-kind"] for lane in lanes] == ["0", "1", "0", "0", "1"]
    # The axis is the same for all: from −3 to +6, with a margin of 3% on both sides.
    assert position(lanes[0], "dot-mark") == pytest.approx(3 + 94 * 7 / 9, abs=0.01)
    assert position(lanes[0], "control") == pytest.approx(3 + 94 * 2 / 9, abs=0.01)
    assert position(lanes[3], "dot-mark") == pytest.approx(3 + 94 * 1 / 9, abs=0.01)
    [interval] = lanes[0].all(class_="interval")
    assert (interval.attributes["x1"], interval.attributes["x2"]) == (f"{3 + 94 * 5 / 9:.2f}%", "97.00%")
    filled = [len(lane.all(class_="dot-mark sure")) for lane in lanes]
    assert filled == [1, 1, 0, 1, 1]
    assert lanes[0].attributes["data-tip"] == (
        "Chinese, targeted\n3 heads removed\n50.0 → 54.0 (+4.0)\n95% interval: +2.0 to +6.0, P < 0.001\n"
        "as many at random: −1.0"
    )


def test_the_command_that_prunes_is_shown() -> None:
    command = "headwise prune 'my run' --language {language} --refined --out pruned-{language}"
    kinds = (MaskGains("refined", "", THREE, command=command), MaskGains("pooled", "", THREE))
    found = section(read(render(report_of(*kinds))), "Gains").all("pre")
    assert [each.text for each in found] == ["headwise prune 'my run' --language zh --refined --out pruned-zh"]


def test_the_atlas_says_what_a_value_is() -> None:
    scores = sample_scores(["zh", "tr"])
    assert "The value of a head is what it adds to the probability of the correct answers when it joins" in render(
        Report("", scores=scores)
    )
    alone = {
        code: dataclasses.replace(each, provenance=dataclasses.replace(each.provenance, estimand="leave-one-out"))
        for code, each in scores.items()
    }
    assert "what the probability of the correct answers loses when this head alone is removed" in render(
        Report("", scores=alone)
    )
    assert "The value of a head is" not in render(Report("", scores={**scores, "tr": alone["tr"]}))


def test_the_data_of_the_atlas_are_the_scores() -> None:
    report = sample_report()
    data = data_of(render(report))
    [shape] = data["shapes"]
    assert tuple(shape["players"]) == HEADS
    assert [language["code"] for language in data["languages"]] == list(report.scores)
    assert data["languages"][2]["name"] == "Chinese"
    words = {"-": "harmful", "+": "helpful", "?": "undecided"}
    for language, each in zip(data["languages"], report.scores.values(), strict=True):
        unit = 10.0 ** -data["decimals"]
        assert np.array(language["value"]) * unit == pytest.approx(np.array(each.value), abs=unit / 2)
        assert np.array(language["stderr"]) * unit == pytest.approx(np.array(each.stderr), abs=unit / 2)
        assert tuple(words[letter] for letter in language["decision"]) == each.decision
        assert language["count"] == list(each.count)


def test_the_data_of_the_atlas_have_masks_and_roles() -> None:
    report = sample_report()
    data = data_of(render(report))
    assert data["version"] == 3
    assert list(data["masks"]) == ["refined", "targeted", "pooled"]
    gain = sample_kinds(LANGUAGES[:8])[0].gains[2]
    assert [HEADS[place] for place in data["masks"]["refined"]["zh"]] == list(gain.off)
    assert report.roles is not None
    expected = {(label.role, label.language, label.head, label.sure) for label in label_heads(report.roles)}
    found = {
        (role, language, HEADS[place], bool(sure))
        for role, languages in data["roles"].items()
        for language, rows in languages.items()
        for place, _, _, sure in rows
    }
    assert found == expected
    options = [option.attributes["value"] for option in read(render(report)).all("select", id="view")[0].all("option")]
    assert options == [
        "value",
        "decision",
        "mask:refined",
        "mask:targeted",
        "mask:pooled",
        "roles",
        "role:positional",
        "role:syntactic",
        "role:separator",
    ]


def test_missing_and_infinite_values_are_kept() -> None:
    [scores] = sample_scores(["a"], HEADS[:3]).values()
    scores = dataclasses.replace(scores, value=(math.nan, math.inf, -0.25), stderr=(math.nan,) * 3)
    [language] = data_of(render(Report("", scores={"a": scores})))["languages"]
    assert language["value"] == [None, "Infinity", -2500]
    assert language["stderr"] == [None] * 3


def test_every_language_and_ranking_has_its_curve(page: Element) -> None:
    figures = section(page, "Iterative pruning").all("figure")
    drawn = {
        (f.all("strong")[0].all("code")[0].text, line.attributes["data-name"]): line
        for f in figures
        for line in f.all("polyline")
    }
    for curve in sample_curves(LANGUAGES[:8]):
        points = [
            point.split(",") for point in (drawn[curve.language, curve.ranking].attributes["points"] or "").split()
        ]
        assert (int(points[0][0]), int(points[-1][0])) == (0, 144)
        assert all(float(y) == pytest.approx(curve.value[int(x)], abs=0.051) for x, y in points)
    assert len(drawn) == len(sample_curves(LANGUAGES[:8]))


def test_costs_add_up_and_read_well() -> None:
    costs = (
        LanguageCost("zh", {"scoring": 61234.0, "refining": 1000.0, "testing": 500.0}, 59.0),
        LanguageCost("xx", {"scoring": 2_000_000.0}, 3600.0),
    )
    found = section(read(render(Report("", cost=costs))), "Cost")
    titles = [title.text for title in found.all("thead")[0].all("th")]
    assert titles == ["Language", "Scoring", "Refining", "Testing", "Total", "Time of scoring"]
    assert rows(found.all("table")[0]) == [
        ["Chinese zh", "61,234", "1,000", "500", "62,734", "59.0 s"],
        ["xx", "2.0 million", "–", "–", "2.0 million", "1 h 0 min"],
    ]
    total = [cell.text for cell in found.all("tfoot")[0].all("td")]
    assert total == ["2.1 million", "1,000", "500", "2.1 million", "1 h 0 min"]


def test_provenance_has_every_fact_once(page: Element) -> None:
    found = section(page, "Provenance").all("dl")[0]
    names = [each.text for each in found.all("dt")]
    pairs = dict(zip(names, [each.text for each in found.all("dd")], strict=True))
    assert len(names) == len(pairs)
    assert pairs["Estimand"] == "truncated(0.5)"
    assert pairs["Seed"] == "7"
    assert pairs["Versions"] == "headwise 0.3, torch 2.6"
    assert pairs["Machine"] == "2 cores"
    assert pairs["Data fingerprint"] == "a41b7c0cc2d1"
    assert section(page, "How to reproduce").all("pre")[0].text == "\n".join(sample_report().commands)


def test_the_config_of_a_run_does_not_repeat_the_provenance_of_its_scores() -> None:
    config = {"model": "other", "game": "probability", "seed": "7", "test_split": "test"}
    found = section(read(render(Report("", model="m", scores=sample_scores(["zh"]), provenance=config))), "Provenance")
    names = [each.text for each in found.all("dt")]
    assert [names.count(name) for name in ("Model", "Value of a coalition", "Game", "Seed", "Test split")] == [
        1,
        1,
        0,
        1,
        1,
    ]


def test_missing_parts_are_left_out() -> None:
    full = sample_report()
    assert titles(read(render(Report("Nothing yet")))) == []
    assert titles(read(render(Report("", sections=full.sections[:1])))) == ["Gains"]
    curves = Report("", sections=full.sections[1:], commands=("x",))
    assert titles(read(render(curves))) == ["Iterative pruning", "How to reproduce"]
    alone = Report("", scores=sample_scores(["a"]))
    assert titles(read(render(alone))) == ["Atlas of heads", "Provenance"]


def test_text_from_data_is_escaped() -> None:
    scores = sample_scores([NASTY, "b", "c"])
    scores[NASTY] = dataclasses.replace(
        scores[NASTY], provenance=dataclasses.replace(scores[NASTY].provenance, game=NASTY)
    )
    report = Report(
        title=NASTY, model=NASTY, task=NASTY, data=NASTY, note=NASTY, scores=scores,
        sections=(
            gains_section([MaskGains(NASTY, NASTY, sample_gains([NASTY]), command=NASTY)], NASTY, "head", 144, NASTY),
            curves_section([Curve(NASTY, NASTY, (0, 1), (2.0, 1.0), (1.0, 0.0), (3.0, 2.0))], NASTY, "heads removed"),
            table_section(NASTY, (NASTY, NASTY), [(NASTY, NASTY)], NASTY),
        ),
        cost=(LanguageCost(NASTY, {NASTY: 1.0}, 1.0),), roles=sample_roles([NASTY]),
        provenance={NASTY: NASTY}, commands=(NASTY,),
    )  # fmt: skip
    text = render(report)
    page = read(text)
    assert "<script>alert" not in text
    assert len(page.all("script")) == 2
    assert not [name for each in page.all() for name in each.attributes if name.startswith("on")]
    assert [page.all("h1")[0].text, page.all(class_="note")[0].text] == [NASTY] * 2
    assert [each.text for each in page.all("pre")] == [NASTY] * 2
    assert NASTY in [language.text for language in section(page, "Gains").all("bdi")]
    assert data_of(text)["languages"][0]["code"] == NASTY
    assert list(data_of(text)["masks"]) == [NASTY]


def test_the_data_cannot_end_their_script_element() -> None:
    text = safe_json({"a": "</script><!--<script>", "b": "\u2028&"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"a": "</script><!--<script>", "b": "\u2028&"}


def test_invalid_unicode_is_replaced(tmp_path: Path) -> None:
    write_report(tmp_path / "report.html", Report("half a pair: \ud83d"))
    assert "half a pair: ?" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_page_loads_no_external_resources() -> None:
    text = render(sample_report())
    assert not re.search(r"https?:|//\w|@import|url\((?!#)", text.split("<script")[0])
    assert not re.search(r"https?:|fetch|XMLHttp|import\b|innerHTML|eval", text.split("<script>")[1])
    assert not [e for e in read(text).all() if {"src", "srcset", "style"} & set(e.attributes) or e.name == "link"]
    assert "default-src 'none'" in text


def test_the_same_report_gives_the_same_page() -> None:
    assert render(sample_report()) == render(sample_report())


def test_fifteen_languages_stay_under_half_a_megabyte() -> None:
    assert len(render(sample_report(LANGUAGES)).encode()) < 500_000


def test_heads_of_fifteen_languages_with_attention_stay_under_three_megabytes() -> None:
    report = sample_report(LANGUAGES)
    rng = np.random.default_rng(0)
    rows = {language: token_row(["<s>", *(f"word{place}" for place in range(22)), "</s>"]) for language in LANGUAGES}
    weights = rng.dirichlet(np.full(24, 0.3), (len(HEADS), 24)).astype(np.float32)
    sentences = tuple(
        SentenceAttention(language, row, None, dict(zip(HEADS, weights, strict=True))) for language, row in rows.items()
    )
    whole = dataclasses.replace(report, attention=AttentionView(HEADS, sentences, {}))
    assert sum(len(row) ** 2 for row in rows.values()) * len(HEADS) * 4 / 3 > MOST_CHARACTERS  # more than is allowed
    assert len(render(whole).encode()) < 3_000_000


def test_other_runs_are_in_the_data_with_their_own_decimals_and_names() -> None:
    report = sample_report()
    data = data_of(render(report))
    assert [run["name"] for run in data["runs"]] == ["this run", "other seed", "alone"]
    assert [run["alone"] for run in data["runs"]] == [False, False, True]
    assert "languages" not in data["runs"][0]
    other = data["runs"][1]
    scaled = np.array(next(each["value"] for each in other["languages"] if each["code"] == "zh"))
    expected = report.compared[0].scores["zh"].values()
    np.testing.assert_allclose(scaled * 10.0 ** -other["decimals"], expected, atol=0.51 * 10.0 ** -other["decimals"])
    assert data["runs"][1]["about"] == "stars, truncated(0.5), probability, seed 7"
    assert [len(run["languages"]) for run in data["runs"][1:]] == [8, 2]


@pytest.mark.parametrize(("languages", "shown"), [(["zh", "tr"], True), (["zh"], False)])
def test_two_languages_or_runs_are_compared(languages: list[str], shown: bool) -> None:
    assert ("Compare" in titles(read(render(Report("", scores=sample_scores(languages)))))) is shown
    compared = sample_compared(languages)
    assert "Compare" in titles(read(render(Report("", scores=sample_scores(languages), compared=compared))))


def test_the_opening_tells_the_size_of_the_pruned_model() -> None:
    gain = dataclasses.replace(THREE[0], parameters=(2_000_000, 1_900_000), flops=(200.0, 180.0))
    assert headline_of(report_of(MaskGains("refined", "", (gain,)))).endswith(
        "The pruned model has 1.9 million parameters (−5.0%) and needs 10.0% fewer operations per example."
    )


def test_what_was_done_is_told_at_the_top() -> None:
    [found] = read(render(Report("", about="Heads are <removed>."))).all(class_="done")
    assert found.text == "Heads are <removed>."


def test_fifty_languages_of_384_heads_stay_under_two_megabytes() -> None:
    assert len(render(large_report()).encode()) < 2_000_000


def test_the_file_is_replaced_atomically(tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.html"
    write_report(path, Report("first"))
    write_report(path, Report("second"))
    with pytest.raises(HeadwiseError, match="not the name of a player"):
        write_report(path, Report("third", scores=sample_scores(["a"], ("0.0.somebody", "b"))))
    assert "second" in path.read_text(encoding="utf-8")
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_at_the_path_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HeadwiseError, match="cannot be written"):
        write_report(tmp_path, Report(""))
    assert list(tmp_path.parent.glob(f".{tmp_path.name}-*")) == []


@pytest.mark.parametrize(
    "parts",
    [((0, 1), (1.0,), (), ()), ((0,), (1.0,), (1.0,), ()), ((0, 1), (1.0, 2.0), (1.0,), (1.0,))],
    ids=["values", "one edge", "short band"],
)
def test_a_curve_with_a_missing_point_is_an_error(
    parts: tuple[tuple[int, ...], tuple[float, ...], tuple[float, ...], tuple[float, ...]],
) -> None:
    with pytest.raises(HeadwiseError, match="zh, shapley: a curve needs"):
        Curve("zh", "shapley", *parts)


def test_a_gain_without_a_number_is_an_error() -> None:
    with pytest.raises(HeadwiseError, match="between two numbers"):
        Gain("zh", 1, math.nan, 1.0, 0.0, 0.0, 1.0)


def test_a_curve_of_few_heads_has_each_number_of_heads_once() -> None:
    section = curves_section([Curve("zh", "stars", (0, 1, 2), (60.0, 61.0, 62.0))], "accuracy", "heads removed")
    labels = re.findall(r'text-anchor="middle">(\d+)<', str(section.body))
    assert labels == ["0", "1", "2"]


def test_facts_replace_model_task_and_data_below_the_title() -> None:
    report = Report("", model="/home/me/tagger", task="pos", data="/home/me/data", facts=("Targeted study", "Chinese"))
    [line] = read(render(report)).all(class_="about")
    assert line.text == "Targeted study · Chinese"


def test_the_atlas_follows_the_section_with_the_main_result_and_no_section_of_a_study_is_lost() -> None:
    plot, main, cost = (table_section(title, ("a",), [("b",)], title) for title in ("Plot", "Main", "Cost"))
    sections = (plot, dataclasses.replace(main, headline="The result."), cost)
    page = read(render(Report("", sections=sections, scores=sample_scores(["zh"]), cost=(LanguageCost("zh", {}),))))
    assert titles(page)[:4] == ["Plot", "Main", "Atlas of heads", "Cost"]
    assert section(page, "Cost").all(class_="legend")[0].text == "Cost", "that of the study"


def test_values_without_a_sign_are_not_called_harmful_or_undecided() -> None:
    [scores] = sample_scores(["zh"]).values()
    unsigned = dataclasses.replace(scores.provenance, method="gradient", signed=False)
    undecided: Decision = "undecided"
    decision = (undecided,) * len(HEADS)
    found = dataclasses.replace(scores, value=(0.5,) * len(HEADS), decision=decision, provenance=unsigned)
    text = render(Report("", scores={"zh": found}))
    assert data_of(text)["signed"] is False
    atlas = section(read(text), "Atlas of heads")
    assert "by gradient says how much it matters" in atlas.text
    [scale] = atlas.all(id="scale")
    shown = [each.text for each in scale.all("span") if "value-only" in str(each.attributes.get("class"))]
    assert shown == ["0", "", "≥ +0.500 matters most"]
    assert [option.text for option in atlas.all("option")] == ["value"]
    [opening] = read(text).all(class_="headline")
    assert opening.text == (
        "144 heads scored in 1 language by gradient, which does not tell harmful heads from helpful ones."
    )


@pytest.mark.parametrize(("levels", "own"), [((20.0, 22.0), False), ((20.0, 80.0), True)])
def test_plots_have_the_same_scale_and_their_own_range_where_small_changes_would_be_lost(
    levels: tuple[float, float], own: bool
) -> None:
    curves = [
        Curve(code, "stars", (0, 10), (level, level + 3.0)) for code, level in zip(("zh", "tr"), levels, strict=True)
    ]
    found = section(
        read(render(Report("", sections=(curves_section(curves, "accuracy", "heads"),)))), "Iterative pruning"
    )
    transforms = [str(plot.all("g")[0].attributes["transform"]) for plot in found.all(class_="plot")]
    assert len({each.partition("scale")[2] for each in transforms}) == 1
    assert len({each.partition("scale")[0] for each in transforms}) == (2 if own else 1)
    assert ("not the same range" in found.text) == own


def test_a_panel_is_named_by_its_language() -> None:
    curve = Curve("zh, cross-lingual", "stars", (0, 1), (50.0, 51.0))
    page = read(render(Report("", sections=(curves_section([curve], "accuracy", "heads"),))))
    assert page.all("figcaption")[0].text == "Chinese, cross-lingual zh"


def test_points_fill_the_plot_and_labels_do_not_touch() -> None:
    groups: dict[str, tuple[tuple[float, float], ...]] = {
        "zh": ((0.0, 100.0), (1.0, 100.4)),
        "tr": ((0.0, 100.1), (1.0, 100.5)),
    }
    page = read(render(Report("", sections=(scatter_section([Cloud("before", groups)], "Embeddings", ""),))))
    [plot] = page.all(class_="plot")
    assert {float(str(dot.attributes["cx"])) for dot in plot.all("circle")} == {12.0, 308.0}
    labels = {each.text: float(str(each.attributes["y"])) for each in plot.all("text")}
    assert labels.keys() == {"Chinese", "Turkish"}
    assert abs(labels["Chinese"] - labels["Turkish"]) >= 13


def test_cells_with_many_words_get_room_on_a_phone() -> None:
    found = table_section("Claims", ("claim", "holds"), [("Pruning helps more than anything else", "yes")], texts=[1])
    assert [cell.attributes.get("class") for cell in read(found.body).all("tbody")[0].children[0].children] == [
        "words", None,
    ]  # fmt: skip
