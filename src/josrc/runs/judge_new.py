"""Verdicts on images that came since a run, without another training or scan.

They get a run folder of their own, as that of a scan: report, review and apply work on it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from josrc._console import counted
from josrc.config import SCAN, DataConfig, RunConfig, ScanSettings
from josrc.data.feature_file import open_features, origin_of
from josrc.data.image_files import ImageFiles
from josrc.data.noise import Labels
from josrc.data.packed_strings import PackedStrings
from josrc.data.readers import read_table
from josrc.data.readers.table import TRAIN, Table
from josrc.data.registry import describe_data
from josrc.data.source import Source
from josrc.data.workers import Faults
from josrc.engine.device import choose_device
from josrc.engine.run_folder import RunFolder, free_name, prepare_folder
from josrc.engine.stopwatch import Stopwatch
from josrc.errors import UserError
from josrc.runs.data import has_untrusted_labels
from josrc.runs.evaluate import match_labels
from josrc.runs.features import feature_network, features_of_files
from josrc.runs.run import Run
from josrc.runs.scan import no_features, scan_summary
from josrc.runs.snapshot import OpenRun, open_run, source_of_files, write_record
from josrc.verdicts.evidence import Evidence
from josrc.verdicts.findings import Findings, held_out_findings
from josrc.verdicts.groups import read_groups
from josrc.verdicts.judge_run import (
    Judgement,
    judge_labels,
    measure_by_planted,
    read_ledger,
    write_judgement,
)
from josrc.verdicts.predictions import (
    PREDICTED,
    judge_predictions,
    predict_labels,
    predictions_of_others,
)
from josrc.verdicts.report.page import NoPicturesError, write_report
from josrc.verdicts.rule import Verdicts, judge_held_out
from josrc.verdicts.table import AuditPart, write_verdicts

NEW_NAME = "new-verdicts.csv"
Rates = tuple[float | None, float | None]


@dataclass(frozen=True)
class NewImages:
    """Images that a run has not seen, with their labels as numbers of its classes.

    Attributes:
        images: where they lie.
        given: their labels.
        ids: what they are called.
        known: where images of the run lie that are among them.
        data: what they come from.
    """

    images: ImageFiles
    given: Labels
    ids: list[str]
    known: list[str]
    data: DataConfig

    def take(self, index: NDArray[np.int64]) -> NewImages:
        """Some of them."""
        ids = [self.ids[place] for place in index.tolist()]
        return replace(self, images=self.images.take(index), given=self.given[index], ids=ids)


def judge_new(
    path: str | Path,
    new: str | Path,
    *,
    out: str | Path | None = None,
    overwrite: bool = False,
    data_root: str | Path | None = None,
    tell: Callable[[str], None],
) -> Run:
    """Judge labels of images that came since a run; returns their own run.

    Args:
        path: the run folder.
        new: a folder of class folders, or a manifest; images of the run in it are left out.
        out: the folder for the new images, their report and decisions on them; ``RUN-new`` unless
            given. An existing one is an error.
        overwrite: replace an existing one.
        data_root: where the run's own data is now, if it has moved.
        tell: is told how they were judged, and what was found.
    """
    watch = Stopwatch()
    run = Run.load(path)  # says if it has not finished
    RunFolder(run.path).check_judges()
    opened = open_run(path, data_root=data_root)
    found = read_new(new, opened)
    config = _config(run.config, found.data)
    home = Path(out) if out else free_name(run.path.with_name(f"{run.path.absolute().name}-new"))
    folder = prepare_folder(home, config, overwrite)
    folder.check_undecided()
    rates = _known_rates(run)
    judge = _by_features if run.config.method.name == SCAN else _by_network
    part, faults, how = judge(run, opened, found, rates)
    write_verdicts(opened.folder.audit / NEW_NAME, [part], opened.source.closed_names)
    skipped = [(found.images.location(place), why) for place, why in faults]
    skipped += [(place, f"it is in {run.path} already") for place in found.known]
    source = _source(part, found, opened, config, skipped)
    with folder.locked():
        if folder.config.is_file():
            folder.clear()
        origin = {"judged": how, "judged_by": str(run.path.absolute())}
        ended = _write_run(folder, config, source, part, origin, watch)
    tell("\n".join(_describe(folder, part, found, faults, how)))
    return Run(folder.path, config, ended)


def _write_run(
    folder: RunFolder,
    config: RunConfig,
    source: Source,
    part: AuditPart,
    origin: Mapping[str, str],
    watch: Stopwatch,
) -> dict[str, Any]:
    """Write what a scan of the new images would leave; returns ``summary.json``."""
    write_record(folder.samples, source)
    no_features(folder, source)
    measured = {**measure_by_planted(part.verdicts, None, None), **origin}
    judged = Judgement(part.verdicts, part.findings, measured, least=1.0)
    write_judgement(folder.audit, judged, source)
    folder.create(config, source, choose_device(config.device))
    ended = scan_summary(config, watch.lap())
    with suppress(NoPicturesError):
        write_report(folder, config, source, ended)
    folder.write_summary(ended)
    return ended


def _describe(
    folder: RunFolder, part: AuditPart, found: NewImages, faults: Faults, how: str
) -> list[str]:
    """For the screen."""
    lines = [f"{counted(len(part.given), 'new image')}, judged {how}."]
    if found.known:
        lines.append(
            f"Left out, as the run has them already: {counted(len(found.known), 'image')}."
        )
    if faults:
        place, why = faults[0]
        where = found.images.location(place)
        lines.append(f"Could not be read: {counted(len(faults), 'file')}, such as {where}: {why}.")
    return [*lines, f"Run folder: {folder.path}"]


def _config(config: RunConfig, data: DataConfig) -> RunConfig:
    """The configuration of a scan of the new images, with the judging run's network."""
    values = {"data": data, "method": ScanSettings(), "recipe": SCAN, "epochs": 1, "log": []}
    return config.model_copy(update=values)


def _source(
    part: AuditPart,
    found: NewImages,
    opened: OpenRun,
    config: RunConfig,
    skipped: Sequence[tuple[str, str]],
) -> Source:
    """The images that were judged, with the classes of the run that judged them."""
    place = {name: number for number, name in enumerate(found.ids)}
    index = np.array([place[str(name)] for name in part.ids], dtype=np.int64)
    names, ids = opened.source.closed_names, PackedStrings.of(map(str, part.ids))
    files, split = found.images.take(index), np.full(len(index), TRAIN)
    table = Table(files, part.given, names, ids, split)
    return replace(source_of_files(table, config), val=None, skipped=tuple(skipped))


def read_new(new: str | Path, opened: OpenRun) -> NewImages:
    """The images at a path that a run does not have."""
    config = describe_data(
        str(new),
        path_column=opened.config.data.path_column if Path(new).is_file() else None,
        label_column=opened.config.data.label_column if Path(new).is_file() else None,
        whole_labels=opened.config.data.whole_labels if Path(new).is_file() else False,
        allow_outside=opened.config.data.allow_outside if Path(new).is_file() else False,
    )
    if not config.kind.has_place:
        raise UserError(f"--new {new}: name a folder of class folders, or a manifest.")
    table = read_table(config)
    parts = [opened.source] if opened.source.val is None else [opened.source, opened.source.val]
    own = {os.path.abspath(p) for part in parts for p in part.paths}  # noqa: PTH100
    files, labelled = table.files, np.flatnonzero(table.labels >= 0)
    there = [
        place
        for place in labelled.tolist()
        if os.path.abspath(files.location(place)) not in own  # noqa: PTH100
    ]
    if not there:
        raise UserError(
            f"--new {new} holds no labelled image that {opened.folder.path} does not have."
        )
    index = np.array(there, dtype=np.int64)
    given = match_labels(
        table.labels[index], table.class_names, opened.source.closed_names, str(new)
    )
    ids = [table.ids[place] for place in there]
    known = [files.location(place) for place in sorted({*labelled.tolist()} - {*there})]
    return NewImages(files.take(index), given, ids, known, config)


def _known_rates(run: Run) -> Rates:
    """What somebody has said of the run's labels, which holds for its yardstick."""
    audit = run.audit
    if audit is None:
        raise UserError(f"{run.path} has no verdicts yet. Write them: josrc audit {run.path}")
    return audit.get("known_noise_rate"), audit.get("known_ood_rate")


def _part(verdicts: Verdicts, findings: Findings, found: NewImages) -> AuditPart:
    paths = [found.images.location(place) for place in range(len(found.given))]
    return AuditPart(verdicts, findings, found.given, found.ids, paths)


def _sound(found: NewImages, faults: Faults) -> NDArray[np.int64]:
    """Which of the images could be read; an error if none could."""
    sound = np.setdiff1d(np.arange(len(found.given)), [place for place, _ in faults])
    if not sound.size:
        place, why = faults[0]
        raise UserError(f"No new image can be read: of {found.images.location(place)}, {why}.")
    return sound


def _by_features(
    run: Run, opened: OpenRun, found: NewImages, rates: Rates
) -> tuple[AuditPart, Faults, str]:
    """By neighbours and a discriminant among the images that were scanned."""
    folder, source, config = opened.folder, opened.source, opened.config
    features = _own_features(folder.features, run.path)
    device = choose_device(config.device)
    network = feature_network(config.model, source)
    seen, faults = features_of_files(found.images, source, network, config.model, device)
    sound = _sound(found, faults)
    left, classes = found.take(sound), source.closed
    groups = read_groups(folder.groups, source.given)
    own = predict_labels(features, source.given, classes, device, groups)
    reference = judge_predictions(own, source.given, *rates).verdicts.reference
    asked = predictions_of_others(features, seen[sound], source.given, classes, device)
    findings = held_out_findings(asked, left.given)
    kind = np.full(len(left.given), PREDICTED, dtype=np.int8)
    findings = replace(findings, held=kind)
    # All predictions are of images whose own label had no say: scores need no other measure.
    verdicts = judge_held_out(findings, left.given, reference, drawn=0)
    how = (
        f"by features of {config.model.name}, with neighbours and a discriminant among the "
        f"{len(source):,} images of {run.path}"
    )
    return _part(verdicts, findings, left), faults, how


def _own_features(path: Path, run: Path) -> NDArray[Any]:
    """The features that a scan has taken itself."""
    features = open_features(path)
    origin = origin_of(path)
    if origin["model"] == "given":
        what = "features" if features.shape[1] else "predictions"
        raise UserError(
            f"{run} was made from {what} of your own, and josrc can't compute those of new "
            "images. Scan all images together, with "
            f"--{'features' if features.shape[1] else 'probs'}."
        )
    return features


def _by_network(
    run: Run, opened: OpenRun, found: NewImages, rates: Rates
) -> tuple[AuditPart, Faults, str]:
    """By the trained network, as images that were held out of training."""
    folder, source = opened.folder, opened.source
    predictor = run.predictor(last=True)
    probabilities, faults = _answers(predictor, found.images, opened.config)
    sound = _sound(found, faults)
    left = found.take(sound)
    evidence = Evidence.read(folder.evidence) if folder.evidence.is_file() else Evidence()
    ledger = read_ledger(folder.checkpoint)
    reference = judge_labels(ledger, source, evidence, *rates).verdicts.reference
    asked, given, drawn = probabilities[sound], left.given, None
    held = _held_out(predictor, source, opened)
    if held is not None:  # drawn by chance from the run's data: they give the scores their measure
        asked, given = np.concatenate([held[0], asked]), np.concatenate([held[1], given])
        drawn = len(held[1])
    # What the network says stands in for a discriminant on its features.
    findings = held_out_findings(asked, given, asked[np.arange(len(given)), given])
    verdicts = judge_held_out(findings, given, reference, drawn)
    new = slice(drawn or 0, None)
    how = f"by the trained network of {run.path}, as images that were held out of training"
    return _part(verdicts.part(new), findings.part(new), left), faults, how


def _answers(predictor: Any, images: Any, config: RunConfig) -> tuple[NDArray[np.float32], Faults]:
    """What the network says of images, and which gave none."""
    found, faults = [], []
    for probabilities, wrong in predictor.stream(images, workers=config.data.workers):
        found.append(probabilities)
        faults += wrong
    return np.concatenate(found), faults


def _held_out(
    predictor: Any, source: Source, opened: OpenRun
) -> tuple[NDArray[np.float32], Labels] | None:
    """What the network says of held-out images whose labels are as doubtful as the others."""
    val = source.val
    if val is None or not has_untrusted_labels(val):
        return None
    probabilities, faults = _answers(predictor, val.images, opened.config)
    sound = np.setdiff1d(np.arange(len(val)), [place for place, _ in faults])
    return (probabilities[sound], val.given[sound]) if sound.size else None
