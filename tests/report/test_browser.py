"""The page in a real browser: no errors, tips, sorting, colour scales, and the width on a narrow screen."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from headwise.report import write_report
from headwise.report.page import render
from tests.report.samples import HEADS, LANGUAGES, sample_curves, sample_report

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(BROWSER is None, reason="no chromium is installed")]

#: A script that acts as a reader does and writes the results into the page as JSON.
PROBE = """
const seen = {};
const tip = document.getElementById("tip");
const read = () => (tip.hidden ? null : tip.textContent);
const over = (element, type = "pointerover") => {
  const box = element.getBoundingClientRect();
  const at = { bubbles: true, clientX: box.left + box.width / 2, clientY: box.top + box.height / 2 };
  element.dispatchEvent(new PointerEvent(type, at));
};
const press = (key) => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
const rows = document.querySelector(".sortable tbody").rows;
const column = (place) => [...rows].map((row) => row.cells[place].textContent);

const cells = document.querySelectorAll('[role="gridcell"]');
over(cells[13]);
seen.hover = read();
cells[13].closest("svg").dispatchEvent(new PointerEvent("pointerleave"));
seen.left = read();
cells[0].focus();
seen.focus = read();
press("ArrowDown");
press("ArrowRight");
seen.moved = read();
press("Escape");
seen.escaped = read();

const plot = document.querySelector(".plot");
over(plot, "pointermove");
seen.plot = read();
plot.focus();
press("Home");
seen.start = plot.getAttribute("aria-valuetext");

seen.before = column(4);
const [language, , , , difference] = document.querySelectorAll(".sortable thead button");
difference.click();
seen.down = column(4);
difference.click();
seen.up = column(4);
language.click();
seen.named = column(0);

const other = [...cells].find((cell) => /o/.test(cell.getAttribute("class")));
seen.shared = getComputedStyle(other).fill;
document.getElementById("own-scale").click();
seen.own = getComputedStyle(other).fill;

seen.stops = document.querySelectorAll('.maps [tabindex="0"]').length;
seen.width = [document.documentElement.scrollWidth, innerWidth];
const out = document.createElement("output");
out.textContent = JSON.stringify(seen);
document.body.append(out);
"""


def browse(path: Path, tmp_path: Path, width: int = 1400) -> tuple[str, str]:
    """The DOM of the page, and the console messages of the browser."""
    assert BROWSER is not None
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
               f"--window-size={width},900", "--enable-logging=stderr", "--virtual-time-budget=3000", "--dump-dom",
               path.as_uri()]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return done.stdout, "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The results of the probe; the content security policy is removed, because it would block the probe."""
    folder = tmp_path_factory.mktemp("browser")
    page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", render(sample_report()))
    (folder / "probed.html").write_text(page.replace("</body>", f"<script>{PROBE}</script></body>"), encoding="utf-8")
    dom, complaints = browse(folder / "probed.html", folder, width=500)
    assert complaints == ""
    [output] = re.findall("<output>(.*?)</output>", dom)
    found: dict[str, Any] = json.loads(html.unescape(output))
    return found


def test_the_script_runs_under_the_policy_without_errors(tmp_path: Path) -> None:
    write_report(tmp_path / "report.html", sample_report())
    dom, complaints = browse(tmp_path / "report.html", tmp_path)
    assert complaints == ""
    assert len(re.findall('<rect[^>]* role="gridcell"', dom)) == len(HEADS) * 8 + 8 * 8


def test_nothing_else_runs_under_the_policy(tmp_path: Path) -> None:
    page = render(sample_report()).replace("</body>", "<script>document.title = 'taken'</script></body>")
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    dom, complaints = browse(tmp_path / "report.html", tmp_path)
    assert "<title>taken" not in dom
    assert "Content Security Policy" in complaints


def test_a_tip_appears_under_the_mouse_and_in_focus(seen: dict[str, Any]) -> None:
    assert seen["hover"].startswith("encoder.1.1\n")
    assert seen["left"] is None
    assert seen["focus"].startswith("encoder.0.0\n")
    assert seen["moved"].startswith("encoder.1.1\n")
    assert seen["escaped"] is None
    assert seen["stops"] == 8


def test_a_plot_shows_its_values(seen: dict[str, Any]) -> None:
    first = {curve.ranking: curve for curve in sample_curves(LANGUAGES[:8]) if curve.language == "Arabic"}
    assert re.match(r"\d+ heads removed\nshapley: [\d.]+\nmichel: [\d.]+\nrandom: [\d.]+$", seen["plot"])
    assert seen["start"].split("\n")[:2] == ["0 heads removed", f"shapley: {first['shapley'].value[0]:.1f}"]


def test_a_click_on_a_title_sorts(seen: dict[str, Any]) -> None:
    numbers = {
        key: [float(re.sub(r"[+−]$", "", text).replace("−", "-")) for text in seen[key]] for key in ("down", "up")
    }
    assert numbers["down"] == sorted(numbers["down"], reverse=True)
    assert numbers["up"] == numbers["down"][::-1]
    assert sorted(seen["before"]) == sorted(seen["down"])
    assert seen["named"] == sorted(seen["named"])


def test_a_separate_scale_changes_the_colours(seen: dict[str, Any]) -> None:
    assert seen["shared"] != seen["own"]


def test_the_page_fits_a_narrow_screen(seen: dict[str, Any]) -> None:
    scrolled, width = seen["width"]
    assert scrolled <= width
