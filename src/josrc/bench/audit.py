"""Verdicts against the truth: ours, from one training, beside cleanlab's, from one a fold.

Our side plants errors, as it does in everybody's own images. cleanlab has the networks that serve
it best: stopped before they learn wrong labels by heart.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from josrc._console import say
from josrc._io import write_text
from josrc.bench.cleanlab import (
    FOLDS,
    check_cleanlab,
    cross_validate,
    judge_with_cleanlab,
)
from josrc.bench.look_alikes import confuse_pairs, look_alikes
from josrc.bench.plan import AUDIT_CELLS, AUDIT_SIDES, LOOK_ALIKES, audit_title
from josrc.bench.results import AUDIT, ResultKey
from josrc.bench.suite import find_missing, start_or_resume
from josrc.config import RunConfig
from josrc.data.noise import CLEAN, Labels
from josrc.data.registry import open_source
from josrc.data.source import Source
from josrc.engine.device import choose_device, device_name
from josrc.engine.run_folder import RunFolder, versions
from josrc.engine.state import TrainState
from josrc.engine.trainer import Trainer
from josrc.errors import FolderInUseError, InterruptedRunError, TrainingFailedError, UserError
from josrc.runs.audit import gather_evidence
from josrc.runs.auto import plant_share_for
from josrc.runs.data import with_noise_rate
from josrc.runs.start import configure, listeners, plan
from josrc.verdicts.judge_run import Judgement, judge_labels
from josrc.verdicts.measures import (
    Measures,
    measure,
    measure_calibration,
    measure_noise_rate,
    measure_sure,
)

RECIPE = "augmented"
OURS, THEIRS = AUDIT_SIDES
# What is run unless data is named.
DEFAULT = ("cifar100n-c", "cifar10n", "cifar80n-o", LOOK_ALIKES)
# Epochs of cleanlab's networks. Later they know wrong labels by heart.
THEIR_EPOCHS = 30


def run_audits(
    *,
    data: Sequence[str],
    cells: Sequence[str],
    sides: Sequence[str],
    seeds: int,
    options: Mapping[str, Any],
    results: Path,
    scratch: Path,
    console: Console,
) -> None:
    """Run what is missing; each side of each cell is saved when it is done."""
    keys = plan_audits(data or DEFAULT, cells, sides or AUDIT_SIDES, seeds)
    epochs = options.get("epochs")
    if epochs is not None:  # a trial must never pass for the real thing
        results, scratch = results / "trial", scratch / "trial"
    missing = find_missing(results, keys, epochs, console, f"audit: {len(keys)} results")
    if any(key.method == THEIRS for key in missing):
        check_cleanlab()
    trainers: dict[str, Trainer | None] = {}  # of either side: the next one takes its code over
    for key in missing:
        work = _Work(key, options, results, scratch, console, trainers.get(key.method))
        try:
            found = work.ours() if key.method == OURS else work.theirs()
        except InterruptedRunError as stop:
            stop.advise("Run the same command again to continue.")
            raise
        except (FolderInUseError, TrainingFailedError) as error:
            say(console, f"{work.title}: left out. {error}")
        else:
            write_text(results / key.path, json.dumps(found, indent=1) + "\n")
            say(console, f"{work.title}: {_in_short(found)}")
        trainers[key.method] = work.trainer


def plan_audits(
    data: Sequence[str], cells: Sequence[str], sides: Sequence[str], seeds: int
) -> list[ResultKey]:
    """Both sides of every cell; every cell with the first seed before any with the second."""
    for wrong in [name for name in data if name not in AUDIT_CELLS]:
        raise UserError(f"'{wrong}' is not in audit. It has: {', '.join(AUDIT_CELLS)}.")
    known = dict.fromkeys(cell.key for name in data for cell in AUDIT_CELLS[name])
    for wrong in [key for key in cells if key not in known]:
        raise UserError(f"Unknown cell '{wrong}'. audit has: {', '.join(known)}.")
    for wrong in [side for side in sides if side not in AUDIT_SIDES]:
        raise UserError(f"Unknown side '{wrong}'. Known: {', '.join(AUDIT_SIDES)}.")
    return [
        ResultKey(AUDIT, name, cell, side, RECIPE, seed)
        for seed in range(seeds)
        for name in data
        for cell in AUDIT_CELLS[name]
        if not cells or cell.key in cells
        for side in sides
    ]


class _Work:
    """One side of one cell."""

    def __init__(
        self,
        key: ResultKey,
        options: Mapping[str, Any],
        results: Path,
        scratch: Path,
        console: Console,
        trainer: Trainer | None,
    ) -> None:
        self.key, self.console, self.trainer = key, console, trainer
        self.results, self.scratch = results, scratch
        self.title = f"{key.method} {key.data} {audit_title(key.cell)} seed {key.seed}"
        ours = key.method == OURS
        config, source = _configure(
            key,
            {"method": "josrc" if ours else "standard", "seed": key.seed}
            | ({} if ours else {"epochs": THEIR_EPOCHS})
            | {name: value for name, value in options.items() if value is not None},
        )
        plant = plant_share_for(len(source)) if ours else 0.0
        self.source = source
        self.config = with_noise_rate(config.model_copy(update={"plant": plant}), source)

    def ours(self) -> dict[str, Any]:
        """Train with Jo-SRC once, and judge by what it found out."""
        place = self.scratch / self.key.path.with_suffix("")
        trainer, _ = self._train(self.source, place, self.title)
        begun = time.monotonic()
        evidence, _ = gather_evidence(trainer.state, self.source)
        evidence.write(trainer.folder.evidence)
        judged = judge_labels(trainer.state.ledger.arrays(), self.source, evidence)
        spent = time.monotonic() - begun
        measures = measure_ours(judged, *self._truth())
        return self._result(measures, trainer.seconds, spent)

    def theirs(self) -> dict[str, Any]:
        """Train the plain way, a network a fold, and let cleanlab judge."""
        place = self.scratch / self.key.path.with_suffix("")

        def train(part: Source, fold: int) -> tuple[TrainState, float]:
            title = f"{self.title} fold {fold + 1}/{FOLDS}"
            trainer, _ = self._train(part, place / f"fold-{fold}", title)
            return trainer.state, trainer.seconds

        folds = list(cross_validate(self.source, self.key.seed, place, train))
        begun = time.monotonic()
        judged = judge_with_cleanlab(folds, self.source.given)
        spent = time.monotonic() - begun + sum(float(fold.audit_seconds) for fold in folds)
        scores = (judged.group, judged.wrong_score, judged.ood_score, judged.suggested)
        truth = self._truth()
        measures = measure(*scores, *truth)
        # Its own estimate is how many issues it finds.
        measures |= measure_noise_rate(float(np.mean(judged.issue)), truth[1])
        # cleanlab can also score outliers by predictions: shown beside the score by features.
        other = measure(*scores[:2], judged.ood_score_of_predictions, scores[3], *truth)
        for name in ("auroc_ood", "average_precision_ood"):
            measures[f"{name}_of_predictions"] = other[name]
        trained = sum(float(fold.training_seconds) for fold in folds)
        return self._result(measures, trained, spent)

    def _truth(self) -> tuple[Labels, NDArray[np.int8]]:
        assert self.source.true is not None
        assert self.source.kind is not None
        return self.source.true, self.source.kind

    def _train(self, source: Source, place: Path, title: str) -> tuple[Trainer, dict[str, Any]]:
        folder = RunFolder(place)
        hearing = listeners(folder, self.console, title)
        self.trainer = trainer = Trainer(self.config, source, folder, hearing, self.trainer)
        with folder.locked():
            start_or_resume(trainer, self.console)
            return trainer, trainer.run()

    def _result(self, measures: Measures, trained: float, judged: float) -> dict[str, Any]:
        key = self.key
        return {
            "side": key.method,
            "data": key.data,
            "noise": key.cell.noise,
            "rate": key.cell.rate,
            "seed": key.seed,
            "epochs": self.config.epochs,
            "measures": measures,
            "seconds_training": trained,
            "seconds_audit": judged,
            "device": device_name(choose_device(self.config.device)),
            "versions": versions(),
        }


def measure_ours(judged: Judgement, true: Labels, kind: NDArray[np.int8]) -> Measures:
    """Everything that is measured of our side."""
    verdicts, said = judged.verdicts, judged.measured
    found = measure(verdicts.group, -verdicts.score, verdicts.p_ood, verdicts.rival, true, kind)
    found |= measure_sure(verdicts, true, kind) | measure_calibration(verdicts.p_clean, kind)
    accused = float(np.mean(verdicts.group != CLEAN))
    found |= measure_noise_rate(said.get("noise_rate", accused), kind)
    names = ("noise_rate_low", "noise_rate_high", "estimated_precision", "estimated_recall")
    return found | {name: said.get(name) for name in names}


def _configure(key: ResultKey, options: dict[str, Any]) -> tuple[RunConfig, Source]:
    """The configuration of one side of a cell, and its data."""
    if key.data == LOOK_ALIKES:
        images, true = look_alikes(options.pop("data_root", None))
        # As on the other data: not the network that own photographs get.
        config, source = plan((images, true), **{"model": "cnn7"} | options)
        assert source is not None
        given = confuse_pairs(true, key.cell.rate, config.data.noise_seed)
        return config, replace(source, given=given, true=true)
    rate = key.cell.rate or None  # people's labels have none
    config = configure(key.data, recipe=RECIPE, noise=key.cell.noise, rate=rate, **options)
    return config, open_source(config.data)


def _in_short(found: dict[str, Any]) -> str:
    measures, seconds = found["measures"], found["seconds_training"] + found["seconds_audit"]
    shown = {
        "accused": measures["accused"],
        "of these wrong": measures["precision_wrong"],
        "average precision": measures["average_precision_wrong"],
        "noise rate": measures["noise_rate_estimated"],
        "true": measures["noise_rate"],
    }
    text = ", ".join(f"{name} {value:.3f}" for name, value in shown.items() if value is not None)
    return f"{text} in {seconds:.0f} s"
