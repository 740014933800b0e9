"""The page of an attention view in a real browser."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from headwise.attention.tokens import TokenRow
from headwise.attention.view import AttentionView, SentenceAttention
from tests.report.browser import Tab, open_browser

ROWS = {
    "de": TokenRow(("[CLS]", "Der", "Hund", "schlä", "ft", "[SEP]"), (0, 1, 2, 3, 3, 4), (True, *(False,) * 4, True)),
    "العربية": TokenRow(("[CLS]", "الكلب", "نا", "ئم", "[SEP]"), (0, 1, 2, 2, 3), (True, *(False,) * 3, True)),
    "zh": TokenRow(("[CLS]", "狗", "在", "睡觉", "[SEP]"), (0, 1, 2, 3, 4), (True, *(False,) * 3, True)),
    "हिन्दी": TokenRow(("[CLS]", "कुत्ता", "सो", "##ता", "है", "[SEP]"), (0, 1, 2, 2, 3, 4), (True, *(False,) * 4, True)),
    "\"' onmouseover='alert(1)'": TokenRow(("\"'`", "${alert(1)}"), (0, 1), (False,) * 2),
    "javascript:alert(1)": TokenRow(("javascript:alert(1)", "&lt;b&gt;"), (0, 1), (False,) * 2),
    "<img src=x onerror=alert(1)>": TokenRow(("<b>", "</script>", "\u202ex"), (0, 1, 2), (False,) * 3),
}


def random_weights(size: int, seed: int) -> Any:
    return np.random.default_rng(seed).dirichlet(np.full(size, 0.3), size).astype(np.float32)


@pytest.fixture(scope="module")
def view() -> AttentionView:
    heads = ("encoder.0.0", "encoder.0.1")
    sentences = tuple(
        SentenceAttention(
            label, row, None, {name: random_weights(len(row), place + len(row)) for place, name in enumerate(heads)}
        )
        for label, row in ROWS.items()
    )
    return AttentionView(heads, sentences, {"encoder.0.1": 0.0})


@pytest.fixture(scope="module")
def tab(view: AttentionView, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    path = tmp_path_factory.mktemp("view") / "a.html"
    view.save(path)
    with open_browser() as browser:
        found = Tab(browser, path)
        yield found
        found.close()


def texts(tab: Tab, sentence: int) -> list[str]:
    found: list[str] = tab.page.locator("figure").nth(sentence).locator("svg text").all_text_contents()
    return found


def test_four_scripts_are_side_by_side_as_text(tab: Tab) -> None:
    assert tab.page.locator("figcaption").all_text_contents() == list(ROWS)
    for place, row in enumerate(ROWS.values()):
        assert texts(tab, place) == [*row.tokens, *row.tokens]
    assert tab.run("() => document.querySelectorAll('img, b, a, [onmouseover]').length") == 0


def test_lines_have_the_weights(tab: Tab, view: AttentionView) -> None:
    tab.page.locator("#view").select_option("lines")
    weights = view.weights("encoder.0.0")
    lines = tab.page.locator("figure").first.locator("line")
    assert lines.count() == int((weights.round(3) >= 0.005).sum())


def test_the_strongest_key_of_every_query(tab: Tab, view: AttentionView) -> None:
    tab.page.locator("#view").select_option("strongest")
    drawn = tab.run(
        """() => [...document.querySelector("figure").querySelectorAll("line")]
          .map((line) => ["y1", "y2"].map((name) => Math.floor(Number(line.getAttribute(name)) / 21)))"""
    )
    assert drawn == [[query, int(key)] for query, key in enumerate(view.weights("encoder.0.0").argmax(1))]
    tab.page.locator("#view").select_option("lines")


def test_sub_words_are_merged_by_the_mean_of_queries_and_the_sum_of_keys(tab: Tab, view: AttentionView) -> None:
    tab.page.locator("#merged").check()
    assert texts(tab, 0)[:5] == ["[CLS]", "Der", "Hund", "schläft", "[SEP]"]
    weights = view.weights("encoder.0.0")
    keys = np.concatenate([weights[:, :3], weights[:, 3:5].sum(1, keepdims=True), weights[:, 5:]], 1)
    merged = np.concatenate([keys[:3], keys[3:5].mean(0, keepdims=True), keys[5:]])
    found = tab.run(
        """() => {
          const row = groupsOf(data.sentences[0].source, state);
          return weightsOf(data.sentences[0].weights[0].map((each) => each / 1000), row, row, 6);
        }"""
    )
    np.testing.assert_allclose(found, merged, atol=2e-3)
    tab.page.locator("#specials").uncheck()
    assert texts(tab, 0) == ["Der", "Hund", "schläft"] * 2
    tab.page.locator("#specials").check()
    tab.page.locator("#merged").uncheck()


def test_the_matrix_tells_its_weights(tab: Tab, view: AttentionView) -> None:
    tab.page.locator("#view").select_option("matrix")
    frame = tab.page.locator("figure").first.locator(".grid")
    frame.hover(position={"x": 2.5 * 18, "y": 1.5 * 18})
    assert tab.text("#tip") == f"Der → Hund\n{100 * round(float(view.weights('encoder.0.0')[1, 2]), 3):.1f}%"
    tab.page.locator("#view").select_option("lines")


def test_heads_change_by_menu_and_keyboard_and_masks_are_named(tab: Tab) -> None:
    tab.page.locator("#head").select_option("1")
    assert tab.text("#gate") == "removed by the mask"
    tab.page.locator("figure .token").first.focus()
    tab.page.keyboard.press("ArrowRight")
    assert tab.page.locator("#head").input_value() == "0"
    assert tab.page.locator("#gate").text_content() == ""
