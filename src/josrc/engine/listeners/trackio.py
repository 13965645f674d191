"""Trackio: on this machine, ``trackio show --project josrc``."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

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
        with _quiet():
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
        with _quiet():
            self.library.finish()


class _Muted:
    """An output that leaves out what one thread writes."""

    def __init__(self, output: TextIO) -> None:
        self.output, self.thread = output, threading.get_ident()

    def write(self, text: str) -> int:
        """Hand it on, unless it comes from that thread."""
        muted = threading.get_ident() == self.thread
        return len(text) if muted else self.output.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.output, name)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the lines that Trackio prints on this thread from breaking into josrc's."""
    before = sys.stdout
    muted: Any = _Muted(before)
    sys.stdout = muted
    try:
        yield
    finally:
        if sys.stdout is muted:
            sys.stdout = before
