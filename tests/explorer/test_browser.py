"""The explorer in a real browser, as a reader uses it. Every test also checks that the console stays empty."""

from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pytest

from headwise import HeadMask, find_heads, load_pruned
from headwise.explorer import Explorer, Session
from tests.explorer.worlds import ATTACK, ATTACKS, SENTENCE, make_examples, make_scores, make_session
from tests.report.browser import Tab, open_browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as found:
        yield found


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return make_session(tmp_path, ATTACK, scores=make_scores())


@pytest.fixture
def explorer(session: Session) -> Iterator[Explorer]:
    with Explorer(session) as found:
        yield found


@pytest.fixture
def tab(browser: Any, explorer: Explorer) -> Iterator[Tab]:
    found = Tab(browser, explorer.url)
    measured(found, 0)
    yield found
    found.close()


def measured(tab: Tab, off: int) -> None:
    """Wait until the table shows the metric with so many heads off."""
    tab.page.locator(f'#results[data-off="{off}"]:not(.waiting)').wait_for()


def toggle(tab: Tab, head: str) -> None:
    tab.page.locator(f'[data-head="{head}"]').click()


def switched_off(tab: Tab) -> list[str]:
    buttons = tab.page.locator('.head-button[aria-checked="false"]').all()
    return [button.get_attribute("data-head") for button in buttons]


def shown(tab: Tab) -> list[list[str]]:
    """The cells of the table of languages."""
    rows = tab.page.locator("#results tbody tr").all()
    return [[text.strip() for text in row.locator("td.number").all_inner_texts()] for row in rows]


def number(value: float, sign: bool = False) -> str:
    text = str(Decimal(abs(value)).quantize(Decimal("0.1"), ROUND_HALF_UP))  # as in JavaScript
    return text if float(text) == 0 or (value > 0 and not sign) else f"{'−' if value < 0 else '+'}{text}"


def expected(session: Session, off: list[str]) -> list[list[str]]:
    return [
        [
            str(each.examples), number(each.base), number(each.value), number(each.difference, sign=True),
            f"{number(each.low, sign=True)} to {number(each.high, sign=True)}",
        ]
        for each in session.measure(off).languages
    ]  # fmt: skip


def test_a_click_switches_a_head_and_the_metric_moves(tab: Tab, session: Session) -> None:
    whole = shown(tab)
    assert whole == expected(session, [])
    toggle(tab, "encoder.1.2")
    measured(tab, 1)
    assert switched_off(tab) == ["encoder.1.2"]
    assert tab.text("#count") == "1 of 12 heads off"
    assert shown(tab) == expected(session, ["encoder.1.2"])
    assert "67% of the layer passes" in tab.text("#status")
    toggle(tab, "encoder.0.0")
    measured(tab, 2)
    assert shown(tab) == expected(session, ["encoder.0.0", "encoder.1.2"]) != whole


def test_undo_redo_layers_and_all_on(tab: Tab, session: Session) -> None:
    toggle(tab, "encoder.0.1")
    measured(tab, 1)
    tab.page.get_by_role("button", name="all heads of layer 2").click()
    measured(tab, 5)
    tab.page.locator("#undo").click()
    measured(tab, 1)
    assert switched_off(tab) == ["encoder.0.1"]
    assert shown(tab) == expected(session, ["encoder.0.1"])
    assert tab.text("#status").endswith(" 0% of the layer passes of a plain evaluation")
    tab.page.locator("#redo").click()
    measured(tab, 5)
    tab.page.locator("#all-on").click()
    measured(tab, 0)
    assert tab.page.locator("#all-on").is_disabled()
    tab.page.keyboard.press("Control+z")
    measured(tab, 5)
    tab.page.keyboard.press("Control+z")
    tab.page.keyboard.press("Control+z")
    measured(tab, 0)
    assert tab.page.locator("#undo").is_disabled()
    assert switched_off(tab) == []


def test_heads_are_switched_with_the_keyboard(tab: Tab) -> None:
    assert tab.page.locator('.head-button[tabindex="0"]').count() == 1
    tab.page.locator('[data-head="encoder.0.0"]').focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowLeft", "Space"):
        tab.page.keyboard.press(key)
    measured(tab, 1)
    assert switched_off(tab) == ["encoder.1.1"]


def test_after_quick_clicks_the_last_state_is_shown(tab: Tab, session: Session) -> None:
    heads = [f"encoder.{layer}.{head}" for layer in range(3) for head in range(3)]
    tab.run(f"() => {heads}.forEach((name) => document.querySelector(`[data-head='${{name}}']`).click())")
    measured(tab, 9)
    assert shown(tab) == expected(session, heads)


def test_a_typed_sentence_shows_attention_without_the_mask_and_with_it(tab: Tab, session: Session) -> None:
    toggle(tab, "encoder.0.0")
    measured(tab, 1)
    tab.page.locator("#look").select_option("encoder.2.3")
    tab.page.locator("#sentence").fill("the cat sat paka")
    tab.page.locator("#sentence").press("Enter")
    frame = tab.page.frame_locator("#view iframe")
    frame.locator("figure").nth(1).wait_for()
    assert frame.locator("figcaption").all_inner_texts() == ["whole model", "with the mask"]
    words = frame.locator("figure").first.locator("svg text").all_text_contents()
    assert words == ["the", "cat", "sat", "paka"] * 2

    def lines(figure: int) -> list[tuple[int, ...]]:
        drawn = frame.locator("figure").nth(figure).locator("line")
        return sorted(
            tuple(int(float(line.get_attribute(name)) // 21) for name in ("y1", "y2")) for line in drawn.all()
        )

    view = session.attention("the cat sat paka", "encoder.2.3", ["encoder.0.0"])
    for figure in range(2):
        weights = view.weights("encoder.2.3", figure).round(3)
        assert lines(figure) == [(q, k) for q in range(4) for k in range(4) if weights[q, k] >= 0.005]
    tab.page.locator("#look").select_option("encoder.0.0")
    tab.page.locator("#show").click()
    frame.locator("#gate", has_text="removed by the mask").wait_for()
    toggle(tab, "encoder.0.0")  # the attention follows the mask
    frame.locator("#gate", has_text="removed by the mask").wait_for(state="detached")


def test_the_saved_mask_has_the_toggled_heads(tab: Tab, session: Session) -> None:
    for place, head in enumerate(("encoder.2.1", "encoder.0.3"), 1):
        toggle(tab, head)
        measured(tab, place)
    tab.page.locator("#mask-name").fill("mine")
    tab.page.locator("#save").click()
    tab.page.locator("#saved pre").wait_for()
    assert "2 of 12 heads off" in tab.text("#saved")
    assert "--mask" in tab.text("#saved pre")
    mask = HeadMask.load(session.out / "mine.json")
    assert mask.off == ("encoder.0.3", "encoder.2.1")
    mask.check(find_heads(session.setting.model))
    tab.page.locator("#mask-name").fill("../elsewhere")
    tab.page.locator("#save").click()
    tab.page.locator("#saved.problem").wait_for()
    assert "letters, digits" in tab.text("#saved")
    assert [each.name for each in session.out.iterdir()] == ["mine.json"]
    assert all("400" in message for message in tab.messages)  # Chromium notes refused requests itself
    tab.messages.clear()


def test_the_pruned_model_is_exported_with_its_result(tab: Tab, session: Session) -> None:
    toggle(tab, "encoder.1.1")
    measured(tab, 1)
    tab.page.locator("#export").click()
    tab.page.locator("#exported table").wait_for()
    assert "without 1 heads" in tab.text("#exported")
    values = tab.page.locator("#exported tbody td.number:nth-child(4)").all_inner_texts()
    assert values == [row[2] for row in expected(session, ["encoder.1.1"])]
    assert session.export_dir is not None
    assert len(find_heads(load_pruned(session.export_dir)).players()) == 11


def test_heads_are_coloured_by_the_scores_of_the_run(tab: Tab) -> None:
    colour = "(name) => getComputedStyle(document.querySelector(`[data-head='${name}']`)).backgroundColor"
    before = tab.page.evaluate(colour, "encoder.0.0")
    assert before == tab.page.evaluate(colour, "encoder.2.3")
    tab.page.locator("#colours").select_option("0")
    after = tab.page.evaluate(colour, "encoder.0.0")
    assert len({before, after, tab.page.evaluate(colour, "encoder.2.3")}) == 3
    tab.page.locator('[data-head="encoder.0.0"]').hover()
    assert tab.text("#tip").split("\n") == ["encoder.0.0: on", "value in English: −0.0200"]


@pytest.mark.parametrize("attack", ATTACKS)
def test_attack_strings_are_text(browser: Any, tmp_path: Path, attack: str) -> None:
    examples = {f"<b>xx</b>{attack}": make_examples()["en"]}
    session = make_session(tmp_path, attack, examples=examples, about=f"javascript:alert(4) <script>{attack}")
    with Explorer(session) as explorer:
        tab = Tab(browser, explorer.url)
        measured(tab, 0)
        assert tab.page.locator("h1").text_content() == f"Heads of {attack}"
        assert tab.page.locator("#results tbody th").text_content() == f"<b>xx</b>{attack}"
        assert tab.page.locator("#sentence").input_value() == " ".join(SENTENCE)
        tab.page.locator("#show").click()
        frame = tab.page.frame_locator("#view iframe")
        frame.locator("figure").nth(1).wait_for()
        assert frame.locator("figure").first.locator("svg text").all_text_contents()[:4] == list(SENTENCE)
        toggle(tab, "encoder.0.1")
        measured(tab, 1)
        tab.page.locator("#save").click()
        tab.page.locator("#saved pre").wait_for()
        assert tab.run("() => document.querySelectorAll('img, b, a, [onmouseover], script').length") == 2  # its scripts
        assert tab.run("() => document.title").startswith(attack)
        tab.close()


def test_the_page_fits_a_phone_and_has_a_dark_theme(browser: Any, explorer: Explorer) -> None:
    tab = Tab(browser, explorer.url, viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)
    measured(tab, 0)
    assert tab.run("() => document.documentElement.scrollWidth") <= 390
    tab.page.locator("#theme").select_option("dark")
    assert tab.run("() => getComputedStyle(document.body).backgroundColor") == "rgb(22, 25, 29)"
    tab.close()


def test_a_page_whose_explorer_has_ended_says_so(browser: Any, session: Session) -> None:
    with Explorer(session) as explorer:
        tab = Tab(browser, explorer.url)
        measured(tab, 0)
    toggle(tab, "encoder.0.0")
    tab.page.locator("#status.problem").wait_for()
    assert "may have ended" in tab.text("#status")
    tab.messages.clear()  # Chromium notes the refused connection
    tab.close()


def test_another_page_cannot_call_the_explorer(browser: Any, explorer: Explorer, tmp_path: Path) -> None:
    (tmp_path / "evil.html").write_text("<!DOCTYPE html><title>evil</title>")
    tab = Tab(browser, tmp_path / "evil.html")
    url = explorer.url.replace("/?", "/measure?")
    read = tab.run(
        f"""async () => {{
          const body = JSON.stringify({{ off: ["encoder.0.0"] }});
          const send = (options) => fetch({url!r}, {{ method: "POST", body, ...options }});
          const json = {{ headers: {{ "Content-Type": "application/json" }} }};
          const found = await send(json).then(() => "read", () => "refused");
          await send({{ mode: "no-cors" }}).catch(() => null);
          return found;
        }}"""
    )
    assert read == "refused"
    assert explorer.mask.off == ()
    tab.context.close()
