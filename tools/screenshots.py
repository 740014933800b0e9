"""Screenshots for the documentation: `python -m tools.screenshots report.html --explore e5-small-pos`.

Of a report: `report.png` (the opening screen), `atlas.png`, `head.png` (the page of one head), `attention.png` (the
same, wide, if the report has attention) and `compare.png`. Of the explorer with a model and the phrasebook:
`explorer.png`. It needs the browser of `make browser`, and Pillow, which matplotlib brings along.
"""

import argparse
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image

#: Name of the picture, and what follows `#` in the address.
VIEWS = {
    "report": "",
    "atlas": "atlas-of-heads",
    "head": "head=L3H5",
    "attention": "head=L3H5&language=zh",
    "compare": "compare=",
}
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
#: Heads that are off in the picture of the explorer.
OFF = ("encoder.2.7", "encoder.5.1", "encoder.5.4", "encoder.8.10")


@contextmanager
def open_browser() -> Iterator[Any]:
    """Chromium of the system."""
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


def main() -> None:
    """Take the screenshots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path, nargs="?", help="a file of headwise report")
    parser.add_argument("--explore", metavar="MODEL", help="a model for parts of speech, to show in the explorer")
    parser.add_argument("--out", type=Path, default=Path("docs/images"), help="folder of the pictures")
    options = parser.parse_args()
    with open_browser() as browser:
        for name, link in VIEWS.items() if options.report else ():
            page = _new_page(browser)
            page.goto(f"{options.report.resolve().as_uri()}#{link}")
            page.wait_for_timeout(500)  # maps are drawn when they come into view
            if name == "attention" and page.locator("#head-wide").count():
                page.click("#head-wide")
                page.locator("#head-page .attention").scroll_into_view_if_needed()
            _take(page, options.out / f"{name}.png")
        if options.explore:
            _explore(_new_page(browser), options.explore, options.out / "explorer.png")


def _explore(page: Any, model: str, path: Path) -> None:
    """Switch some heads off in the explorer, and show the attention of one."""
    import headwise as hw

    page.set_viewport_size({"width": 1200, "height": 1150})
    languages = ["en", "zh", "tr", "ar", "hi", "th"]
    with hw.explore(model, data="phrasebook", task="pos", languages=languages) as explorer:
        page.goto(explorer.url)
        for number, head in enumerate(OFF, 1):
            page.locator(f'[data-head="{head}"]').click()
            page.locator(f'#results[data-off="{number}"]:not(.waiting)').wait_for(timeout=300_000)
        page.locator("#look").select_option("encoder.3.5")
        page.locator("#show").click()
        page.frame_locator("#view iframe").locator("figure").nth(1).wait_for(timeout=60_000)
        page.mouse.move(0, 0)
        _take(page, path)


def _new_page(browser: Any) -> Any:
    size = {"width": 1200, "height": 850}
    return browser.new_page(viewport=size, color_scheme="light", device_scale_factor=1.5)


def _take(page: Any, path: Path) -> None:
    """Take a screenshot and keep 256 of its colours, which makes the file less than half as large."""
    page.screenshot(path=path)
    Image.open(path).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        path, optimize=True
    )
    print(path)


if __name__ == "__main__":
    main()
