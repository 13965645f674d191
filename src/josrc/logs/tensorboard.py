"""TensorBoard: ``tensorboard --logdir RUN/logs``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from josrc.config import RunConfig
from josrc.logs.base import Logger


class TensorBoard(Logger):
    """A curve a column of ``metrics.csv``, over the epochs, and the settings as a text."""

    def __init__(self, config: RunConfig, folder: Path) -> None:
        super().__init__(config, folder)
        from torch.utils.tensorboard import SummaryWriter

        self.create = SummaryWriter

    def begin(self, settings: dict[str, Any], done: int) -> None:
        """Open an event file; a resumed run takes back what it logged after its checkpoint."""
        purge = done + 1 if done else None
        self.writer = self.create(str(self.folder), purge_step=purge)
        text = yaml.safe_dump(settings, sort_keys=False)
        indented = "".join(f"    {line}\n" for line in text.splitlines())  # Markdown's code
        self.writer.add_text("settings", indented, done)

    def log(self, numbers: dict[str, float], epoch: int) -> None:
        """Each number a scalar, on disk at once: somebody may be watching."""
        for name, value in numbers.items():
            self.writer.add_scalar(name, value, epoch)
        self.writer.flush()

    def finish(self, summary: dict[str, Any] | None) -> None:
        """Close the file."""
        self.writer.close()
