"""Trackio: on this machine, ``trackio show --project josrc``."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from josrc.config import RunConfig
from josrc.engine.listeners.base import Logger, numbers_of
from josrc.engine.metrics import Row
from josrc.engine.run_folder import run_name


class Trackio(Logger):
    """A run of the project ``josrc``, in Trackio's own folder (TRACKIO_DIR)."""

    def __init__(self, config: RunConfig, folder: Path) -> None:
        super().__init__(config, folder)
        import trackio

        self.library = trackio

    def started(self, epochs: int, done: int) -> None:
        """Begin a run, or go on with the one of the same name."""
        with redirect_stdout(StringIO()):  # its lines would break into josrc's
            self.run = self.library.init(
                project="josrc",
                name=run_name(self.config),
                config=self.config.flat(),
                resume="allow" if done else "never",
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )

    def epoch_ended(self, row: Row) -> None:
        """All numbers of an epoch under its number."""
        self.library.log(numbers_of(row), step=int(row["epoch"] or 0))

    def ended(self, summary: dict[str, Any] | None) -> None:
        """Close the run."""
        with redirect_stdout(StringIO()):
            self.library.finish()
