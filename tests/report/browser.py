"""A real browser for tests: Chromium of the system, driven by Playwright. `make browser` installs both."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


@contextmanager
def open_browser() -> Iterator[Any]:
    """A browser; the test is skipped if there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make browser")
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("chromium is not installed: make browser")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()


class Tab:
    """One page in the browser, with all messages of its console.

    Args:
        browser: The browser.
        path: The file to open.
        link: What follows `#` in the address.
        options: Options of the browser context, such as `color_scheme`.
    """

    def __init__(self, browser: Any, path: Path, link: str = "", **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1300, "height": 900}, **options})
        self.page = self.context.new_page()
        self.messages: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", self._dismiss)
        self.page.goto(f"{path.as_uri()}{'#' if link else ''}{link}")

    def _dismiss(self, dialog: Any) -> None:
        self.messages.append("a dialog was opened")
        dialog.dismiss()

    def text(self, selector: str) -> str:
        """The visible text of the first element that matches."""
        found: str = self.page.locator(selector).first.inner_text()
        return found

    def run(self, script: str) -> Any:
        """The value of a script in the page."""
        return self.page.evaluate(script)

    def close(self) -> None:
        """Close the page; no message may have appeared in its console, and nothing may have been loaded."""
        self.context.close()
        assert self.messages == []
        assert [url for url in self.requests if not url.startswith("file:")] == []
