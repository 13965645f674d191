"""TensorBoard: ``tensorboard --logdir RUN/logs``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from josrc.config import RunConfig
from josrc.engine.listeners.base import Logger, numbers_of
from josrc.engine.metrics import Row


class TensorBoard(Logger):
    """A curve for each column of ``metrics.csv`` over the epochs, and the settings as a text."""

    def __init__(self, config: RunConfig, folder: Path) -> None:
        super().__init__(config, folder)
        from torch.utils.tensorboard import SummaryWriter

        self.create = SummaryWriter

    def started(self, epochs: int, done: int) -> None:
        """Open an event file; a resumed run takes back what it logged after its checkpoint."""
        purge = done + 1 if done else None
        self.writer = self.create(str(self.folder), purge_step=purge)
        settings = self.config.to_yaml().splitlines()
        indented = "".join(f"    {line}\n" for line in settings)  # Markdown's code
        self.writer.add_text("settings", indented, done)

    def epoch_ended(self, row: Row) -> None:
        """Each number a scalar, on disk at once: somebody may be watching."""
        for name, value in numbers_of(row).items():
            self.writer.add_scalar(name, value, int(row["epoch"] or 0))
        self.writer.flush()

    def ended(self, summary: dict[str, Any] | None) -> None:
        """Close the file."""
        self.writer.close()
