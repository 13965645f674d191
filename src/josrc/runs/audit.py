"""What is said of a run that was trained or stopped: verdicts on its samples, and the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from josrc._io import readable
from josrc.data.source import Source
from josrc.engine.run_folder import RunFolder
from josrc.engine.state import TrainState
from josrc.engine.trainer import Trainer
from josrc.errors import UserError
from josrc.runs.data import has_untrusted_labels
from josrc.runs.resolve import load_run_config
from josrc.runs.run import Run
from josrc.runs.snapshot import OpenRun, open_run
from josrc.verdicts.evidence import Evidence
from josrc.verdicts.features import label_probabilities
from josrc.verdicts.judge_run import read_ledger, write_audit
from josrc.verdicts.report.page import NoPicturesError, write_report

NOT_THERE = "What is gone has no picture, and of what is new the run knows nothing."


def silent(text: str) -> None:
    """Nobody is there to be told."""


def gather_evidence(state: TrainState, source: Source) -> Evidence:
    """What the final networks say of the labels, by their features; and of planted errors.

    Of several processes each looks at a part of the images, and all get the whole.
    """
    survey, trained = state.survey(0), state.loader.label
    own = torch.from_numpy(source.given).to(state.device)
    asked = torch.stack([trained, own], dim=1)
    val = source.val if has_untrusted_labels(source.val) else None
    found, held = [], []
    for network in state.classifiers:
        known = None
        if val is not None and (seen := state.held_out_features(network)) is not None:
            known = seen, torch.from_numpy(val.given).to(state.device)
        features = survey.features(network)
        answers, others = label_probabilities(features, trained, asked, source.closed, known)
        found.append(answers)
        if others is not None:
            held.append(others)
    probability = torch.stack(found).mean(dim=0).cpu().numpy()
    evidence = Evidence(
        features=probability[:, 0],
        held=torch.stack(held).mean(dim=0).cpu().numpy() if held else None,
    )
    planted = state.planted
    if not planted.there:
        return evidence
    rows, (total, visits) = planted.index.cpu().numpy(), planted.seen.cpu().numpy().T
    return replace(
        evidence,
        planted=rows,
        planted_labels=planted.label.cpu().numpy(),
        own_support=total / np.maximum(visits, 1),
        own=survey.probabilities(state.trusted, planted.index).cpu().numpy(),
        own_features=probability[rows, 1],
    )


def read_evidence(folder: RunFolder) -> Evidence | None:
    """What is known beside the ledger of a run that has ended; of one that has not, the errors."""
    if folder.evidence.is_file():
        return Evidence.read(folder.evidence)
    if not folder.planted.is_file():
        return None
    with readable(folder.planted), np.load(folder.planted, allow_pickle=False) as file:
        return Evidence(planted=file["index"], planted_labels=file["label"])


def held_out_answers(state: TrainState) -> NDArray[Any] | None:
    """What the final network says of the held-out images, ``(held, classes)``, if there are any."""
    found = state.held_out_probabilities()
    return None if found is None else found.cpu().numpy()


def audit(
    run: Run | str | Path,
    noise_rate: float | None = None,
    ood_rate: float | None = None,
    *,
    data_root: str | Path | None = None,
    tell: Callable[[str], None] = silent,
) -> dict[str, Any]:
    """Write the verdicts on the samples of a run, finished or not.

    Args:
        run: the run, or its folder.
        noise_rate: share of wrong labels, those of foreign images included, where it is known.
        ood_rate: share of foreign images, where it is known: 0 where each belongs to some class.
        data_root: where the data is now, if it has moved.
        tell: hears what has become of the images since the training.

    Returns:
        The content of ``audit/summary.json``.
    """
    for name, rate in (("noise_rate", noise_rate), ("ood_rate", ood_rate)):
        if rate is not None and not 0 <= rate <= 1:
            raise UserError(f"{name}={rate:g} is no share: it lies between 0 and 1.")
    if None not in (noise_rate, ood_rate) and ood_rate > noise_rate:  # type: ignore[operator]
        raise UserError(
            f"An OOD rate of {ood_rate:g} is more than the noise rate of {noise_rate:g}: labels of "
            "foreign images count as wrong ones too."
        )
    path = _path_of(run)
    folder = RunFolder(path)
    load_run_config(folder)  # says if this is no run
    if not folder.checkpoint.is_file():
        raise UserError(f"{path} has no checkpoint yet: nothing was learned about its samples.")
    with folder.locked():
        ledger = read_ledger(folder.checkpoint)
        opened = open_run(path, data_root=data_root)
        _tell(opened, tell)
        # Verdicts need no pixels, but those on held-out images do.
        held_out = _answers(opened) if has_untrusted_labels(opened.source.val) else None
        evidence, source = read_evidence(folder), opened.source
        rates = (noise_rate, ood_rate)
        summary = write_audit(folder.audit, ledger, source, evidence, held_out, *rates)
        if folder.metrics.is_file():  # not yet for a run that was stopped in its first epoch
            try:
                write_report(folder, opened.config, opened.source)
            except NoPicturesError as error:
                tell(str(error))
        return summary


def _path_of(run: Run | str | Path) -> Path:
    return run.path if isinstance(run, Run) else Path(run)


def _answers(opened: OpenRun) -> NDArray[Any] | None:
    """What the final network says of the held-out images; NaN of those that are gone."""
    source, held = opened.source, opened.source.val
    assert held is not None
    there = np.arange(len(held))
    if opened.changes is not None:
        there = np.setdiff1d(there, opened.changes.gone - len(source))
    unknown = np.full((len(held), source.closed), np.nan, dtype=np.float32)
    if not there.size:
        opened.check_images()
        return unknown
    if there.size < len(held):
        source = replace(source, val=held.take(there))
    trainer = Trainer(opened.config, source, opened.folder, resuming=True)
    answers = held_out_answers(trainer.state)
    if answers is None or there.size == len(held):
        return answers
    unknown[there] = answers
    return unknown


def _tell(opened: OpenRun, tell: Callable[[str], None]) -> None:
    if opened.changes:
        tell(f"{opened.changes.told()} {NOT_THERE}")


def report(
    run: Run | str | Path,
    *,
    data: Sequence[Any] | None = None,
    data_root: str | Path | None = None,
    tell: Callable[[str], None] = silent,
) -> Path:
    """Write the report of a run that has verdicts: one HTML file, which is returned.

    Args:
        run: the run, or its folder.
        data: the pair of images and labels that the run began with, if it was one.
        data_root: where the data is now, if it has moved.
        tell: hears what has become of the images since the training.
    """
    path = _path_of(run)
    folder = RunFolder(path)
    load_run_config(folder)  # says if this is no run
    if not (folder.audit / "verdicts.csv").is_file():
        raise UserError(f"{folder.path} has no verdicts yet. Write them: josrc audit {folder.path}")
    with folder.locked():
        opened = open_run(path, data_root=data_root, pair=data)
        _tell(opened, tell)
        return write_report(folder, opened.config, opened.source)
