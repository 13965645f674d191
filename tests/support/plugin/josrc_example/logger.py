"""A logger: a line per epoch in a file."""

from __future__ import annotations

from josrc.engine.listeners.base import Logger, numbers_of
from josrc.engine.metrics import Row


class LossFile(Logger):
    """``RUN/logs/loss-file/loss.txt``."""

    def epoch_ended(self, row: Row) -> None:
        """The loss of the epoch."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "loss.txt").open("a", encoding="utf-8") as file:
            file.write(f"{row['epoch']} {numbers_of(row)['loss']}\n")
