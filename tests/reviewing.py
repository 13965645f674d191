"""Decisions on a run and CSV files, as tests of the review use them."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from josrc.review.decisions import Store

# A training that is soon over.
FAST = ["--epochs", "1", "--device", "cpu", "--method", "standard", "--batch-size", "8", "--quiet"]


def decide(run: Path, *steps: tuple[Any, ...]) -> None:
    """Take some steps, each with the arguments of ``Store.decide``."""
    store = Store(run / "audit")
    for step in steps:
        store.decide(*step)
    store.close()


def read(path: Path) -> list[dict[str, str]]:
    """The lines of a CSV file."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
