"""What is said of a run that was trained or stopped: verdicts on its samples, and the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from josrc._reading import check_array, read_arrays
from josrc.config import SCAN
from josrc.data.feature_file import open_features
from josrc.data.source import Source
from josrc.engine.device import choose_device
from josrc.engine.run_folder import RunFolder
from josrc.engine.state import TrainState
from josrc.engine.trainer import Trainer
from josrc.errors import UserError
from josrc.runs.compare import compare_runs
from josrc.runs.data import has_untrusted_labels
from josrc.runs.resolve import load_run_config
from josrc.runs.run import Run
from josrc.runs.snapshot import OpenRun, open_run
from josrc.verdicts.evidence import Evidence
from josrc.verdicts.feature_map import (
    MAP_NAME,
    FeatureMap,
    MapKind,
    check_kind,
    make_map,
    read_features,
    write_map,
)
from josrc.verdicts.features import label_probabilities
from josrc.verdicts.groups import read_groups
from josrc.verdicts.judge_run import read_ledger, write_audit, write_judgement
from josrc.verdicts.predictions import (
    frozen_label_probabilities,
    judge_predictions,
    predict_labels,
)
from josrc.verdicts.report.page import NoPicturesError, write_report
from josrc.verdicts.table import verdicts_of

NOT_THERE = "Missing images have no picture, and the run knows nothing about new ones."


def silent(text: str) -> None:
    """Say nothing: nobody is listening."""


def gather_evidence(state: TrainState, source: Source) -> tuple[Evidence, FeatureMap]:
    """What the final networks say of the labels, by their features; and of planted errors.

    Of several processes each looks at a part of the images, and all get the whole. The features
    also give the map of all images, those of the first network where there are two.
    """
    survey, trained = state.survey(0), state.loader.label
    own = torch.from_numpy(source.given).to(state.device)
    asked = torch.stack([trained, own], dim=1)
    val = source.val if has_untrusted_labels(source.val) else None
    found, held, made = [], [], None
    unlearned = state.unlearned_features()
    for network in state.classifiers:
        known = None
        if val is not None and (seen := state.held_out_features(network)) is not None:
            known = seen, torch.from_numpy(val.given).to(state.device)
        features = survey.features(network)
        if made is None:
            made = make_map(features if known is None else torch.cat([features, known[0]]))
        if unlearned is None:
            answers, others = label_probabilities(features, trained, asked, source.closed, known)
        else:
            answers, others = frozen_label_probabilities(
                unlearned, trained, asked, source.closed, known
            )
        found.append(answers)
        if others is not None:
            held.append(others)
    probability = torch.stack(found).mean(dim=0).cpu().numpy()
    evidence = Evidence(
        features=probability[:, 0],
        frozen=None if unlearned is None else np.ones(1, dtype=np.uint8),
        held=torch.stack(held).mean(dim=0).cpu().numpy() if held else None,
    )
    assert made is not None
    planted = state.planted
    if not planted.there:
        return evidence, made
    rows, (total, visits) = planted.index.cpu().numpy(), planted.seen.cpu().numpy().T
    evidence = replace(
        evidence,
        planted=rows,
        planted_labels=planted.label.cpu().numpy(),
        own_support=total / np.maximum(visits, 1),
        own=survey.probabilities(state.trusted, planted.index).cpu().numpy(),
        own_features=probability[rows, 1],
    )
    return evidence, made


def out_of_fold(state: TrainState, source: Source, held_out: NDArray[Any] | None) -> NDArray[Any]:
    """Probabilities of all classes for every row of ``verdicts.csv``, ``(N, classes)``.

    The network has seen the labels of its training samples and would only repeat them. So theirs
    are of discriminants on its features, each of which has not seen the samples it is asked about;
    the features themselves have. Held-out samples get the network's own answers.
    """
    given = torch.from_numpy(source.given).to(state.device)
    every = torch.arange(source.closed, device=state.device).expand(len(given), -1)
    survey, found, unlearned = state.survey(0), [], state.unlearned_features()
    for network in state.classifiers:
        if unlearned is None:
            features = survey.features(network)
            found.append(label_probabilities(features, given, every, source.closed)[0])
        else:
            found.append(frozen_label_probabilities(unlearned, given, every, source.closed)[0])
    probability: NDArray[Any] = torch.stack(found).mean(dim=0).cpu().numpy()
    return probability if held_out is None else np.concatenate([probability, held_out])


def read_evidence(folder: RunFolder) -> Evidence | None:
    """What is known beside the ledger of a run that has ended; of one that has not, the errors."""
    if folder.evidence.is_file():
        return Evidence.read(folder.evidence)
    if not folder.planted.is_file():
        return None
    planted = read_arrays(folder.planted, needed=("index", "label"))
    check_array(folder.planted, planted, "index", "iu", low=0)
    check_array(folder.planted, planted, "label", "iu", length=len(planted["index"]), low=0)
    return Evidence(planted=planted["index"], planted_labels=planted["label"])


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
        noise_rate: share of wrong labels, including those of out-of-distribution images, if known.
        ood_rate: share of out-of-distribution images, if known; 0: each belongs to some class.
        data_root: where the data is now, if it has moved.
        tell: is called with messages, such as how the images have changed since.

    Returns:
        The content of ``audit/summary.json``.
    """
    for name, rate in (("noise_rate", noise_rate), ("ood_rate", ood_rate)):
        if rate is not None and not 0 <= rate <= 1:
            raise UserError(f"{name}={rate:g} is not a share: it must lie between 0 and 1.")
    if None not in (noise_rate, ood_rate) and ood_rate > noise_rate:  # type: ignore[operator]
        raise UserError(
            f"An OOD rate of {ood_rate:g} is more than the noise rate of {noise_rate:g}: labels "
            "of out-of-distribution images count as wrong too."
        )
    path = _path_of(run)
    folder = RunFolder(path)
    config = load_run_config(folder)  # says if this is not a run
    if config.method.name == SCAN:
        with folder.locked():
            return _judge_scan(open_run(path, data_root=data_root), noise_rate, ood_rate, tell)
    if not folder.checkpoint.is_file():
        raise UserError(
            f"{path} has no checkpoint yet: nothing has been learned about its samples."
        )
    with folder.locked():
        opened = open_run(path, data_root=data_root)
        ledger = read_ledger(folder.checkpoint, opened.source.closed)
        _tell(opened, tell)
        # Verdicts need no pixels, but those on held-out images do.
        held_out = _answers(opened) if has_untrusted_labels(opened.source.val) else None
        evidence, source = read_evidence(folder), opened.source
        if evidence is not None:
            evidence.check(folder.evidence, len(source), source.closed)
        rates = (noise_rate, ood_rate)
        summary = write_audit(folder.audit, ledger, source, evidence, held_out, *rates)
        if folder.metrics.is_file():  # not yet for a run that was stopped in its first epoch
            try:
                write_report(folder, opened.config, opened.source)
            except NoPicturesError as error:
                tell(str(error))
        return summary


def _judge_scan(
    opened: OpenRun,
    noise_rate: float | None,
    ood_rate: float | None,
    tell: Callable[[str], None],
) -> dict[str, Any]:
    """Verdicts of a scan from the features that it has kept."""
    _tell(opened, tell)
    folder, source = opened.folder, opened.source
    folder.check_judges()
    features = open_features(folder.features)
    if not features.shape[1]:
        raise UserError(
            f"{folder.path} was made from predictions that it does not keep. Scan again, with "
            "--probs and --noise-rate or --ood-rate."
        )
    if len(features) != len(source):
        raise UserError(
            f"{folder.features} is damaged: it holds features of {len(features):,} images, and "
            f"the run has {len(source):,}."
        )
    device = choose_device(opened.config.device)
    groups = read_groups(folder.groups, source.given)
    probabilities = predict_labels(features, source.given, source.closed, device, groups)
    rates = (noise_rate, ood_rate)
    judged = judge_predictions(probabilities, source.given, *rates)
    summary = write_judgement(folder.audit, judged, source, rates=rates)
    try:
        write_report(folder, opened.config, source)
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
        tell(f"{opened.changes.describe()} {NOT_THERE}")


def report(
    run: Run | str | Path,
    *,
    data: Sequence[Any] | None = None,
    data_root: str | Path | None = None,
    map_kind: MapKind | Literal["none"] | None = None,
    compare: Run | str | Path | None = None,
    tell: Callable[[str], None] = silent,
) -> Path:
    """Write the report of a run that has verdicts: one HTML file, which is returned.

    Args:
        run: the run, or its folder.
        data: the pair of images and labels that the run started with, if it was one.
        data_root: where the data is now, if it has moved.
        map_kind: redraw the map of all images with ``pca`` or ``umap``, which the run keeps; or
            leave it out, ``none``. Default: the one that the run has.
        compare: an earlier run on the same images, or its folder, to compare with.
        tell: is called with messages, such as how the images have changed since.
    """
    if map_kind is not None and map_kind != "none":
        check_kind(map_kind)
    path = _path_of(run)
    folder = RunFolder(path)
    load_run_config(folder)  # says if this is not a run
    if not verdicts_of(folder.audit).exists():
        raise UserError(f"{folder.path} has no verdicts yet. Write them: josrc audit {folder.path}")
    compared = None if compare is None else compare_runs(_path_of(compare), path).described()
    with folder.locked():
        opened = open_run(path, data_root=data_root, pair=data)
        _tell(opened, tell)
        if map_kind is not None and map_kind != "none":
            write_map(folder.audit, make_map(_features(opened), map_kind))
        drawn = map_kind != "none"
        return write_report(folder, opened.config, opened.source, with_map=drawn, compared=compared)


def _features(opened: OpenRun) -> Tensor:
    """Features of all images that have verdicts: those that a run keeps, or its network's."""
    folder, source = opened.folder, opened.source
    if folder.features.is_file():
        return read_features(folder.features)
    if not folder.checkpoint.is_file():
        raise UserError(f"{folder.path} has no checkpoint to compute the features of a map with.")
    if opened.changes is not None and len(opened.changes.gone):
        raise UserError(
            f"A map needs every image, and {len(opened.changes.gone):,} are missing. "
            f"{folder.audit / MAP_NAME} is left as it was."
        )
    state = Trainer(opened.config, source, folder, resuming=True).state
    network = state.classifiers[0]
    held = state.held_out_features(network) if has_untrusted_labels(source.val) else None
    parts = [state.survey(0).features(network), held]
    return torch.cat([part for part in parts if part is not None])
