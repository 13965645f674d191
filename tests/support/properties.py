"""What tests with drawn input share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from josrc.errors import UserError

# The same examples in every run, and none kept in a folder.
same = settings(derandomize=True, database=None, deadline=None, max_examples=60)


names = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1)


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | names


def written(name: str, content: bytes | str, folder: str) -> Path:
    path = Path(folder, name)
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def tried(parse: Callable[[], Any]) -> Any:
    """What a parser gives, or the mistake that it finds. Any other error fails the test."""
    try:
        return parse()
    except UserError as error:
        return error
