"""What a run reports while it goes on; listeners are subclasses of ``Listener``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from josrc.config import RunConfig
from josrc.engine.metrics import METRIC_COLUMNS, Row

if TYPE_CHECKING:
    from josrc.data.source import Source
    from josrc.engine.state import TrainState


class Listener:
    """Is told what a run does; a subclass overrides the events it needs."""

    def attached(self, state: TrainState, source: Source) -> None:
        """What is about to be trained, and on what: read it, do not change it."""

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

    The constructor imports the library that is needed, and no more: a run that can't start must
    leave nothing behind.

    Attributes:
        config: what is run.
        folder: where it may keep files, ``RUN/logs/NAME``; not there yet.
    """

    def __init__(self, config: RunConfig, folder: Path) -> None:
        self.config, self.folder = config, folder


def numbers_of_summary(summary: dict[str, Any] | None) -> dict[str, float]:
    """The numbers of ``summary.json``; none of a run that did not finish."""
    return {
        name: float(value)
        for name, value in (summary or {}).items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def numbers_of(row: Row) -> dict[str, float]:
    """The numbers of an epoch by their columns in ``metrics.csv``, without the empty ones."""
    found = {name: row.get(name) for name in METRIC_COLUMNS if name != "epoch"}
    return {name: float(value) for name, value in found.items() if value is not None}
