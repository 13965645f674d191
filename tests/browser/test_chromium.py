"""The fixture itself: what goes wrong on a page does not go unnoticed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    ("markup", "trouble"),
    [
        ("<script>throw Error('oh')</script>", "uncaught: oh"),
        ("<script>alert(1)</script>", "dialog: 1"),
        ("<img src='http://example.invalid/x.png'>", "request to http://example.invalid/x.png"),
        (
            "<meta http-equiv='Content-Security-Policy' content=\"script-src 'none'\">"
            "<script>1</script>",
            "stopped by the policy",
        ),
    ],
)
def test_troubles_are_written_down(
    visit: Any, troubles: list[str], tmp_path: Path, markup: str, trouble: str
) -> None:
    path = tmp_path / "page.html"
    path.write_text(markup)
    visit(path)
    assert [seen[: len(trouble)] for seen in troubles] == [trouble]
    troubles.clear()
