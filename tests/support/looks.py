"""Reviews with a budget of looks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from josrc.review.budget import Budget
from josrc.review.decisions import Store


def looks(run: Path, count: int) -> tuple[list[int], dict[str, Any]]:
    """The looks of a budget on a run."""
    store = Store(run / "audit")
    progress = Budget(store, count).progress()
    rows = [row for (row,) in store.read("SELECT row FROM budget ORDER BY drawn")]
    store.close()
    return rows, progress
