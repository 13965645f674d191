"""Weights & Biases: online for who is logged in, with ``WANDB_MODE=offline`` in files."""

from __future__ import annotations

import os
from pathlib import Path
from secrets import token_hex
from typing import Any

from josrc._io import write_text
from josrc._reading import regular
from josrc.config import RunConfig
from josrc.engine.listeners.background import PATIENCE
from josrc.engine.listeners.base import Logger, numbers_of, numbers_of_summary
from josrc.engine.metrics import Row
from josrc.engine.run_folder import run_name


class WeightsAndBiases(Logger):
    """A run of the project ``josrc``, or of WANDB_PROJECT; its files are in the run's folder."""

    def __init__(self, config: RunConfig, folder: Path) -> None:
        super().__init__(config, folder)
        import wandb

        self.library, self.mark = wandb, folder / "josrc-run"

    def started(self, epochs: int, done: int) -> None:
        """Begin a run, or go on with the one of before; its console stays josrc's."""
        self.folder.mkdir(parents=True, exist_ok=True)
        known = done and self.mark.is_file()
        name = regular(self.mark).read_text(encoding="utf-8") if known else token_hex(4)
        write_text(self.mark, name)
        # How long it waits for its server, at the end of the process too, unless somebody said so.
        limits = {
            limit: PATIENCE
            for limit in ("init_timeout", "finish_timeout")
            if f"WANDB_{limit.upper()}" not in os.environ
        }
        self.run = self.library.init(
            project=os.environ.get("WANDB_PROJECT", "josrc"),
            id=name,
            name=run_name(self.config),
            config=self.config.flat(),
            dir=str(self.folder),
            resume="allow",
            settings=self.library.Settings(silent=True, console="off", **limits),
        )

    def epoch_ended(self, row: Row) -> None:
        """All numbers of an epoch under its number."""
        self.run.log(numbers_of(row), step=int(row["epoch"] or 0))

    def ended(self, summary: dict[str, Any] | None) -> None:
        """Close the run; one that did not finish is called so."""
        self.run.summary.update(numbers_of_summary(summary))
        self.run.finish(exit_code=int(summary is None))
