"""MLflow: files in the run's folder, or whatever server is set."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from josrc._io import write_text
from josrc._reading import regular
from josrc.config import RunConfig
from josrc.engine.listeners.base import Logger, numbers_of, numbers_of_summary
from josrc.engine.metrics import Row
from josrc.engine.run_folder import run_name


class MLflow(Logger):
    """A run of the experiment ``josrc``; its place is MLFLOW_TRACKING_URI, or the run's folder."""

    def __init__(self, config: RunConfig, folder: Path) -> None:
        super().__init__(config, folder)
        # Without a server: files, which need no database.
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        from mlflow import MlflowClient

        self.create, self.mark = MlflowClient, folder / "josrc-run"

    def started(self, epochs: int, done: int) -> None:
        """Begin a run, or go on with the one of before."""
        uri = os.environ.get("MLFLOW_TRACKING_URI") or self.folder.absolute().as_uri()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.client = self.create(tracking_uri=uri)
        if done and self.mark.is_file():
            self.run = regular(self.mark).read_text(encoding="utf-8")
            self.client.update_run(self.run, status="RUNNING")
            return
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "josrc")
        found = self.client.get_experiment_by_name(name)
        experiment = found.experiment_id if found else self.client.create_experiment(name)
        run = self.client.create_run(experiment, run_name=run_name(self.config))
        self.run = run.info.run_id
        write_text(self.mark, self.run)
        for key, value in self.config.flat().items():
            self.client.log_param(self.run, key, value)

    def epoch_ended(self, row: Row) -> None:
        """Each number a metric of its epoch."""
        for name, value in numbers_of(row).items():
            self.client.log_metric(self.run, name, value, step=int(row["epoch"] or 0))

    def ended(self, summary: dict[str, Any] | None) -> None:
        """Close the run; one that did not finish is called so."""
        for name, value in numbers_of_summary(summary).items():
            self.client.log_metric(self.run, f"summary.{name}", value)
        self.client.set_terminated(self.run, "KILLED" if summary is None else "FINISHED")
