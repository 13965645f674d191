"""How far a suite is, and when it will end."""

from __future__ import annotations

import time

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from josrc._console import duration
from josrc.engine.listeners.base import Listener
from josrc.engine.metrics import Row


class SuiteProgress(Listener):
    """Counts the runs of a suite, and the work in them that this process has done.

    Work is measured in runs: a run resumed at half its epochs adds half a run, so that what was
    done before does not make the estimate of the time left too small.

    Attributes:
        bar: a line for a terminal, to be shown beside the run's own.
    """

    def __init__(self, title: str, runs: int) -> None:
        self.runs, self.ended_runs = runs, 0
        self.begun = time.monotonic()
        self.work = 0.0
        self.share = 0.0  # of the run in flight
        self.epochs = 1
        self.bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            TextColumn("run {task.fields[run]}/{task.total:.0f}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
        )
        self.task = self.bar.add_task(title, total=runs, run=1, left="")

    @property
    def spent(self) -> float:
        """Seconds since the suite began in this process."""
        return time.monotonic() - self.begun

    @property
    def pace(self) -> float | None:
        """Mean seconds per run, once there is anything to tell it from."""
        return self.spent / self.work if self.work else None

    def started(self, epochs: int, done: int) -> None:
        """A run begins, or goes on after some epochs."""
        self.epochs, self.share = epochs, done / epochs
        self._show()

    def epoch_ended(self, row: Row) -> None:
        """Move on by an epoch."""
        share = (row["epoch"] or 0) / self.epochs
        self.work += share - self.share
        self.share = share
        self._show()

    def run_ended(self) -> str:
        """Count a run, whether it succeeded or failed; where the suite is, in words."""
        self.ended_runs, self.share = self.ended_runs + 1, 0.0
        place = f"run {self.ended_runs} of {self.runs}"
        return place if self.ended_runs == self.runs else f"{place}, {self._left()}"

    def run_left_out(self) -> None:
        """Count a run less: another process makes it."""
        self.runs -= 1
        self.bar.update(self.task, total=self.runs)

    def _left(self) -> str:
        if self.pace is None:
            return "time left unknown"
        return f"about {duration(self.pace * (self.runs - self.ended_runs - self.share))} left"

    def _show(self) -> None:
        done = self.ended_runs + self.share
        self.bar.update(
            self.task, completed=done, run=min(self.ended_runs + 1, self.runs), left=self._left()
        )
