"""What a logger is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from josrc.config import RunConfig
from josrc.engine.events import Listener
from josrc.engine.metrics import COLUMNS, Row


class Logger(Listener):
    """Hands each epoch's numbers on. A child fills in ``begin``, ``log`` and ``finish``.

    The constructor imports the library that is needed, and no more: a run that can't begin shall
    leave nothing behind.

    Attributes:
        config: what is run.
        folder: where it may keep files, ``RUN/logs/NAME``; not there yet.
    """

    def __init__(self, config: RunConfig, folder: Path) -> None:
        self.config, self.folder = config, folder

    def begin(self, settings: dict[str, Any], done: int) -> None:
        """Open the log.

        Args:
            settings: the content of ``config.yaml``.
            done: epochs that are already logged, if the run resumes.
        """

    def log(self, numbers: dict[str, float], epoch: int) -> None:
        """Take the numbers of an epoch, counted from 1: the columns that aren't empty."""
        raise NotImplementedError

    def finish(self, summary: dict[str, Any] | None) -> None:
        """Close the log; no summary if the run did not finish."""

    # --- what the trainer tells ------------------------------------------------------------------

    def started(self, epochs: int, done: int) -> None:
        """Training begins."""
        self.begin(self.config.model_dump(mode="json"), done)

    def epoch_ended(self, row: Row) -> None:
        """An epoch is over."""
        found = {name: row.get(name) for name in COLUMNS if name != "epoch"}
        numbers = {name: float(value) for name, value in found.items() if value is not None}
        self.log(numbers, int(row["epoch"] or 0))

    def ended(self, summary: dict[str, Any] | None) -> None:
        """Training is over."""
        self.finish(summary)
