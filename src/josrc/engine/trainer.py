"""The only training loop: epochs, evaluation, checkpoints, events. It knows no method by name."""

from __future__ import annotations

import math
import signal
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch

from josrc.config import RunConfig
from josrc.data.source import Source
from josrc.engine.capture import Stepper, create_stepper
from josrc.engine.checkpoint import load_tensors, save_tensors
from josrc.engine.device import choose_device, device_name, peak_memory_mib
from josrc.engine.events import Listener
from josrc.engine.metrics import Row
from josrc.engine.program import Program
from josrc.engine.runfolder import RunFolder, versions
from josrc.errors import InterruptedRunError, TrainingFailedError, UserError

# A checkpoint is written when the last one is this many times its own cost ago.
CHECKPOINT_PATIENCE = 30
# Collapse: accuracy lost all but this share of its best distance to chance, for this many epochs.
COLLAPSE_SHARE, COLLAPSE_EPOCHS = 0.05, 3


class Trainer:
    """Trains one run in its folder, from the start or from its checkpoint."""

    def __init__(
        self,
        config: RunConfig,
        source: Source,
        folder: RunFolder,
        listeners: Sequence[Listener] = (),
        reuse: Trainer | None = None,
    ) -> None:
        """Set up a run.

        Args:
            config: what to run.
            source: the data it names.
            folder: where it goes.
            listeners: who hears of it.
            reuse: a finished trainer whose compiled code this run takes over, if it fits.
        """
        self.config, self.source, self.folder = config, source, folder
        self.listeners = listeners
        self.device = choose_device(config.device)
        self.program: Program
        self.stepper: Stepper
        if reuse is not None and reuse.fits(config, source):
            self.program, self.stepper = reuse.program, reuse.stepper
            self.program.restart(config, source)
        else:
            self.program = Program(config, source, self.device)
            self.stepper, _ = create_stepper(self.program, config.engine)
        self.epoch, self.position = 0, 0
        self.rows: list[Row] = []
        self.seconds = 0.0  # of training, over all sessions of this run
        self.sick_epochs = 0
        self.signal: int | None = None
        self._saved_at, self._save_cost = 0.0, 0.0

    def fits(self, config: RunConfig, source: Source) -> bool:
        """Whether this trainer's compiled code can train another configuration."""

        def shape(c: RunConfig, s: Source) -> Any:
            values = c.model_dump(exclude={"data": True, "seed": True})
            return values, s.name, s.images.shape, s.closed

        return bool(shape(config, source) == shape(self.config, self.source))

    # --- the loop --------------------------------------------------------------------------------

    def run(self) -> dict[str, Any]:
        """Train to the end and return the summary."""
        summary = None
        self.folder.write_metrics(self.rows)
        self._saved_at = time.monotonic()
        with self._signals():
            self._tell("started", self.config.epochs, self.epoch)
            try:
                while self.epoch < self.config.epochs:
                    self._train_epoch()
                summary = self._finish()
            finally:
                self._tell("ended", summary)
        return summary

    def _train_epoch(self) -> None:
        begun = time.monotonic()
        row = self.program.begin_epoch(self.config, self.epoch, self.position)
        for size in self.program.loader.sizes(self.position):
            if self.signal is not None:
                self._interrupt(time.monotonic() - begun)
            self.stepper(size)
            self.position += size
            self._tell("progressed", self.epoch, self.position, len(self.source))
        row |= self.program.end_epoch()
        seconds = row["seconds"] = time.monotonic() - begun
        self.seconds += seconds
        self._check_loss(row)
        self.rows.append(row)
        self.epoch, self.position = self.epoch + 1, 0
        self.folder.append_metrics(row)
        self._tell("epoch_ended", row)
        self._check_accuracy()
        if self.sick_epochs == 0:
            self._keep()

    def _keep(self) -> None:
        """Save the best weights, and a checkpoint unless one was written just now."""
        if self.best_row is self.rows[-1]:
            self._save_weights(self.folder.best)
        due = time.monotonic() - self._saved_at >= CHECKPOINT_PATIENCE * self._save_cost
        if due or self.epoch == self.config.epochs:
            self.save()

    def _finish(self) -> dict[str, Any]:
        self._save_weights(self.folder.last)
        summary = self.summary()
        self.folder.write_summary(summary)
        return summary

    # --- what can go wrong -----------------------------------------------------------------------

    def _check_loss(self, row: Row) -> None:
        if math.isfinite(row["loss"] or 0.0):
            return
        raise TrainingFailedError(
            f"The loss became {row['loss']} in epoch {self.epoch + 1}. Likely causes: a learning "
            f"rate that is too high ({row['lr']:g}), or guards of the method that were switched "
            f"off.\n{self._last_good()}"
        )

    def _check_accuracy(self) -> None:
        """Stop when test accuracy has gone back to chance and stays there."""
        chance = 100 / self.source.closed
        best = max(row["test_accuracy"] or 0.0 for row in self.rows)
        now = self.rows[-1]["test_accuracy"] or 0.0
        sick = best > 2 * chance and now <= chance + COLLAPSE_SHARE * (best - chance)
        self.sick_epochs = self.sick_epochs + 1 if sick else 0
        if self.config.stop_on_collapse and self.sick_epochs == COLLAPSE_EPOCHS:
            raise TrainingFailedError(
                f"Test accuracy collapsed: {best:.2f} % at its best, {now:.2f} % in epoch "
                f"{self.epoch} (chance is {chance:.2f} %). Likely causes: a loss term without a "
                f"lower bound (Jo-SRC: method.ood_divergence_cap), or a learning rate that is too "
                f"high.\n{self._last_good()}\nTo train on regardless: stop_on_collapse=false."
            )

    def _last_good(self) -> str:
        if not self.folder.checkpoint.is_file():
            return "No epoch was completed before, so there is no checkpoint."
        epoch = load_tensors(self.folder.checkpoint)[1]["epoch"]
        return (
            f"Last good checkpoint: epoch {epoch}, {self.folder.checkpoint}; "
            f"best weights: {self.folder.best}."
        )

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Turn Ctrl-C and SIGTERM into a request; a second Ctrl-C ends at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def request(number: int, frame: FrameType | None) -> None:
            if self.signal is not None:
                raise KeyboardInterrupt
            self.signal = number

        before = {n: signal.signal(n, request) for n in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _interrupt(self, seconds: float) -> None:
        self.seconds += seconds
        self.save()
        assert self.signal is not None
        raise InterruptedRunError(self.signal, self.folder.path)

    # --- state -----------------------------------------------------------------------------------

    def save(self) -> None:
        """Write the checkpoint: all there is, at any place of an epoch."""
        begun = time.monotonic()
        tensors = self.program.tensors() | {"rng.cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            tensors["rng.cuda"] = torch.cuda.get_rng_state(self.device)
        story = {
            "epoch": self.epoch,
            "position": self.position,
            "seconds": self.seconds,
            "sick_epochs": self.sick_epochs,
            "rows": self.rows,
        }
        save_tensors(self.folder.checkpoint, tensors, story)
        self._saved_at = time.monotonic()
        self._save_cost = self._saved_at - begun

    def restore(self) -> None:
        """Go back to the checkpoint; without one the run begins anew."""
        if not self.folder.checkpoint.is_file():
            return
        tensors, story = load_tensors(self.folder.checkpoint)
        torch.set_rng_state(tensors.pop("rng.cpu"))
        cuda = tensors.pop("rng.cuda", None)
        if cuda is not None and self.device.type == "cuda":
            torch.cuda.set_rng_state(cuda, self.device)
        try:
            self.program.load(tensors)
        except (ValueError, RuntimeError) as error:
            raise UserError(f"{self.folder.checkpoint} does not fit this run: {error}") from None
        self.epoch, self.position = story["epoch"], story["position"]
        self.seconds, self.sick_epochs = story["seconds"], story["sick_epochs"]
        self.rows = story["rows"]

    def _save_weights(self, path: Any) -> None:
        story = {
            "method": self.config.method.name,
            "model": self.config.model.model_dump(mode="json"),
            "classes": self.source.closed_names,
            "epoch": self.epoch,
        }
        save_tensors(path, self.program.method.state_dict(), story)

    @property
    def best_row(self) -> Row:
        """The first epoch with the highest test accuracy."""
        return max(self.rows, key=lambda row: row["test_accuracy"] or 0.0)

    def summary(self) -> dict[str, Any]:
        """What ``summary.json`` holds."""
        config, data = self.config, self.config.data
        accuracies = [row["test_accuracy"] or 0.0 for row in self.rows]
        last = accuracies[-10:]
        return {
            "method": config.method.name,
            "variant": self.program.method.variant,
            "recipe": config.recipe,
            "data": data.name,
            "noise": data.noise if data.noise_file is None else "file",
            "rate": data.rate if data.noise_file is None else None,
            "noise_seed": data.noise_seed if data.noise_file is None else None,
            "seed": config.seed,
            "epochs": config.epochs,
            "last10_mean": statistics.fmean(last),
            "last10_std": statistics.pstdev(last),
            "best": max(accuracies),
            "best_epoch": self.best_row["epoch"],
            "final": accuracies[-1],
            "seconds_total": self.seconds,
            "seconds_per_epoch": self.seconds / len(self.rows),
            "peak_memory_mib": peak_memory_mib(self.device),
            "device": device_name(self.device),
            "versions": versions(),
        }

    def _tell(self, event: str, *values: Any) -> None:
        for listener in self.listeners:
            getattr(listener, event)(*values)
