"""The only training loop: epochs, evaluation, checkpoints, events. It knows no method by name."""

from __future__ import annotations

import math
import shlex
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from josrc import distributed
from josrc._console import say_once
from josrc._io import MALFORMED
from josrc.config import SCHEDULED, RunConfig
from josrc.data.source import Source
from josrc.engine.capture import Stepper, create_stepper
from josrc.engine.checkpoint import load_tensors, save_tensors
from josrc.engine.device import choose_device, device_name, kept_memory, peak_memory_mib
from josrc.engine.frozen import gather_features
from josrc.engine.health import Health
from josrc.engine.interruption import StopRequest
from josrc.engine.ledger import check_fields
from josrc.engine.listeners.base import Listener
from josrc.engine.metrics import Row
from josrc.engine.run_folder import RunFolder, versions
from josrc.engine.run_schemas import CheckpointState
from josrc.engine.state import TrainState
from josrc.engine.stopwatch import Stopwatch
from josrc.errors import TrainingFailedError, UserError
from josrc.methods import Method, get_method

# What is left to do when the training has ended, with its summary.
Finish = Callable[[dict[str, Any]], None]

# A checkpoint is written when the last one is this many times its own cost ago.
CHECKPOINT_PATIENCE = 100


class Trainer:
    """Trains one run in its folder, from the start or from its checkpoint."""

    def __init__(
        self,
        config: RunConfig,
        source: Source,
        folder: RunFolder,
        listeners: Sequence[Listener] = (),
        reuse: Trainer | None = None,
        resuming: bool = False,
        method: Method | None = None,
    ) -> None:
        """Set up a run.

        Args:
            config: what to run.
            source: the data it names.
            folder: where it goes.
            listeners: those of the run.
            reuse: a finished trainer whose compiled code this run takes over, if it fits.
            resuming: go on from the folder's checkpoint, if it has one.
            method: the method with its first weights, if they have been drawn before.
        """
        self.config, self.source, self.folder = config, source, folder
        self.listeners = listeners
        self.health = Health(source, get_method(config.method.name).failure_hint)
        self.device = choose_device(config.device)
        self.state: TrainState
        self.stepper: Stepper
        if reuse is not None and reuse.fits(config, source):
            self.state, self.stepper = reuse.state, reuse.stepper
            self.state.restart(config, source)
        else:
            # A checkpoint holds all weights: the file they once came from is not needed again.
            known = resuming and folder.checkpoint.is_file()
            begun = config.without_weights() if known else config
            self.state = TrainState(begun, source, self.device, method)
            self.stepper = create_stepper(self.state, config.engine, self._notice)
        self.epoch, self.position = 0, 0
        self.rows: list[Row] = []
        # Over all sessions of this run.
        self.seconds, self.peak_memory = 0.0, 0.0
        self.stop = StopRequest(folder.path)
        self._saved_at, self._save_cost = 0.0, 0.0
        self._seen = False
        if resuming:
            self.restore()
            self.gather_features()
        if not distributed.is_main():
            # Dropout of its own. Weights, order and views are those of one process.
            torch.manual_seed(config.seed * 1_000_003 + 7919 * distributed.rank() + self.epoch)

    def fits(self, config: RunConfig, source: Source) -> bool:
        """Whether this trainer's compiled code can train another configuration."""

        def shape(c: RunConfig, s: Source) -> Any:
            fields = type(c.method).model_fields.items()
            scheduled = {name for name, field in fields if field.json_schema_extra == SCHEDULED}
            values = c.model_dump(exclude={"data": True, "seed": True, "method": scheduled})
            return values, c.data.epoch_samples, s.name, s.images.shape, s.closed

        return bool(shape(config, source) == shape(self.config, self.source))

    # --- the loop --------------------------------------------------------------------------------

    def run(self, finish: Finish = lambda summary: None) -> dict[str, Any]:
        """Train to the end, ``finish``, and return the summary, which is written last of all.

        Of several processes the first one writes; all of them train, and call ``finish``.
        """
        try:
            with kept_memory(self.device):
                return self._run(finish)
        except RuntimeError as error:
            distributed.check_lost(error, self._whole_checkpoint)
            raise

    def _run(self, finish: Finish) -> dict[str, Any]:
        summary = None
        if distributed.is_main():
            self.folder.write_metrics(self.rows)
        self._saved_at = time.monotonic()
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        with self.stop.heard():
            self._tell("attached", self.state, self.source)
            self._tell("started", self.config.epochs, self.epoch)
            try:
                self.gather_features()
                while self.epoch < self.config.epochs:
                    self._train_epoch()
                if distributed.is_main():
                    self._save_weights(self.folder.last)
                summary = self.summary()
            finally:
                self._tell("ended", summary)
            finish(summary)
            if distributed.is_main():
                self.folder.before.unlink(missing_ok=True)
                self.folder.write_summary(summary)
        return summary

    def gather_features(self) -> None:
        """Of a run with frozen backbones: what its networks see of the images."""
        if not self.state.frozen or self._seen:
            return
        watch = Stopwatch()

        def pause() -> None:
            watch.lap()
            if self.stop.is_granted():
                self._interrupt(watch.seconds)

        gather_features(
            self.state, self.config, self.source, self.folder.frozen, pause, self._notice
        )
        self._seen = True
        self.seconds += watch.lap()

    def _train_epoch(self) -> None:
        watch = Stopwatch()
        row = self.state.begin_epoch(self.config, self.epoch, self.position)
        if self.state.planted.there and distributed.is_main():
            self.folder.keep_planted(self.state.planted)
        for size in self.state.loader.sizes(self.position):
            watch.lap()
            if self.stop.is_granted():
                self._interrupt(watch.seconds)
            self.state.loader.prepare(size)
            self.stepper(size)
            self.position += size
            self._tell("progressed", self.epoch, self.position, len(self.state.loader))
        # The device still works on the steps; what the host can do meanwhile costs nothing.
        if self.epoch + 1 < self.config.epochs:
            self.state.loader.draw_plan(self.config.seed, self.epoch + 1)
        distributed.barrier()  # all have come here: nobody waits on a device for one that ended
        row |= self.state.end_epoch()
        row = distributed.broadcast(lambda: row)  # whatever follows from it, all do the same
        seconds = row["seconds"] = watch.lap()
        self.seconds += seconds
        self._check_loss(row)
        self.rows.append(row)
        self.epoch, self.position = self.epoch + 1, 0
        if distributed.is_main():
            self.folder.append_metrics(row)
        self._tell("epoch_ended", row)
        self._check_accuracy()
        for text in self.health.notices(self._measure(), self.rows, self.folder.best):
            self._notice(text)
        if not (self._sick() and self.config.stop_on_collapse):
            self._keep()

    def _keep(self) -> None:
        """Save the best weights, and a checkpoint unless one was written just now."""
        if not distributed.is_main():
            return
        *before, now = self._scores() or [0.0]
        # Without a measure there is no telling which epoch was best: it is the last one.
        if (not before or now > max(before)) if self._measure() else self._over():
            self._save_weights(self.folder.best)
        due = time.monotonic() - self._saved_at >= CHECKPOINT_PATIENCE * self._save_cost
        if due or self._over():
            self.save()

    def _over(self) -> bool:
        return self.epoch == self.config.epochs

    def _measure(self) -> str | None:
        """What tells how good an epoch's networks are: accuracy, or agreement with doubtful labels.

        Labels for validation that are right for sure leave the test set out of it. None where no
        image was kept from training.
        """
        names = ["test_accuracy", "agreement"]
        for name in reversed(names) if self._validated() else names:
            if any(row.get(name) is not None for row in self.rows):
                return name
        return None

    def _validated(self) -> bool:
        return self.source.val is not None and self.source.val.true is not None

    def _scores(self) -> list[float]:
        measure = self._measure()
        return [row[measure] or 0.0 for row in self.rows] if measure else []

    # --- what can go wrong -----------------------------------------------------------------------

    def _check_loss(self, row: Row) -> None:
        if math.isfinite(row["loss"] or 0.0):
            return
        raise TrainingFailedError(
            f"The loss became {row['loss']} in epoch {self.epoch + 1}. "
            f"{self.health.causes(row['lr'])}\n{self._last_good()}"
        )

    def _check_accuracy(self) -> None:
        """Stop when test accuracy, or agreement, has gone back to chance and stays there."""
        collapse = self.health.collapse(self._measure(), self.rows)
        if collapse and self.config.stop_on_collapse:
            raise TrainingFailedError(
                f"{collapse}\n"
                f"{self._last_good()}\n"
                "To train on regardless, start a run with stop_on_collapse=false."
            )

    def _sick(self) -> bool:
        """Whether the last epoch ended at chance: what it left is not to be kept."""
        return self.health.epochs_collapsed(self._measure(), self.rows) > 0

    def _whole_checkpoint(self) -> str:
        """What is left of a run that lost a process."""
        return (
            f"{self._last_good()}\nResume with: josrc resume {shlex.quote(str(self.folder.path))}"
        )

    def _last_good(self) -> str:
        if not self.folder.checkpoint.is_file():
            return "No epoch was completed before, so there is no checkpoint."
        epoch = load_tensors(self.folder.checkpoint)[1]["epoch"]
        return f"Last good checkpoint: epoch {epoch}, {self.folder.checkpoint}" + (
            f"; best weights: {self.folder.best}." if self.folder.best.is_file() else "."
        )

    def _interrupt(self, seconds: float) -> None:
        """Save and stop; a run that is going wrong keeps its last good checkpoint instead."""
        self.seconds += seconds
        saved = "its last good checkpoint is kept"
        if not self._sick() and math.isfinite(self.state.loss_sum.item()):
            self.state.merge()
            if distributed.is_main():
                self.save()
            saved = "the state is saved"
        distributed.barrier()  # the first to end must not end the one that saves
        raise self.stop.stopped(saved)

    # --- state -----------------------------------------------------------------------------------

    def save(self) -> None:
        """Write the checkpoint: all there is, at any place of an epoch."""
        begun = time.monotonic()
        tensors = self.state.tensors() | {"rng.cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            tensors["rng.cuda"] = torch.cuda.get_rng_state(self.device)
        metadata = {
            "epoch": self.epoch,
            "position": self.position,
            "seconds": self.seconds,
            "peak_memory_mib": self._peak_memory(),
            "rows": self.rows,
            "config": self.config.identity(),
        }
        save_tensors(self.folder.checkpoint, tensors, metadata, self.folder.before)
        self._saved_at = time.monotonic()
        self._save_cost = self._saved_at - begun

    def restore(self) -> None:
        """Go back to the checkpoint; without one the run starts over."""
        if not self.folder.checkpoint.is_file():
            return
        path, tensors, metadata = self._newest_checkpoint()
        try:
            self._check_identity(metadata["config"])
            torch.set_rng_state(tensors.pop("rng.cpu"))
            cuda = tensors.pop("rng.cuda", None)
            if cuda is not None and self.device.type == "cuda":
                torch.cuda.set_rng_state(cuda, self.device)
            self.state.load(tensors)
            self.epoch, self.position = metadata["epoch"], metadata["position"]
            self.seconds, self.rows = metadata["seconds"], metadata["rows"]
            self.peak_memory = metadata.get("peak_memory_mib", 0.0)
            check_fields(self.state.ledger.arrays(), self.source.closed)
            self._check_place()
        except MALFORMED as error:
            raise UserError(f"{path} does not fit this run: {error}") from None

    def _newest_checkpoint(self) -> tuple[Path, dict[str, Tensor], dict[str, Any]]:
        """The checkpoint that can be read: the latest one, or else the one before it."""
        newest, before = self.folder.checkpoint, self.folder.before
        try:
            return newest, *load_tensors(newest, CheckpointState)
        except UserError as error:
            if not before.is_file():
                raise
            damage = error
        try:
            tensors, metadata = load_tensors(before, CheckpointState)
        except UserError:
            raise damage from None
        say_once(
            f"{damage} Going on with the previous one, of epoch {metadata['epoch']}: {before}."
        )
        return before, tensors, metadata

    def _check_place(self) -> None:
        """Raise an error unless the run can be where a checkpoint says that it is."""
        if self.epoch > self.config.epochs or len(self.rows) != self.epoch:
            raise ValueError(
                f"it is of epoch {self.epoch}, with {len(self.rows)} rows of metrics, and the run "
                f"has {self.config.epochs} epochs"
            )
        room = len(self.state.loader.order)  # a method may say itself which samples come
        if self.position >= room:
            raise ValueError(f"it is at sample {self.position:,} of {room:,}")

    def _check_identity(self, saved: dict[str, Any]) -> None:
        """A run goes on only with the settings it began with."""
        own = self.config.identity()
        fixed = {f"method.{key}": value for key, value in self.config.method.retired.items()}
        # Of runs that know nothing of it: what they did.
        fixed |= {"plant": 0.0, "model.train": "all", "optimizer.backbone_factor": 1.0}
        fixed |= {"data.whole_labels": False, "optimizer.end": 0.0, "views.policy": "mild"}
        fixed["views.stored"] = self.config.views.stored
        for key in sorted(own.keys() | saved.keys()):
            ours, theirs = (fixed | own).get(key), (fixed | saved).get(key)
            if ours != theirs:
                raise ValueError(f"{key} was {theirs!r} and is now {ours!r}")

    def _save_weights(self, path: Path) -> None:
        metadata = {
            "method": self.config.method.name,
            "model": self.config.model.model_dump(mode="json"),
            "classes": self.source.closed_names,
            "epoch": self.epoch,
            "images": {
                "tile": self.source.images.shape[1:],
                "crop": self.source.crop,
                "mean": self.source.mean,
                "std": self.source.std,
            },
        }
        save_tensors(path, self.state.method.weights(), metadata)

    def summary(self) -> dict[str, Any]:
        """What ``summary.json`` holds."""
        config, data = self.config, self.config.data
        rows = self.rows or [{"epoch": 0, "test_accuracy": 0.0}]  # failed in its first epoch
        tested = self.source.test_images is not None
        reached = [row["test_accuracy"] or 0.0 for row in rows] if tested else []
        # Epochs that a failed run never reached count as chance: it must not gain by failing.
        missing = [self.health.chance] * (config.epochs - len(self.rows)) if tested else []
        accuracies = reached[: len(self.rows)] + missing
        last = accuracies[-10:]
        scores = self._scores()
        best = rows[scores.index(max(scores))] if scores else rows[-1]
        held = {} if self.source.val is None else {"agreement": rows[-1].get("agreement")}
        if self._validated() and reached:
            # The second was chosen by the test set itself: for comparison with those who did so.
            held |= {"val_chosen": best.get("test_accuracy"), "test_best": max(reached)}
        return {
            "method": config.method.name,
            "variant": self.state.method.variant,
            "recipe": config.recipe,
            "data": data.name,
            "noise": data.noise if data.noise_file is None else "file",
            "rate": data.rate if data.noise_file is None else None,
            "noise_seed": data.noise_seed if data.noise_file is None else None,
            "seed": config.seed,
            "epochs": config.epochs,
            "last10_mean": statistics.fmean(last) if last else None,
            "last10_std": statistics.pstdev(last) if last else None,
            "best": max(reached) if reached else None,
            "best_epoch": best["epoch"],  # of the best weights
            "final": accuracies[-1] if accuracies else None,
            **held,
            **self.state.turned(),
            **self.state.method.facts(config.epochs),
            **self.health.summary(self._measure(), self.rows),
            "seconds_total": self.seconds,
            "seconds_per_epoch": self.seconds / len(rows),
            "peak_memory_mib": self._peak_memory(),
            "device": device_name(self.device),
            "versions": versions(),
        }

    def _peak_memory(self) -> float:
        return max(self.peak_memory, peak_memory_mib(self.device))

    def _notice(self, text: str) -> None:
        self._tell("noticed", text)

    def _tell(self, event: str, *values: Any) -> None:
        for listener in self.listeners:
            getattr(listener, event)(*values)
