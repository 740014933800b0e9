"""Screenshots of a report for the documentation: `python -m tools.screenshots report.html --out docs/images`.

Writes `report.png` (the opening screen), `atlas.png` and `head.png` (the page of one head). It needs the browser of
`make browser`.
"""

import argparse
import shutil
from pathlib import Path

#: Name of the picture, and what follows `#` in the address.
VIEWS = {"report": "", "atlas": "atlas-of-heads", "head": "head=L3H5"}
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def main() -> None:
    """Take the screenshots."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path, help="a file of headwise report")
    parser.add_argument("--out", type=Path, default=Path("docs/images"), help="folder of the pictures")
    options = parser.parse_args()
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for name, link in VIEWS.items():
            page = browser.new_page(
                viewport={"width": 1200, "height": 800}, color_scheme="light", device_scale_factor=1.5
            )
            page.goto(f"{options.report.resolve().as_uri()}#{link}")
            page.wait_for_timeout(500)  # maps are drawn when they come into view
            page.screenshot(path=options.out / f"{name}.png")
            print(options.out / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
