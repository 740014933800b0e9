"""The whole page: complete, well-formed, safe, small and deterministic."""

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from headwise import HeadwiseError
from headwise.report import Curve, Gain, Report, ScoringCost, curves_section, table_section, write_report
from headwise.report.page import render
from headwise.studies.targeted_study import gain_sections
from tests.report.reading import Element, read
from tests.report.samples import HEADS, LANGUAGES, sample_curves, sample_gains, sample_report, sample_scores

TITLES = [
    "Gains", "Gains without likely harmful heads", "Gains of refined masks", "Iterative pruning",
    "Values of heads", "Similarity of languages", "Shared and specific", "Cost",
    "Provenance", "How to reproduce",
]  # fmt: skip
NASTY = "\"'><script>alert(1)</script>&amp;‮"


@pytest.fixture(scope="module")
def page() -> Element:
    return read(render(sample_report()))


def titles(page: Element) -> list[str]:
    return [title.text for title in page.all("h2")]


def section(page: Element, title: str) -> Element:
    [found] = [each for each in page.all("section") if each.all("h2")[0].text == title]
    return found


def report_of(gains: Mapping[str, Sequence[Gain]], metric: str = "accuracy") -> Report:
    """A report with gains only."""
    return Report("", sections=gain_sections(gains, metric, "head"))


def rows(table: Element) -> list[list[str]]:
    return [[cell.text for cell in row.children] for row in table.all("tbody")[0].children]


def test_the_sections_are_in_order_and_linked_from_the_contents(page: Element) -> None:
    assert titles(page) == TITLES
    links = [link.attributes["href"] for link in page.all("nav")[0].all("a")]
    assert links == [f"#{each.attributes['id']}" for each in page.all("section")]


def test_the_headline_summarizes_the_gains() -> None:
    gains = (
        Gain("a", 3, 50.0, 54.0, 2.0, 6.0, 0.01, random_mean=49.0),
        Gain("b", 9, 50.0, 48.0, -3.0, -1.0, 0.02, random_mean=48.0),
        Gain("c", 5, 50.0, 50.4, -0.5, 1.3, 0.4, random_mean=50.0),
    )
    likely, refined = ((Gain("a", 1, 50.0, to, 2.0, 6.0, 0.01),) for to in (51.5, 52.5))
    [found] = read(render(report_of({"targeted": gains, "likely": likely, "refined": refined}, "F1"))).all(
        class_="headline"
    )
    assert found.text == (
        "Removing 3 to 9 heads changed F1 by +0.8 points on average: significantly better in 1 of 3 languages, worse "
        "in 1. Removing the same number at random: −1.0 points. Removing all likely harmful ones (1 head) changed F1 "
        "by +1.5 points: significantly better in 1 of 1 language, worse in none. Refined masks remove 1 head and "
        "change F1 by +2.5 points: significantly better in 1 of 1 language, worse in none."
    )


def test_without_gains_the_headline_summarizes_the_scores() -> None:
    scores = sample_scores(["a", "b"])
    harmful = sorted(len(each.decided("harmful")) for each in scores.values())
    [found] = read(render(Report("", scores=scores))).all(class_="headline")
    assert found.text == f"144 heads scored in 2 languages: {harmful[0]} to {harmful[1]} of them harmful."


def test_the_table_holds_the_gains_with_their_marks() -> None:
    gains = (
        Gain("a", 3, 50.0, 54.0, 2.0, 6.0, 0.0001, 49.0, 0.5, 49.5),
        Gain("b", 9, 50.0, 48.0, -3.0, -1.0, 0.02, 48.0, 0.7, 51.5),
        Gain("c", 5, 50.0, 50.4, -0.5, 1.3, 0.4, 50.0, 0.1, None),
    )
    found = section(read(render(report_of({"targeted": gains}))), "Gains")
    table = rows(found.all("table")[0])
    assert table[0] == ["a", "3", "50.0", "54.0", "+4.0+", "", "+2.0 to +6.0", "< 0.001", "49.0 ± 0.5−1.0", "49.5−0.5"]
    assert [row[4] for row in table] == ["+4.0+", "−2.0−", "+0.4"]
    assert table[2][9] == "–"
    assert [mark.text for mark in found.all("abbr")] == ["+", "−"]
    [mean] = found.all("tfoot")[0].children
    assert [cell.text for cell in mean.children] == ["Mean", "5.7", "50.0", "50.8", "+0.8", "", "49.0−1.0", "–"]


def test_columns_without_values_are_left_out() -> None:
    plain = tuple(dataclasses.replace(gain, pooled=None) for gain in sample_gains("abc"))
    found = section(read(render(report_of({"targeted": plain}))), "Gains").all("thead")[0]
    assert [button.text for button in found.all("button")][7:] == ["Random", "Michel", "Zero-shot"]


def test_bars_share_one_scale() -> None:
    gains = tuple(Gain(str(size), 1, 50.0, 50.0 + size, size - 1, size + 1, 0.01) for size in (-2.0, 4.0, 8.0))
    bars = section(read(render(report_of({"targeted": gains}))), "Gains").all(class_="better")
    widths = [float(bar.attributes["width"] or 0) for bar in bars]
    assert widths[1] == pytest.approx(2 * widths[0], abs=0.2)


def test_every_head_of_every_language_has_a_cell_with_its_details(page: Element) -> None:
    scores = sample_report().scores
    figures = section(page, "Values of heads").all("figure")
    assert [figure.all("strong")[0].text for figure in figures] == list(scores)
    for figure, each in zip(figures, scores.values(), strict=True):
        cells = [cell.attributes["aria-label"] or "" for row in figure.all(role="row") for cell in row.children]
        assert tuple(cell.split("\n")[0] for cell in cells) == HEADS
        low, high = each.interval(0.95)
        for place, cell in enumerate(cells):
            known = "\n".join(cell.replace("−", "-").replace(",", "").split("\n")[1:])
            numbers = [float(text) for text in re.findall(r"-?\d+(?:\.\d+)?", known)]
            expected = (each.value[place], each.stderr[place], 95, low[place], high[place], each.count[place])
            assert numbers == pytest.approx(expected, abs=5.1e-5)
            assert each.decision[place] in known


def test_colours_are_symmetric_about_zero_and_shared_between_languages() -> None:
    one, two = sample_scores(["a", "b"], HEADS[:4]).values()
    one = dataclasses.replace(one, value=(0.4, -0.4, 0.1, 0.0))
    two = dataclasses.replace(two, value=(0.2, -0.1, math.nan, 0.05))
    figures = read(render(Report("", scores={"a": one, "b": two}))).all("figure")
    classes = [[cell.attributes["class"] for cell in figure.all(role="row")[0].children] for figure in figures]
    assert classes == [["s16", "s-16", "s4", "s0"], ["s8 o16", "s-4 o-8", "none", "s2 o4"]]


def test_undecided_and_harmful_cells_are_marked() -> None:
    [scores] = sample_scores(["a"], HEADS[:3]).values()
    scores = dataclasses.replace(scores, decision=("undecided", "harmful", "helpful"))
    [figure] = read(render(Report("", scores={"a": scores}))).all("figure")
    starts = {kind: figure.all(class_=kind)[0].attributes["d"] for kind in ("hatched", "minus")}
    assert starts == {"hatched": "M0 0h.94v.94h-.94z", "minus": "M1.27 0.41h.4v.12h-.4z"}


def test_every_language_and_ranking_has_its_curve(page: Element) -> None:
    figures = section(page, "Iterative pruning").all("figure")
    drawn = {
        (f.all("strong")[0].text, line.attributes["data-name"]): line for f in figures for line in f.all("polyline")
    }
    for curve in sample_curves(LANGUAGES[:8]):
        points = [
            point.split(",") for point in (drawn[curve.language, curve.ranking].attributes["points"] or "").split()
        ]
        assert (int(points[0][0]), int(points[-1][0])) == (0, 144)
        assert all(float(y) == pytest.approx(curve.value[int(x)], abs=0.051) for x, y in points)
    assert len(drawn) == len(sample_curves(LANGUAGES[:8]))


def test_costs_add_up_and_read_well() -> None:
    costs = (ScoringCost("a", 61234.0, 59.0), ScoringCost("b", 2_000_000.0, 3600.0))
    found = section(read(render(Report("", cost=costs))), "Cost")
    assert rows(found.all("table")[0]) == [["a", "61,234", "59.0 s"], ["b", "2.0 million", "1 h 0 min"]]
    assert [cell.text for cell in found.all("tfoot")[0].all("td")] == ["2.1 million", "1 h 0 min"]


def test_provenance_and_commands_are_shown_unchanged(page: Element) -> None:
    found = section(page, "Provenance").all("dl")[0]
    pairs = dict(zip(*([e.text for e in found.all(name)] for name in ("dt", "dd")), strict=True))
    assert pairs["Estimand"] == "truncated(0.5)"
    assert pairs["Versions"] == "headwise 0.3, torch 2.6"
    assert pairs["Machine"] == "2 cores"
    assert section(page, "How to reproduce").all("pre")[0].text == "\n".join(sample_report().commands)


def test_missing_parts_are_left_out() -> None:
    full = sample_report()
    assert titles(read(render(Report("Nothing yet")))) == []
    assert titles(read(render(Report("", sections=full.sections[:1])))) == ["Gains"]
    assert titles(read(render(Report("", sections=full.sections[3:], commands=("x",))))) == [TITLES[3], TITLES[9]]
    alone = Report("", scores=sample_scores(["a"]))
    assert titles(read(render(alone))) == ["Values of heads", "Provenance"]


def test_text_from_data_is_escaped() -> None:
    scores = sample_scores([NASTY, "b", "c"])
    scores[NASTY] = dataclasses.replace(
        scores[NASTY], provenance=dataclasses.replace(scores[NASTY].provenance, game=NASTY)
    )
    report = Report(
        title=NASTY, model=NASTY, task=NASTY, data=NASTY, note=NASTY, scores=scores,
        sections=(
            *gain_sections({"targeted": sample_gains([NASTY])}, NASTY, "heads removed"),
            curves_section([Curve(NASTY, NASTY, (0, 1), (2.0, 1.0), (1.0, 0.0), (3.0, 2.0))], NASTY, "heads removed"),
            table_section(NASTY, (NASTY, NASTY), [(NASTY, NASTY)], NASTY),
        ),
        cost=(ScoringCost(NASTY, 1.0, 1.0),), provenance={NASTY: NASTY}, commands=(NASTY,),
    )  # fmt: skip
    text = render(report)
    page = read(text)
    assert "<script>alert" not in text
    assert len(page.all("script")) == 1
    assert not [name for each in page.all() for name in each.attributes if name.startswith("on")]
    assert [page.all("h1")[0].text, page.all(class_="note")[0].text, page.all("pre")[0].text] == [NASTY] * 3
    assert NASTY in [language.text for language in section(page, "Gains").all("bdi")]
    assert any(NASTY in (cell.attributes.get("aria-label") or "") for cell in page.all("rect"))


def test_invalid_unicode_is_replaced(tmp_path: Path) -> None:
    write_report(tmp_path / "report.html", Report("half a pair: \ud83d"))
    assert "half a pair: ?" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_page_loads_no_external_resources() -> None:
    text = render(sample_report())
    assert not re.search(r"https?:|//\w|@import|url\((?!#)", text.split("<script>")[0])
    assert not re.search(r"https?:|fetch|XMLHttp|import\b|innerHTML|eval", text.split("<script>")[1])
    assert not [e for e in read(text).all() if {"src", "srcset", "style"} & set(e.attributes) or e.name == "link"]
    assert "default-src 'none'" in text


def test_the_same_report_gives_the_same_page() -> None:
    assert render(sample_report()) == render(sample_report())


def test_fifteen_languages_stay_under_half_a_megabyte(tmp_path: Path) -> None:
    write_report(tmp_path / "report.html", sample_report(LANGUAGES))
    assert (tmp_path / "report.html").stat().st_size < 500_000


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
