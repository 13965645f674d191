"""What a run tells while it goes on; who listens is a child of ``Listener``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from josrc.config import RunConfig
from josrc.engine.metrics import METRIC_COLUMNS, Row


class Listener:
    """Hears what a run does; every method may be left as it is."""

    def started(self, epochs: int, done: int) -> None:
        """Training begins, with some epochs already done if it resumes."""

    def progressed(self, epoch: int, position: int, samples: int) -> None:
        """Some samples of a zero-based epoch are done."""

    def noticed(self, text: str) -> None:
        """Something its user should know."""

    def epoch_ended(self, row: Row) -> None:
        """An epoch is over; ``row`` is its line of ``metrics.csv``."""

    def ended(self, summary: dict[str, Any] | None) -> None:
        """Training is over; no summary if it did not finish."""


class Logger(Listener):
    """Hands each epoch's numbers on to another program.

    The constructor imports the library that is needed, and no more: a run that can't begin shall
    leave nothing behind.

    Attributes:
        config: what is run.
        folder: where it may keep files, ``RUN/logs/NAME``; not there yet.
    """

    def __init__(self, config: RunConfig, folder: Path) -> None:
        self.config, self.folder = config, folder


def numbers_of(row: Row) -> dict[str, float]:
    """The numbers of an epoch by their columns in ``metrics.csv``, without the empty ones."""
    found = {name: row.get(name) for name in METRIC_COLUMNS if name != "epoch"}
    return {name: float(value) for name, value in found.items() if value is not None}
