"""``scan``: verdicts without training, from features of a pretrained network or what a user has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from josrc._console import Terminal, progress_bar, say
from josrc.config import SCAN, RunConfig
from josrc.data.duplicates import tally
from josrc.data.feature_file import Features, FeatureWriter, open_features, write_scaled
from josrc.data.images import ArrayImages
from josrc.data.noise import Labels
from josrc.data.registry import open_source
from josrc.data.source import Source
from josrc.engine.device import choose_device, device_name, kept_memory
from josrc.engine.run_folder import RunFolder, prepare_folder, versions
from josrc.engine.stopwatch import Stopwatch
from josrc.errors import UserError
from josrc.models.factory import Classifier, expected_images
from josrc.runs.data import read_images
from josrc.runs.features import (
    DEFAULT_MODEL,
    SMALL_INPUT,
    SMALL_SIDE,
    FeatureExtractor,
    feature_network,
)
from josrc.runs.network import typical_side
from josrc.runs.own_predictions import read_rows
from josrc.runs.run import Run
from josrc.runs.scan_on_ray import OnRay, ShardedExtraction
from josrc.runs.snapshot import write_record
from josrc.runs.start import Data, plan
from josrc.verdicts.consensus import check_crowdlab, write_consensus
from josrc.verdicts.duplicates import DUPLICATES, write_duplicates
from josrc.verdicts.feature_map import make_map, write_map
from josrc.verdicts.groups import (
    check_groups,
    copies,
    equal_rows,
    joined_groups,
    write_groups,
)
from josrc.verdicts.judge_run import write_judgement
from josrc.verdicts.neighbours import Neighbours, count_voters, nearest_neighbours
from josrc.verdicts.predictions import judge_predictions, predictions_of
from josrc.verdicts.report.page import NoPicturesError, write_report
from josrc.verdicts.scope import scope_of

# Arrays, or files of them: npy or parquet.
Rows = NDArray[Any] | str | Path
# Neighbours that may be copies: so many of each image, with features as similar as this. Of planted
# copies of photographs 5 % are less similar than 0.73; of those of small images half are less than
# 0.69, but sketches find them. Of the nearest other small images 9 in 10 are below 0.71.
PER_PICTURE, LEAST_ALIKE = 3, 0.7
# Pixels of what stands for an image of which there is only a label.
NO_PICTURE = (1, 1)


@dataclass(frozen=True)
class Given:
    """What a user has already, a row for each image; none of what has to be found out.

    Attributes:
        probabilities: out-of-sample predictions, ``(N, classes)``.
        features: ``(N, width)``.
    """

    probabilities: NDArray[Any] | None = None
    features: NDArray[Any] | None = None

    def __bool__(self) -> bool:
        return self.probabilities is not None or self.features is not None


def scan(
    data: Data,
    *,
    probs: Rows | None = None,
    features: Rows | None = None,
    paths: Sequence[Any] | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    quiet: bool = True,
    noise_rate: float | None = None,
    ood_rate: float | None = None,
    on_ray: OnRay | None = None,
    console: Console | None = None,
    **options: Any,
) -> Run:
    """Judge every label of a data set without training, and leave a run folder.

    Args:
        data: name of a data set, or a path; or a pair ``(X, y)`` as for ``josrc.train``; or labels
            alone, one for each row of ``probs`` or ``features``.
        probs: your own predictions of all classes for every image, out of sample,
            ``(N, classes)``: an array, or an npy, parquet or CSV file. Columns that are named after
            the classes may have any order; others have that of the classes' names.
        features: your own features of every image, ``(N, width)``, likewise; or
            ``features.safetensors`` of an earlier scan.
        paths: where the images of the labels lie.
        out: the run folder; ``runs/NAME`` unless given. An existing one is an error.
        overwrite: replace an existing run folder.
        quiet: show no progress.
        noise_rate: share of wrong labels, where it is known.
        ood_rate: share of foreign images, where it is known.
        on_ray: compute features by tasks of Ray, here or on a cluster.
        console: shows progress, in place of ``quiet``.
        **options: ``model`` (any timm name), ``weights``, ``image_size``, ``device``,
            ``path_column``, ``label_column``, ``group_column``, ``noise``, ``rate`` ...

    Returns:
        The run: ``run.verdicts()``, ``run.audit``.
    """
    watch = Stopwatch()
    console = console or Terminal(quiet=quiet)
    if on_ray is not None:
        if probs is not None or features is not None:
            raise UserError("A scan of your own features or predictions reads no images: no Ray.")
        on_ray.check()
    data = _pair(data, paths)
    options["model"] = options.get("model") or DEFAULT_MODEL
    config, source = plan(data, method=SCAN, plant=0.0, **options)
    if source is None:
        source = open_source(config.data)
    config = _sized(config, source, options.get("image_size"))
    folder = prepare_folder(None if out is None else Path(out), config, overwrite)
    folder.check_undecided()
    if source.annotations is not None:
        check_crowdlab()
    if source.images.shape[1:3] == NO_PICTURE:
        source = replace(source, duplicates=None)
    given = _given(probs, features, source)
    network = None if given else feature_network(config.model, source)
    with folder.locked():
        if folder.config.is_file():
            folder.clear()  # what an interrupted scan has left is of use
        device = choose_device(config.device)
        if network is not None:
            say(console, f"Features of {len(source):,} images by {config.model.name} ...")
        known: Features | None
        if network is not None and on_ray is not None:
            extraction = ShardedExtraction(folder.shards, source, config, on_ray)
            source, known = extraction.run(network, console)
        elif network is not None:
            source, known = _extract(folder, source, network, config, console, watch.lap)
        else:
            known = _given_features(folder, source, given.features)
        if source.skipped is None and source.images.has_paths:
            source = replace(source, skipped=())
        _write_data(folder, source)
        watch.lap()
        say(console, "Judging every label, and trying out errors to measure the verdicts by ...")
        rates = (noise_rate, ood_rate)
        source = _judge(folder, source, known, given.probabilities, rates, config)
        folder.create(config, source, device)
        summary = scan_summary(config, watch.lap()) | scope_of(source, config.data)
        with suppress(NoPicturesError):
            if source.images.has_paths or not given:
                write_report(folder, config, source, summary)
        folder.write_summary(summary)
    _tell(folder, source, console)
    return Run(folder.path, config, summary)


def _pair(data: Data, paths: Sequence[Any] | None) -> Data:
    """Labels alone, or beside paths, as images and labels."""
    if isinstance(data, str | Path):
        return data
    if paths is not None:
        return [list(paths), data]
    array = data if isinstance(data, np.ndarray) else None
    if array is not None or not (len(data) == 2 and np.ndim(data[0]) > 0):
        # Nobody looks at the pixels of labels that come without images.
        shape = (len(data), *NO_PICTURE, 3)
        pixels = np.broadcast_to(np.zeros((1, 1, 1, 3), np.uint8), shape)
        return [pixels, data]
    return data


def _sized(config: RunConfig, source: Source, asked: int | None) -> RunConfig:
    """The configuration with the size at which the network sees images."""
    size = asked or expected_images(config.model.name)[0]
    if asked is None and config.model.name == DEFAULT_MODEL and typical_side(source) <= SMALL_SIDE:
        size = SMALL_INPUT
    model = config.model.model_copy(update={"image_size": size})
    return config.model_copy(update={"model": model, "recipe": SCAN, "epochs": 1})


def _given(probs: Rows | None, features: Rows | None, source: Source) -> Given:
    """What a user has, checked against the labels."""
    return Given(
        None if probs is None else read_rows(probs, "probs", source),
        None if features is None else read_rows(features, "features", source),
    )


def _write_data(folder: RunFolder, source: Source) -> None:
    if source.images.has_paths:
        write_record(folder.samples, source)
    if source.duplicates is not None:
        write_duplicates(folder.audit / DUPLICATES, source.listed_duplicates())
    annotations = source.all_annotations()
    if annotations is not None:
        annotations.write(folder.annotations)


def _extract(
    folder: RunFolder,
    source: Source,
    network: Classifier,
    config: RunConfig,
    console: Console,
    lap: Callable[[], object],
) -> tuple[Source, Features]:
    """The source with its images read, and their features, in the run's folder."""
    device = choose_device(config.device)
    extractor = FeatureExtractor(folder.features, source, network, config.model, device, lap)
    with kept_memory(device):
        if not source.images.in_memory:
            source = read_images(source, config, console, look=extractor.look)
        elif isinstance(source.images, ArrayImages):
            with progress_bar(console, "Features") as progress:
                extractor.look_at_all(source.images.pixels, progress)
        return source, extractor.finish()


def _given_features(
    folder: RunFolder, source: Source, features: NDArray[Any] | None
) -> Features | None:
    """A user's features in the run's folder; none where predictions are all there is."""
    if features is None:
        no_features(folder, source)
        return None
    writer = FeatureWriter(folder.features, source.ids, features.shape[1], {"model": "given"})
    write_scaled(writer.rows, features)
    writer.finish()
    return open_features(folder.features)


def no_features(folder: RunFolder, source: Source) -> None:
    """Note in a run's folder that its verdicts rest on predictions, which it does not keep."""
    FeatureWriter(folder.features, source.ids, 0, {"model": "given"}).finish()


def _judge(
    folder: RunFolder,
    source: Source,
    features: Features | None,
    probabilities: NDArray[Any] | None,
    rates: tuple[float | None, float | None],
    config: RunConfig,
) -> Source:
    """Write verdicts, map and consensus; the source knows the copies that features lead to."""
    device, neighbours = choose_device(config.device), None
    if features is not None:
        write_map(folder.audit, make_map(np.array(features)))
        neighbours = nearest_neighbours(features, count_voters(len(source), source.closed), device)
        if config.data.near_duplicates and source.duplicates is not None:
            source = _with_copies(folder, source, neighbours)
    if probabilities is None:
        assert features is not None
        assert neighbours is not None
        groups = _groups(folder, source, features)
        probabilities = predictions_of(
            features, neighbours, source.given, source.closed, device, groups
        )
    judged = judge_predictions(probabilities, source.given, *rates)
    write_judgement(folder.audit, judged, source, rates=rates)
    annotations = source.all_annotations()
    if annotations is not None:
        write_consensus(folder.audit, annotations, probabilities, source)
    return source


def _groups(folder: RunFolder, source: Source, features: Features) -> Labels:
    """Images that have no say in what is predicted of each other, kept in the run's folder."""
    alike = copies(source.duplicates, len(source))
    groups = joined_groups(len(source), [source.group, alike, equal_rows(features)])
    check_groups(groups, source.given)
    write_groups(folder.groups, groups)
    return groups


def _with_copies(folder: RunFolder, source: Source, near: Neighbours) -> Source:
    """The source with the near copies among neighbours, too."""
    alike = near.similarity[:, :PER_PICTURE]
    index = np.where(alike >= LEAST_ALIKE, near.index[:, :PER_PICTURE], -1)
    source = source.with_near_duplicates(index, alike)
    write_duplicates(folder.audit / DUPLICATES, source.listed_duplicates())
    return source


def scan_summary(config: RunConfig, seconds: float) -> dict[str, Any]:
    """``summary.json`` of a scan: what of it a training has too, and a scan can say."""
    data = config.data
    return {
        "method": SCAN,
        "model": config.model.name,
        "data": data.name,
        "noise": data.noise,
        "rate": data.rate,
        "noise_seed": data.noise_seed,
        "seconds_total": round(seconds, 2),
        "device": device_name(choose_device(config.device)),
        "versions": versions(),
    }


def _tell(folder: RunFolder, source: Source, console: Console) -> None:
    found = [] if console.quiet else tally(source.listed_duplicates()).sentences()
    if found:
        say(console, "\n".join([*found, f"All of them: {folder.audit / DUPLICATES}"]))
