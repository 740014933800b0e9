"""The explorer and the report in the browser: what a click costs, how large a report is, when its atlas is ready.

The explorer shows e5-small-pos on the phrasebook, 6 languages of 40 sentences each. Heads of all layers are switched
off, one after the other, with clicks in headless Chromium; the time is from the click until the page shows the new
metric.
The plain evaluation measures the same sentences under the same kind of mask from the first layer. The ratio is counted
in passes of examples through layers, the mean over all clicks; times are medians.

The reports have invented numbers: one of 144 heads in 15 languages, whose size is measured, and one of 24 × 16 heads in
50 languages, which is opened in the browser until the first map of its atlas is drawn.

    python -m benchmarks.explorer [--quick]
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from tests.report.samples import LANGUAGES, large_report, sample_report
from tools.screenshots import open_browser

import headwise as hw
from headwise.engine.evaluation import MaskJudge
from headwise.explorer import Session
from headwise.masks import HeadMask
from headwise.report import write_report

MODEL, DATA, TASK = "e5-small-pos", "phrasebook", "pos"
CODES = ("en", "zh", "tr", "ar", "hi", "th")

#: Resolves with the milliseconds from a click on a head until the table of languages has changed.
CLICK = """(head) => new Promise((resolve) => {
  const start = performance.now();
  new MutationObserver((_, observer) => {
    observer.disconnect();
    requestAnimationFrame(() => resolve(performance.now() - start));
  }).observe(document.getElementById("results"), { childList: true });
  document.querySelector(`[data-head="${head}"]`).click();
})"""
#: Notes when the first map of the atlas has been drawn, in milliseconds from the start of loading.
READY = """(() => {
  const look = () => {
    if (document.querySelector("#maps svg path")) window.atlasReady = performance.now();
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})()"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="12 clicks instead of 30: under 2 minutes")
    options = parser.parse_args()
    with open_browser() as browser:
        clicks = measure_clicks(browser, 12 if options.quick else 30)
        with tempfile.TemporaryDirectory() as folder:
            found = {**clicks, **measure_reports(browser, Path(folder))}
    print(json.dumps(found))


def measure_clicks(browser: Any, count: int) -> dict[str, float]:
    """Time and passes of clicks in the explorer, and of plain evaluations."""
    with hw.explore(MODEL, data=DATA, task=TASK, languages=list(CODES)) as explorer:
        page = browser.new_page()
        page.set_default_timeout(600_000)
        page.goto(explorer.url)
        page.locator('#results[data-off="0"]:not(.waiting)').wait_for()
        rows = [_click(page, head) for head in spread_heads(explorer.session, count)]
        plain_seconds, plain_units = measure_plain(explorer.session, explorer.mask, 3)
        page.close()
    ratio = statistics.mean(units for _, units in rows) / plain_units
    found = {
        "click_ms": round(statistics.median(ms for ms, _ in rows)),
        "plain_ms": round(1000 * plain_seconds),
        "toggle_ratio_to_plain": round(ratio, 3),
    }
    print(f"{count} clicks: median {found['click_ms']} ms; plain evaluation: median {found['plain_ms']} ms")
    print(f"passes of a click: {ratio:.1%} of the {plain_units:,.0f} passes of a plain evaluation")
    return found


def spread_heads(session: Session, count: int) -> list[str]:
    """Heads of all layers, equally many of each as far as possible, in random order."""
    heads = session.setting.heads.players()
    places = np.linspace(0, len(heads), count, endpoint=False).astype(int)
    return [heads[place] for place in np.random.default_rng(0).permutation(places)]


def _click(page: Any, head: str) -> tuple[float, float]:
    """The milliseconds and the units of a click."""
    with page.expect_response("**/measure*") as answer:
        milliseconds = page.evaluate(CLICK, head)
    return milliseconds, answer.value.json()["units"]


def measure_plain(session: Session, mask: HeadMask, rounds: int) -> tuple[float, float]:
    """Median seconds and units of a plain evaluation of the same examples under a mask."""
    setting, seconds, units = session.setting, [], 0.0
    judges = [
        MaskJudge(setting.model, setting.heads, setting.task, examples, setting.tokenizer, language)
        for language, examples in session.examples.items()
    ]
    for judge in judges:
        _ = judge.encoded
    for _ in range(rounds):
        start = time.perf_counter()
        units = sum(judge.measure([mask]).cost.units for judge in judges)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), units


def measure_reports(browser: Any, folder: Path) -> dict[str, float]:
    """The size of a report, and the time until the atlas of a large one is drawn."""
    write_report(folder / "report.html", sample_report(LANGUAGES))
    write_report(folder / "large.html", large_report())
    times = []
    for _ in range(5):
        page = browser.new_page(viewport={"width": 1300, "height": 900})
        page.add_init_script(READY)
        page.goto(f"{(folder / 'large.html').as_uri()}#atlas-of-heads")
        page.wait_for_function("() => window.atlasReady")
        times.append(page.evaluate("() => window.atlasReady"))
        page.close()
    megabytes = (folder / "report.html").stat().st_size / 1e6
    large = (folder / "large.html").stat().st_size / 1e6
    print(f"report of 144 heads in 15 languages: {megabytes:.2f} MB; of 384 heads in 50 languages: {large:.2f} MB")
    print(f"atlas of 384 heads in 50 languages: ready after {', '.join(f'{each:.0f}' for each in times)} ms")
    return {"report_megabytes": round(megabytes, 2), "atlas_ready_ms": round(statistics.median(times))}


if __name__ == "__main__":
    try:
        main()
    except hw.HeadwiseError as error:
        raise SystemExit(str(error)) from None
