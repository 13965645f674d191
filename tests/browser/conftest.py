"""A real browser for the tests of pages: Debian's Chromium, driven by Playwright.

A test asks for ``visit`` and gets pages from it:

    page = visit(path_or_url, width=390, height=844, dark=True)

When the test ends, nothing may have gone wrong on any of its pages: no uncaught error, no dialog,
nothing that the page's own security policy had to stop, and no request that leaves the machine.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

# Names under which a Chromium may be on the path; JOSRC_CHROMIUM names one and insists on it.
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LOOPBACK = {"127.0.0.1", "localhost", "::1", None}

Visit = Callable[..., Any]


def find_chromium() -> str | None:
    """Where a Chromium is, if there is one."""
    wanted = os.environ.get("JOSRC_CHROMIUM")
    if wanted:
        assert Path(wanted).is_file(), f"JOSRC_CHROMIUM names {wanted}, which is not there"
        return wanted
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@pytest.fixture(scope="package")
def chromium() -> Iterator[Any]:
    """A headless Chromium, started once for all tests of this folder."""
    found = find_chromium()
    if found is None:
        pytest.skip("no Chromium")  # tests/conftest.py says so in one loud line
    playwright = pytest.importorskip("playwright.sync_api", reason="no Playwright")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def troubles() -> list[str]:
    """What went wrong on the pages of a test."""
    return []


@pytest.fixture
def visit(chromium: Any, troubles: list[str]) -> Iterator[Visit]:
    """Opens pages, and complains at the end about what went wrong on them."""
    contexts = []

    def open_page(
        address: str | Path, *, width: int = 1280, height: int = 900, dark: bool = False
    ) -> Any:
        """A page of its own, as in a fresh window.

        Args:
            address: a URL, or the path of a file.
            width: of the window, in CSS pixels.
            height: of the window.
            dark: whether the reader prefers dark colours.
        """
        context = chromium.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
        )
        context.set_default_timeout(10_000)
        contexts.append(context)
        page = context.new_page()
        _watch(page, troubles)
        page.goto(Path(address).absolute().as_uri() if isinstance(address, Path) else address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not troubles


def _watch(page: Any, troubles: list[str]) -> None:
    """Write down what should never happen on a page."""

    def console(message: Any) -> None:
        if "Content Security Policy" in message.text:
            troubles.append(f"stopped by the policy: {message.text}")

    def dialog(shown: Any) -> None:
        troubles.append(f"dialog: {shown.message}")
        shown.dismiss()

    def request(sent: Any) -> None:
        if urlsplit(sent.url).hostname not in LOOPBACK:
            troubles.append(f"request to {sent.url}")

    page.on("pageerror", lambda error: troubles.append(f"uncaught: {error}"))
    page.on("console", console)
    page.on("dialog", dialog)
    page.on("request", request)
