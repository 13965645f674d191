"""A review on a budget in a real browser: its queue, its copies, and its last page."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.browser

Serving = Callable[..., tuple[Any, str]]
Visit = Callable[..., Any]


@pytest.mark.parametrize(
    ("width", "height", "dark"), [(1280, 900, False), (390, 780, False), (1280, 900, True)]
)
def test_a_budget_from_its_first_look_to_its_last_page(
    with_copies: Path, serving: Serving, visit: Visit, width: int, height: int, dark: bool
) -> None:
    page = visit(serving(with_copies, "--budget", "23")[1], width=width, height=height, dark=dark)
    page.locator("#sample-0.cursor").wait_for()
    assert page.locator("[value=budget]").get_attribute("aria-pressed") == "true"
    page.locator("#left", has_text="0 of 23 looks done, 0 corrected").wait_for()
    assert page.locator("#grid li").count() == 23
    assert page.locator("#copies").is_visible()
    assert page.locator("#with-copies").is_checked(), "exact copies are decided too"
    assert page.locator("#copies-text").inner_text() == "Decide for its copy too"
    page.keyboard.press("k")
    page.locator("#sample-0 .badge", has_text="kept").wait_for()
    page.locator("#message.shown", has_text="Saved: 2 images, copies included").wait_for()
    page.locator("#left", has_text="1 of 23 looks done, 1 corrected").wait_for()

    page.locator("#sample-1").click()
    page.locator("#sample-1.cursor").wait_for()
    assert not page.locator("#with-copies").is_checked(), "near ones only if somebody says so"
    assert page.locator("#copies-text").inner_text() == "Decide for its near copy too"
    page.keyboard.press("c")
    assert page.locator("#with-copies").is_checked()
    page.keyboard.press("r")
    page.locator("#left", has_text="3 of 23 looks done, 3 corrected").wait_for()
    page.keyboard.press("Control+a")
    page.keyboard.press("k")
    page.locator("#empty .ending").wait_for()
    said = page.locator("#empty").inner_text()
    assert re.search(r"23 of 23 looks are done, and 3 labels corrected", said)
    assert "Another hundred looks are expected to correct about" in said
    assert page.locator("#empty code").all_inner_texts()[1].endswith("--budget 23")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")

    page.reload()
    page.locator("#empty .ending").wait_for()
    assert page.locator("#grid li").count() == 0
    page.locator("[value=flagged]").click()
    page.locator("[value=flagged][aria-pressed=true]").wait_for()
    assert page.locator("#copies").is_hidden()


def test_a_review_without_a_budget_has_no_such_tab(
    reviewed: Path, serving: Serving, visit: Visit
) -> None:
    page = visit(serving(reviewed)[1])
    page.locator("#sample-0.cursor").wait_for()
    assert page.locator("[value=budget]").is_hidden()
