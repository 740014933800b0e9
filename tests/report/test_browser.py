"""The page in a real browser, as a reader uses it. Every test also checks that the console stays empty."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise.attention.view import AttentionView, SentenceAttention
from headwise.report import (
    ComparedRun,
    Curve,
    LanguageCost,
    MaskGains,
    Report,
    curves_section,
    gains_section,
    write_report,
)
from headwise.report.page import render
from headwise.roles.labels import label_heads
from headwise.roles.statistics.base import Column
from headwise.roles.table import HeadRoles, LanguageRoles
from tests.report.browser import Tab, open_browser
from tests.report.samples import (
    HEADS,
    LANGUAGES,
    TOKENS,
    large_report,
    sample_attention,
    sample_compared,
    sample_curves,
    sample_gains,
    sample_report,
    sample_roles,
    sample_scores,
    scores_of,
    token_row,
)

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
Open = Callable[..., Tab]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as found:
        yield found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(path, sample_report())
    return path


@pytest.fixture
def visit(browser: Any) -> Iterator[Open]:
    """Opens pages; at the end of the test they must have had no errors."""
    tabs: list[Tab] = []

    def start(path: Path, link: str = "", **options: Any) -> Tab:
        tabs.append(Tab(browser, path, link, **options))
        return tabs[-1]

    yield start
    for tab in tabs:
        tab.close()


def test_the_opening_screen_has_the_sentence_and_the_chart(visit: Open, report: Path) -> None:
    tab = visit(report)
    assert re.match(r"Without \d+ of its 144 heads, accuracy in \w+ rises from", tab.text(".headline"))
    chart = tab.page.locator(".gain-chart").bounding_box()
    assert chart["y"] + chart["height"] < 950  # on the first screen
    lanes = tab.page.locator(".gain-chart svg.kind:visible").count()
    assert lanes == 16  # two main kinds of masks in 8 languages
    tab.page.locator(".kinds input").nth(2).check()
    assert tab.page.locator(".gain-chart svg.kind:visible").count() == 24
    tab.page.locator(".gain-chart svg.kind .dot-mark").first.hover()
    assert tab.text("#tip").startswith("Swahili, refined\n")


def test_the_opening_screen_has_all_heads_in_all_languages(visit: Open, report: Path, tmp_path: Path) -> None:
    tab = visit(report)
    strips = tab.page.locator("#glance .strip")
    strips.first.wait_for()
    assert strips.count() == 8
    box = tab.page.locator("#glance").bounding_box()
    text = tab.page.locator(".headline").bounding_box()
    assert box["x"] > text["x"] + text["width"]
    assert box["y"] + box["height"] < tab.page.locator("nav").bounding_box()["y"]
    tab.page.emulate_media(media="print")
    assert not tab.page.locator("#glance").is_visible()
    tab.page.emulate_media(media="screen")
    strips.first.click(position={"x": 1, "y": 2})
    tab.page.locator("#head-page").wait_for()
    assert tab.text("#head-title").startswith("L0H0")
    write_report(tmp_path / "large.html", large_report())
    large = visit(tmp_path / "large.html")
    large.page.locator("#glance .strip").first.wait_for()
    assert large.page.locator("#glance .strip").count() == 50
    assert large.page.locator("#glance").bounding_box()["height"] < 300


def test_one_table_with_columns_to_show_and_to_hide(visit: Open, report: Path) -> None:
    tab = visit(report)
    assert not tab.page.locator(".sortable").is_visible()
    tab.page.get_by_text("Table of all numbers").click()
    heads = tab.page.locator(".sortable th", has_text="Heads removed")
    assert not heads.is_visible()
    tab.page.get_by_role("checkbox", name="Heads removed").check()
    assert heads.is_visible()
    assert "encoder.1: 11; encoder.2: 0, 3" in tab.text(".sortable tbody .heads")
    tab.page.get_by_role("button", name="Difference").click()
    shown = tab.page.locator(".sortable tbody tr:visible .difference").all_inner_texts()
    numbers = [float(re.sub(r"[+−]$", "", text.strip()).replace("−", "-")) for text in shown]
    assert len(numbers) == 16
    assert numbers == sorted(numbers, reverse=True)


def click_cell(tab: Tab, language: str, layer: int, head: int) -> None:
    """Click a cell of the map of a language with 12 × 12 heads."""
    tab.page.locator(f'figure[data-language="{language}"] svg').scroll_into_view_if_needed()
    tab.page.locator(f'figure[data-language="{language}"] svg path').first.wait_for()
    x, y = tab.run(
        f"""() => {{
          const svg = document.querySelector('figure[data-language="{language}"] svg');
          const at = new DOMPoint({head} + .4, {layer} + .4).matrixTransform(svg.getScreenCTM());
          return [at.x, at.y];
        }}"""
    )
    tab.page.mouse.click(x, y)


def test_a_click_on_a_head_opens_its_page(visit: Open, report: Path) -> None:
    tab = visit(report)
    click_cell(tab, "zh", 3, 5)
    tab.page.locator("#head-page").wait_for()
    assert tab.text("#head-title").split() == ["L3H5", "encoder.3.5"]
    assert tab.page.url.endswith("#head=L3H5&language=zh")
    scores, place = sample_scores(LANGUAGES[:8]), HEADS.index("encoder.3.5")
    chart = tab.page.locator("#head-page .value-chart").first
    shown = dict(zip(
        chart.locator(".gain-label code").all_inner_texts(), chart.locator(".number").all_inner_texts(), strict=True
    ))  # fmt: skip
    assert {code: float(text.replace("−", "-")) for code, text in shown.items()} == {
        code: pytest.approx(each.value[place], abs=5.1e-5) for code, each in scores.items()
    }
    assert tab.text("#head-page .gain-label.chosen").split() == ["Chinese", "zh"]
    harmful = [code for code, each in scores.items() if each.decision[place] == "harmful"]
    assert tab.text("#head-page .verdict li").startswith(f"harmful in {len(harmful)} of 8")
    assert tab.page.locator("#head-page h3").all_inner_texts() == [
        "Value in every language", "Value in the run other seed", "Removed alone, by the run alone", "Attention",
        "Removed by the masks of", "Roles", "Best relation",
    ]  # fmt: skip
    tab.page.keyboard.press("ArrowRight")
    tab.page.locator("#head-title").filter(has_text="L3H6").wait_for()
    tab.page.keyboard.press("Escape")
    assert not tab.page.locator("#head-page").is_visible()
    assert "#" not in tab.page.url


def test_a_link_opens_a_head_in_a_view(visit: Open, report: Path) -> None:
    tab = visit(report, "head=L11H0&language=th&view=decision")
    tab.page.locator("#head-page").wait_for()
    assert tab.text("#head-title").startswith("L11H0")
    assert tab.text("#head-page .gain-label.chosen").split() == ["Thai", "th"]
    assert tab.page.locator("#view").input_value() == "decision"
    tab.page.go_back()
    lost = visit(report, "head=L99H0")
    assert lost.page.locator("#found").text_content() == "There is no head L99H0."
    assert not lost.page.locator("#head-page").is_visible()


def test_the_back_button_closes_a_head(visit: Open, report: Path) -> None:
    tab = visit(report)
    click_cell(tab, "zh", 0, 0)
    tab.page.locator("#head-page").wait_for()
    tab.page.go_back()
    tab.page.locator("#head-page").wait_for(state="hidden")


@pytest.mark.parametrize("typed", ["L3H5", "l3h5", "3.5", "encoder.3.5"])
def test_search_finds_a_head(visit: Open, report: Path, typed: str) -> None:
    tab = visit(report)
    tab.page.keyboard.press("/")
    tab.page.keyboard.type(typed)
    tab.page.keyboard.press("Enter")
    tab.page.locator("#head-page").wait_for()
    assert tab.text("#head-title").endswith("encoder.3.5")


def test_the_keyboard_moves_over_a_map(visit: Open, report: Path) -> None:
    tab = visit(report)
    tab.page.locator("#find-language").focus()
    while tab.run("() => document.activeElement.closest('figure')?.dataset.language ?? ''") != "ar":
        tab.page.keyboard.press("Tab")
    assert tab.text("#tip").startswith("encoder.0.0 · Arabic\n")
    tab.page.keyboard.press("ArrowDown")
    tab.page.keyboard.press("ArrowRight")
    assert tab.text("#tip").startswith("encoder.1.1 · Arabic\n")
    assert tab.page.locator("#live").text_content().startswith("encoder.1.1")
    tab.page.keyboard.press("Enter")
    tab.page.locator("#head-page").wait_for()
    assert tab.text("#head-title").startswith("L1H1")
    tab.page.keyboard.press("Escape")
    tab.page.locator("#head-page").wait_for(state="hidden")
    assert tab.run("() => document.activeElement.closest('figure').dataset.language") == "ar"


def test_the_views_of_the_atlas(visit: Open, report: Path) -> None:
    tab = visit(report)
    figure = 'figure[data-language="zh"]'
    click_cell(tab, "zh", 0, 0)
    tab.page.keyboard.press("Escape")
    shared = tab.run(f"() => document.querySelector('{figure} svg').outerHTML")
    tab.page.get_by_label("separate colour scale").check()
    tab.page.locator(f"{figure} svg path").first.wait_for()
    assert tab.run(f"() => document.querySelector('{figure} svg').outerHTML") != shared
    report_ = sample_report()
    tab.page.locator("#view").select_option("mask:refined")
    off = report_.sections[0].masks["refined"]["zh"]
    tab.page.locator(f"{figure} path.taken").wait_for()
    drawn = tab.run(f"() => document.querySelector('{figure} path.taken').getAttribute('d').split('z').length - 1")
    assert drawn == len(off)
    assert f"{len(off)} of 144 removed" in tab.text(f"{figure} figcaption")
    tab.page.locator("#view").select_option("role:separator")
    tab.page.locator(f"{figure} path.taken").wait_for()
    tab.page.locator("#find-language").fill("chin")
    assert tab.page.locator("#maps figure:visible").count() == 1


def test_the_theme_can_be_chosen_and_follows_the_system(visit: Open, report: Path) -> None:
    background = "() => getComputedStyle(document.body).backgroundColor"
    light, dark = visit(report, color_scheme="light"), visit(report, color_scheme="dark")
    assert (light.run(background), dark.run(background)) == ("rgb(255, 255, 255)", "rgb(22, 25, 29)")
    light.page.locator("#theme").select_option("dark")
    assert light.run(background) == "rgb(22, 25, 29)"
    light.page.reload()
    assert light.run(background) == "rgb(22, 25, 29)"
    light.page.emulate_media(media="print")
    assert light.run(background) == "rgb(255, 255, 255)"


def test_the_page_fits_a_phone(visit: Open, report: Path) -> None:
    tab = visit(report, **PHONE)
    assert tab.run("() => document.documentElement.scrollWidth") <= 390
    small = visit(report, "head=L3H5&language=zh", **PHONE)
    box = small.page.locator("#head-page").bounding_box()
    assert (box["x"], box["width"]) == (0, 390)
    assert small.run("() => document.getElementById('head-page').scrollWidth") <= 390


def test_paper_has_all_maps_and_the_table(visit: Open, report: Path) -> None:
    tab = visit(report)
    tab.run("() => dispatchEvent(new Event('beforeprint'))")
    assert tab.run("() => [...document.querySelectorAll('#maps svg')].every((svg) => svg.querySelector('path'))")
    tab.page.emulate_media(media="print")
    assert tab.page.locator(".sortable").is_visible()
    assert not tab.page.locator(".atlas-controls").is_visible()


def test_a_plot_shows_its_values(visit: Open, report: Path) -> None:
    tab = visit(report)
    first = {curve.ranking: curve for curve in sample_curves(LANGUAGES[:8]) if curve.language == "ar"}
    tab.page.locator(".plot").first.focus()
    tab.page.keyboard.press("Home")
    assert tab.text("#tip").split("\n")[:2] == ["0 heads removed", f"shapley: {first['shapley'].value[0]:.1f}"]


def test_the_slider_reads_all_curves_at_once(visit: Open, report: Path) -> None:
    tab = visit(report)
    slider = tab.page.locator("#iterative-pruning input[type=range]")
    slider.focus()
    tab.page.keyboard.press("End")
    curves = {(curve.language, curve.ranking): curve for curve in sample_curves(LANGUAGES[:8])}
    first = tab.page.locator("#iterative-pruning figure").first
    assert tab.text("#iterative-pruning .slider output") == "144 of 144"
    last = curves["ar", "shapley"]
    change = round(last.value[-1], 1) - round(last.value[0], 1)
    assert first.locator(".readout li").first.inner_text() == f"shapley {last.value[-1]:.1f} (−{abs(change):.1f})"
    assert tab.page.locator("#iterative-pruning .readout").count() == 8
    assert tab.page.url.endswith("#curves=iterative-pruning&removed=144")
    marks = tab.run("() => [...document.querySelectorAll('.cursor')].map((line) => line.getAttribute('x1'))")
    assert len(set(marks)) == 1
    assert float(marks[0]) > 300


def test_a_link_sets_the_slider_to_the_nearest_point(visit: Open, report: Path) -> None:
    tab = visit(report, "curves=iterative-pruning&removed=37.2")
    output = tab.page.locator("#iterative-pruning .slider output")
    output.get_by_text(" of 144").wait_for()
    at = int(output.inner_text().split()[0])
    assert abs(at - 37.2) <= 1.5  # 49 of 145 points are drawn
    curve = next(each for each in sample_curves(LANGUAGES[:8]) if (each.language, each.ranking) == ("eu", "michel"))
    text = tab.page.locator("#iterative-pruning figure").nth(1).locator(".readout li").nth(1).inner_text()
    assert text.startswith(f"michel {curve.value[at]:.1f} (")
    assert tab.run("() => document.getElementById('iterative-pruning').getBoundingClientRect().top") < 300


def heads_at(tab: Tab) -> Any:
    return tab.page.locator("#head-page .attention figure")


def test_attention_of_a_head_in_four_scripts_side_by_side(visit: Open, report: Path) -> None:
    tab = visit(report, "head=L0H3&language=zh", viewport={"width": 1600, "height": 1000})
    for name in ("Basque", "English"):
        tab.page.locator(".look-languages").get_by_label(name, exact=True).uncheck()
    for name in ("Hindi", "Thai"):
        tab.page.locator(".look-languages").get_by_label(name, exact=True).check()
    figures = heads_at(tab)
    assert [figures.nth(place).get_attribute("data-code") for place in range(figures.count())] == [
        "ar", "zh", "hi", "th",
    ]  # fmt: skip
    for place, language in enumerate(("ar", "zh", "hi", "th")):
        assert figures.nth(place).locator("svg text").all_text_contents() == [*TOKENS[language]] * 2
    tab.page.locator("#head-wide").click()
    tops = {round(figures.nth(place).bounding_box()["y"]) for place in range(4)}
    assert len(tops) == 1, "side by side"
    weights = sample_attention(LANGUAGES[:8]).weights("encoder.0.3", 4)  # the first sentence of zh
    assert figures.nth(1).locator("line").count() == pytest.approx(int((weights >= 0.005).sum()), abs=2)
    tab.page.locator("#look-sentence").select_option(label="2")
    assert figures.nth(1).locator("svg text").all_text_contents()[1] == "。"


def test_the_views_of_attention_are_linked(visit: Open, report: Path) -> None:
    tab = visit(report, "head=L0H3&language=ar&attention=matrix")
    figure = heads_at(tab).first
    assert figure.locator("line").count() == 0
    view = sample_attention(LANGUAGES[:8])
    figure.locator(".grid").hover(position={"x": 2.5 * 18, "y": 1.5 * 18})
    words, percent = tab.text("#tip").split("\n")
    assert words == "الكلب → نا"
    assert float(percent.removesuffix("%")) == pytest.approx(100 * float(view.weights("encoder.0.3")[1, 2]), abs=0.45)
    tab.page.locator("#look").select_option("strongest")
    assert tab.page.url.endswith("#head=L0H3&language=ar&attention=strongest")
    drawn = figure.evaluate(
        "(figure) => [...figure.querySelectorAll('line')].map((line) => Math.floor(line.getAttribute('y2') / 21))"
    )
    assert drawn == view.weights("encoder.0.3").argmax(1).tolist()
    tab.page.keyboard.press("Escape")
    click_cell(tab, "zh", 0, 1)
    assert "This is not one of them." in tab.text("#head-page")


def test_the_effect_of_removing_a_head_alone(visit: Open, report: Path) -> None:
    tab = visit(report, "head=L2H0&language=eu")
    part = tab.page.locator("#head-page section", has_text="Removed alone, by the run alone")
    shown = dict(zip(part.locator(".gain-label code").all_inner_texts(), part.locator(".number").all_inner_texts(),
                     strict=True))  # fmt: skip
    scores = sample_compared(LANGUAGES[:8])[1].scores
    assert {code: float(text.replace("−", "-")) for code, text in shown.items()} == {
        code: pytest.approx(-each.value[HEADS.index("encoder.2.0")], abs=5.1e-5) for code, each in scores.items()
    }


def test_two_runs_are_compared_head_by_head(visit: Open, report: Path) -> None:
    tab = visit(report, "compare=this%20run&language=zh&with=other%20seed&other=tr")
    assert tab.page.locator("#compare-language-b").input_value() == "ar", "there is no Turkish: the menu stays"
    tab.page.locator("#compare-language-b").select_option("zh")
    assert tab.page.url.endswith("#compare=this%20run&language=zh&with=other%20seed&other=zh")
    one, other = sample_scores(LANGUAGES[:8])["zh"], sample_compared(LANGUAGES[:8])[0].scores["zh"]
    found = one.compare(other)
    text = tab.text("#compare-body")
    assert f"ρ = {found.correlation.rho:.2f}".replace("-", "−") in text
    assert f"{len(found.opposite_decisions)} harmful in one, helpful in the other" in text
    both = sum(pair == ("harmful", "harmful") for pair in zip(one.decision, other.decision, strict=True))
    assert f"{both} harmful in both" in text
    listed = tab.page.locator("#compare .changes tbody tr")
    changed = [name for name, a, b in zip(HEADS, one.decision, other.decision, strict=True) if a != b]
    assert sorted(listed.locator("th").all_inner_texts()) == sorted(changed)
    assert set(listed.locator("th").all_inner_texts()[: len(found.opposite_decisions)]) == set(found.opposite_decisions)
    assert tab.page.locator("#compare .pair[data-head]").count() == 144
    tab.page.locator('#compare .pair[data-head="encoder.1.2"] path').hover()
    assert tab.text("#tip").startswith("encoder.1.2\nChinese, this run: ")
    listed.first.locator("a").click()
    tab.page.locator("#head-page").wait_for()


def test_two_languages_of_one_run_are_compared(visit: Open, tmp_path: Path) -> None:
    scores = sample_scores(["zh", "tr"])
    write_report(tmp_path / "report.html", Report("", scores=scores))
    tab = visit(tmp_path / "report.html", "compare=this%20run&language=tr&with=this%20run&other=zh")
    assert tab.page.locator("#compare-run-a").count() == 0
    assert f"ρ = {scores['tr'].compare(scores['zh']).correlation.rho:.2f}" in tab.text("#compare-body")
    assert tab.page.locator("#compare .axis-title").all_text_contents() == ["Turkish", "Chinese"]


def test_runs_of_other_estimands_are_compared_by_ranks(visit: Open, report: Path) -> None:
    tab = visit(report, "compare=this%20run&language=ar&with=alone&other=eu")
    assert "compare ranks and signs, not sizes" in tab.text("#compare-body")
    assert tab.page.locator("#compare-language-b option").all_inner_texts() == ["Arabic", "Basque"]


def test_all_roles_are_shown_in_one_view(visit: Open, report: Path) -> None:
    tab = visit(report)
    tab.page.locator("#view").select_option("roles")
    figure = tab.page.locator('figure[data-language="zh"]')
    figure.scroll_into_view_if_needed()
    figure.locator("path.role-fill").first.wait_for()
    labels = {label.head for label in label_heads(sample_roles(LANGUAGES[:8])) if label.language == "zh"}
    assert f"{len(labels)} of 144 with a role" in figure.locator("figcaption").inner_text()
    cells = figure.evaluate(
        "(figure) => [...figure.querySelectorAll('path.role-fill')].reduce((sum, path) => "
        "sum + path.getAttribute('d').split('z').length - 1, 0)"
    )
    assert cells == len(labels)
    assert tab.page.locator("#role-legend").inner_text().split() == ["syntactic", "separator", "positional"]


def test_the_new_parts_fit_a_phone(visit: Open, report: Path) -> None:
    tab = visit(report, "compare=this%20run&language=zh&with=other%20seed&other=zh", **PHONE)
    tab.page.locator("#compare .scatter").wait_for()
    assert tab.run("() => document.documentElement.scrollWidth") <= 390
    small = visit(report, "head=L0H3&language=zh&attention=matrix", **PHONE)
    assert heads_at(small).count() == 4
    assert small.run("() => document.getElementById('head-page').scrollWidth") <= 390


ATTACKS = (
    "</script><script>alert(1)</script>",
    "\"' onmouseover='alert(1)' x=\"<img src=x onerror=alert(1)>",
    "\u202eevil\u202c \u2067شرير\u2069",
    "javascript:alert(1)",
    "${alert(1)}{{7*7}}",
)


def attacked(attack: str) -> SentenceAttention:
    row = token_row(("<s>", attack, "</s>"))
    return SentenceAttention(attack, row, None, dict.fromkeys(HEADS[:2], np.full((3, 3), 1 / 3, dtype=np.float32)))


def attacked_roles(attack: str) -> HeadRoles:
    """Roles with a relation of this name, which every head follows."""
    column = Column(f"syntax:{attack.replace(':', ' ')}:head", True, 0.1)
    shape = (len(HEADS), 1)
    one = LanguageRoles(HEADS, (column,), np.full(shape, 0.9), np.zeros(shape), np.full(shape, 99), 9, 0, 9.0)
    return HeadRoles({attack: one, "zh": one}, {})


@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks_are_shown_as_text(visit: Open, tmp_path: Path, attack: str) -> None:
    kinds = [MaskGains(attack, attack, sample_gains([attack, "zh"]), command=attack)]
    write_report(tmp_path / "report.html", Report(
        title=attack, model=attack, task=attack, data=attack, note=attack, scores=sample_scores([attack, "zh"]),
        sections=(
            gains_section(kinds, attack, "head", 144, attack),
            curves_section([Curve(attack, attack, (0, 1), (2.0, 1.0))], attack, "heads removed"),
        ),
        name=attack, compared=(ComparedRun(f"other {attack}", sample_scores([attack, "zh"], seed=3)),),
        attention=AttentionView(HEADS[:2], (attacked(attack),), {}), about=attack,
        roles=attacked_roles(attack), cost=(LanguageCost(attack, {attack: 1.0}),), provenance={attack: attack},
        commands=(attack,),
    ))  # fmt: skip
    tab = visit(tmp_path / "report.html")
    assert tab.page.title() == " ".join(attack.split())
    assert tab.page.locator("h1").text_content() == attack
    assert tab.page.locator("#maps strong bdi").first.text_content() == attack
    tab.run(f"() => {{ location.hash = 'head=L0H0&language=' + encodeURIComponent({attack!r}); }}")
    tab.page.locator("#head-page").wait_for()
    assert attack in tab.page.locator("#head-page .gain-label").all_text_contents()
    assert heads_at(tab).first.locator("svg text").all_text_contents() == ["<s>", attack, "</s>"] * 2
    assert attack in tab.page.locator("#head-page .look-languages, #head-page .attention strong").first.text_content()
    relation = f"{attack.replace(':', ' ')} → head"
    assert relation in tab.page.locator("#head-page td").all_text_contents()
    tab.page.locator("#compare-body").scroll_into_view_if_needed()
    tab.page.locator("#compare .scatter").wait_for()
    assert f"{attack}, other {attack}" in tab.page.locator("#compare .axis-title").all_text_contents()[1]
    tab.page.locator("#view").select_option(f"mask:{attack}")
    tab.page.locator("#head-page .value-chart svg").first.hover()
    assert tab.run("() => document.querySelectorAll('img, iframe, [onmouseover], a[href^=\"javascript\"]').length") == 0
    assert tab.run("() => document.scripts.length") == 2


def test_a_link_cannot_inject_anything(visit: Open, report: Path) -> None:
    tab = visit(report, "head=%3Cimg%20src=x%20onerror=alert(1)%3E&language=%3Cb%3E&view=javascript:alert(1)")
    assert tab.page.locator("#found").text_content() == "There is no head <img src=x onerror=alert(1)>."
    assert tab.run("() => document.querySelectorAll('img').length") == 0


def test_nothing_else_runs_under_the_policy(browser: Any, tmp_path: Path) -> None:
    page = render(sample_report()).replace("</body>", "<script>document.title = 'taken'</script></body>")
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    tab = Tab(browser, tmp_path / "report.html")
    assert tab.page.title() != "taken"
    assert any("Content Security Policy" in message for message in tab.messages)
    tab.context.close()


def test_right_to_left_text_stays_in_its_place(visit: Open, tmp_path: Path) -> None:
    names = ["العربية", "עברית", "中文", "日本語", "en"]
    write_report(tmp_path / "report.html", Report("العربية", scores=sample_scores(names)))
    tab = visit(tmp_path / "report.html", "head=L0H0&language=中文")
    assert tab.page.locator("#maps strong").all_inner_texts() == [*names[:-1], "English en"]
    assert tab.run("() => getComputedStyle(document.querySelector('h1')).direction") == "rtl"
    labels = tab.page.locator("#head-page .gain-label")
    numbers = tab.page.locator("#head-page .value-chart .number")
    for place in range(5):
        assert labels.nth(place).bounding_box()["x"] < numbers.nth(place).bounding_box()["x"]


def test_a_large_report_draws_only_what_is_in_sight(visit: Open, tmp_path: Path) -> None:
    write_report(tmp_path / "report.html", large_report())
    tab = visit(tmp_path / "report.html", "head=L20H15&language=my")
    tab.page.locator("#head-page").wait_for()
    assert tab.text("#head-title").startswith("L20H15")
    drawn = tab.run("() => [...document.querySelectorAll('#maps svg')].filter((svg) => svg.firstChild).length")
    assert drawn < 50  # maps out of sight are not drawn
    assert tab.run("() => document.querySelectorAll('*').length") < 30_000


def test_values_without_a_sign_have_no_decisions(visit: Open, tmp_path: Path) -> None:
    scores = {
        language: replace(each, provenance=replace(each.provenance, method="gradient", signed=False))
        for language, each in sample_scores(("zh", "tr")).items()
    }
    write_report(tmp_path / "unsigned.html", Report("Heads", scores=scores))
    tab = visit(tmp_path / "unsigned.html", "head=L3H5&language=zh")
    assert "do not tell harmful heads from helpful ones" in tab.text("#head-page")
    assert not re.search("undecided|in 2 of 2", tab.text("#head-page"))
    tab.page.locator("#maps figure").first.scroll_into_view_if_needed()
    assert tab.text("#maps figcaption .about, #maps figcaption span") == "144 heads"
    assert tab.page.locator("#maps .hatched").count() == 0


def test_labels_of_the_axes_of_a_comparison_do_not_touch(visit: Open, tmp_path: Path) -> None:
    one, two = scores_of([-0.001, 0.5, 0.9]), scores_of([-0.4, 0.001, 0.8])
    write_report(tmp_path / "close.html", Report("Heads", scores={"zh": one, "tr": two}))
    tab = visit(tmp_path / "close.html", "compare=")
    boxes = tab.run(
        "[...document.querySelectorAll('.scatter text:not(.axis-title)')].map((text) => {"
        "const box = text.getBoundingClientRect(); return [box.left, box.right, box.top, box.bottom]; })"
    )
    assert len(boxes) == 5, "the lowest value of the first language is too close to 0"
    for place, (left, right, top, bottom) in enumerate(boxes):
        for other in boxes[place + 1 :]:
            assert other[0] >= right or other[1] <= left or other[2] >= bottom or other[3] <= top
