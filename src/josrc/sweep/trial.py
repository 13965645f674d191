"""One trial of a sweep, in a worker: a run that begins or goes on, and reports how good it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from josrc._console import Terminal
from josrc.engine.listeners.base import Listener
from josrc.engine.metrics import Row
from josrc.errors import FolderInUseError, TrainingFailedError, UserError
from josrc.runs.run import Run
from josrc.runs.start import plan, resume, start
from josrc.sweep.plan import Metric, Trial
from josrc.sweep.record import FAILED, Record, SweepFolder
from josrc.verdicts.evidence import Evidence
from josrc.verdicts.judge_run import judge_labels

if TYPE_CHECKING:
    from josrc.data.source import Source
    from josrc.engine.state import TrainState

# A worker whose driver was killed needs a moment to notice, and holds its folder so long.
LOCK_PATIENCE_SECONDS = 60.0

Report = Callable[[int, float], None]


class Reporter(Listener):
    """Reports an epoch's metric once it is on disk; the last epoch's waits for the verdicts.

    A run that is stopped at its last report would otherwise lack what it was trained for.
    """

    def __init__(self, trial: Trial, sweep: SweepFolder, metric: Metric, report: Report) -> None:
        self.metric, self.report = metric, report
        self.path = sweep.record(trial.name)
        self.record = Record.read(self.path)
        self.epochs = trial.epochs

    def attached(self, state: TrainState, source: Source) -> None:
        """What is trained, and on what."""
        self.state, self.source = state, source

    def started(self, epochs: int, done: int) -> None:
        """What was reported before the checkpoint is reported again: the scheduler may be new."""
        self.epochs = epochs
        self.record = self.record.until(done)
        for epoch, value in self.record.reports:
            self.report(epoch, value)

    def epoch_ended(self, row: Row) -> None:
        """Measure, keep, report."""
        epoch = int(row["epoch"] or 0)
        if epoch == self.epochs:
            return
        value = row.get("agreement") if self.metric == "agreement" else self._precision()
        if value is not None:
            self._tell(epoch, value)

    def finished(self, run: Run) -> None:
        """Report what the finished run says of itself."""
        found = run.summary if self.metric == "agreement" else run.audit or {}
        value = found.get(self.metric)
        if value is not None:
            self._tell(self.epochs, value)

    def _tell(self, epoch: int, value: float) -> None:
        self.record = self.record.with_report(epoch, value)
        self.record.write(self.path)
        self.report(epoch, value)

    def _precision(self) -> float | None:
        """As ``josrc audit`` estimates it for a run that has not ended; none before planting."""
        planted = self.state.planted
        if not planted.there:
            return None
        evidence = Evidence(
            planted=planted.index.cpu().numpy(), planted_labels=planted.label.cpu().numpy()
        )
        judged = judge_labels(self.state.ledger.arrays(), self.source, evidence)
        value: float | None = judged.measured["estimated_precision"]
        return value


def run_trial(trial: Trial, sweep: SweepFolder, metric: Metric | None, report: Report) -> None:
    """Bring a trial to its end, from wherever it is.

    A training that fails has come to its end, too. Any other error is kept for the driver to tell.
    """
    reporter = Reporter(trial, sweep, metric, report) if metric else None
    try:
        run = _patiently(trial, sweep, [reporter] if reporter else [])
    except TrainingFailedError as error:
        sweep.mark(trial.name, end=FAILED, message=str(error))
    except UserError as error:
        sweep.mark(trial.name, message=str(error))
    else:
        if reporter:
            reporter.finished(run)


def _patiently(trial: Trial, sweep: SweepFolder, hearing: list[Reporter]) -> Run:
    begun = time.monotonic()
    while True:
        try:
            return _start_or_resume(trial, sweep, hearing)
        except FolderInUseError:
            if time.monotonic() - begun > LOCK_PATIENCE_SECONDS:
                raise
            time.sleep(1)


def _start_or_resume(trial: Trial, sweep: SweepFolder, hearing: list[Reporter]) -> Run:
    folder = sweep.run(trial.name)
    if folder.config.is_file():
        return resume(folder.path, hearing=hearing)
    config, source = plan(trial.data, layers=trial.layers)
    return start(config, folder.path, console=Terminal(quiet=True), source=source, hearing=hearing)


def train_trial(trial: Trial, sweep: SweepFolder, metric: Metric | None) -> None:
    """What a worker of Ray Tune calls."""
    from ray import tune

    def report(epoch: int, value: float) -> None:
        tune.report({"epoch": epoch, "value": value})

    run_trial(trial, sweep, metric, report)
