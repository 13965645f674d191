"""How good a run's networks are on images whose classes are known: accuracy and calibration."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from josrc._io import write_csv, write_text
from josrc._version import __version__
from josrc.config import DataConfig, RunConfig
from josrc.data.images import Images
from josrc.data.noise import Labels
from josrc.data.readers import read_table
from josrc.data.readers.table import TEST
from josrc.data.registry import check_root, open_source
from josrc.errors import UserError, closest
from josrc.runs.plots import plot_calibration, plot_confusion
from josrc.runs.predictor import Predictor

# Bins of equal width, as the calibration error was first measured (Guo et al. 2017).
CALIBRATION_BINS = 15
TEST_IMAGES = "test images"
Counts = NDArray[np.int64]
Skipped = list[tuple[str, str]]


@dataclass(frozen=True)
class EvaluationData:
    """Images with labels that are believed.

    Attributes:
        name: where the data lies, or what it is called.
        images: pixels or files.
        labels: the class of each, ``(N,)``, as a number of the network's classes.
        part: which part of the data it is.
        left_out: how many files of which kinds lie among them that are not pictures.
    """

    name: str
    images: Images
    labels: Labels
    part: str
    left_out: Mapping[str, int] = field(default_factory=dict)


def read_evaluation_data(config: DataConfig, classes: Sequence[str]) -> EvaluationData:
    """The images of a data set to evaluate on: its test images, or all if none are set apart.

    Args:
        config: names the data.
        classes: those of the network; the data's are matched with them by name.
    """
    check_root(config)
    if config.kind.is_named:
        source = open_source(config)
        assert source.test_images is not None
        assert source.test_labels is not None
        labels = match_labels(source.test_labels, source.closed_names, classes, config.name)
        return EvaluationData(config.name, source.test_images, labels, TEST_IMAGES)
    table = read_table(config)
    usable = table.labels >= 0
    tested = usable & (table.split == TEST)
    index = np.flatnonzero(tested if tested.any() else usable)
    if not index.size:
        raise UserError(f"{config.name} contains no labelled images.")
    labels = match_labels(table.labels[index], table.class_names, classes, config.name)
    part = TEST_IMAGES if tested.any() else "images"
    name = _resolved(config.name, config.original_path)
    return EvaluationData(name, table.images_at(index), labels, part, table.left_out)


def warn_of_optimism(
    config: RunConfig, summary: Mapping[str, Any], labelled: EvaluationData, last: bool
) -> list[str]:
    """A sentence on images that the network was trained on, or whose labels chose its epoch."""
    name, trained = labelled.name, _resolved(config.data.name, config.data.original_path)
    if name == trained and labelled.part != TEST_IMAGES:
        return ["The network was trained on these images: expect lower accuracy on others."]
    tests = _resolved(trained, config.data.test)
    by_tests = summary.get("last10_mean") is not None and summary.get("val_chosen") is None
    if not last and by_tests and name == tests:
        return [
            "These images were used to choose the epoch of the weights, so this is too "
            "optimistic: see --last."
        ]
    return []


def _resolved(name: str, path: Path | None) -> str:
    """Where data lies, however it is spelled; or what it is called."""
    return name if path is None else str(path.resolve())


def match_labels(labels: Labels, names: Sequence[str], classes: Sequence[str], data: str) -> Labels:
    """Labels as numbers of the network's classes, matched by name."""
    place = {name: number for number, name in enumerate(classes)}
    unknown = [names[number] for number in np.unique(labels) if names[number] not in place]
    if unknown:
        others = f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else ""
        raise UserError(
            f"{data} has images of class '{unknown[0]}'{others}, which the network does not know. "
            f"Classes are matched by name.{closest(unknown[0], classes)}"
        )
    return np.array([place.get(name, -1) for name in names], dtype=np.int64)[labels]


def evaluate(
    predictor: Predictor,
    data: EvaluationData,
    *,
    device: str | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Evaluation:
    """Predict all images, and keep of each the likeliest class and its probability."""
    predicted, confidence, skipped = [], [], dict[int, str]()
    done = 0
    for probabilities, faults in predictor.stream(data.images, device, workers):
        predicted.append(probabilities.argmax(axis=1))
        confidence.append(probabilities.max(axis=1))
        skipped |= dict(faults)
        done += len(probabilities)
        progress(done, len(data.labels))
    sound = np.setdiff1d(np.arange(len(data.labels)), list(skipped))
    named = [(data.images.location(place), reason) for place, reason in skipped.items()]
    if not sound.size:
        path, reason = named[0]
        raise UserError(f"{data.name} contains no readable images: of {path}, {reason}.")
    top, sure = np.concatenate(predicted)[sound], np.concatenate(confidence)[sound]
    return Evaluation(predictor.class_names, data.labels[sound], top, sure, named)


@dataclass(frozen=True)
class Evaluation:
    """Predictions beside the truth.

    Attributes:
        classes: names of the network's classes.
        true: class of each image, ``(N,)``.
        predicted: the likeliest class, ``(N,)``.
        confidence: its probability, ``(N,)``.
        skipped: files that gave no image, and why.
    """

    classes: Sequence[str]
    true: Labels
    predicted: Labels
    confidence: NDArray[np.float32]
    skipped: Skipped

    @property
    def accuracy(self) -> float:
        """Share of images whose likeliest class is right, in %."""
        return 100 * float((self.true == self.predicted).mean())

    def confusion(self) -> Counts:
        """How many images of each true class (rows) are predicted as each class (columns)."""
        from sklearn.metrics import confusion_matrix

        matrix: Counts = confusion_matrix(
            self.true, self.predicted, labels=np.arange(len(self.classes))
        )
        return matrix

    def per_class(self) -> dict[str, dict[str, float | int | None]]:
        """Number of images and accuracy of each class; none where there is no image."""
        matrix = self.confusion()
        totals = matrix.sum(axis=1).tolist()
        return {
            name: {"images": n, "accuracy": 100 * right / n if n else None}
            for name, n, right in zip(self.classes, totals, np.diag(matrix).tolist(), strict=True)
        }

    def calibration(self) -> list[dict[str, float | int | None]]:
        """Mean confidence and accuracy of images by confidence, in %; none for empty bins."""
        place = np.minimum(
            (self.confidence * CALIBRATION_BINS).astype(np.int64), CALIBRATION_BINS - 1
        )
        rows: list[dict[str, float | int | None]] = []
        for number in range(CALIBRATION_BINS):
            inside = place == number
            sure, right = self.confidence[inside], (self.true == self.predicted)[inside]
            rows.append(
                {
                    "from": 100 * number / CALIBRATION_BINS,
                    "to": 100 * (number + 1) / CALIBRATION_BINS,
                    "images": int(inside.sum()),
                    "mean_confidence": 100 * float(sure.mean()) if inside.any() else None,
                    "accuracy": 100 * float(right.mean()) if inside.any() else None,
                }
            )
        return rows

    def calibration_error(self) -> float:
        """ECE: mean distance of confidence and accuracy over the bins, weighted by images, in %."""
        full = [row for row in self.calibration() if row["images"]]
        gaps = [
            row["images"] * abs(row["mean_confidence"] - row["accuracy"])  # type: ignore[operator]
            for row in full
        ]
        return float(sum(gaps) / len(self.true))

    def results(self) -> dict[str, Any]:
        """What ``results.json`` holds of it."""
        return {
            "images": len(self.true),
            "skipped": len(self.skipped),
            "accuracy": self.accuracy,
            "mean_confidence": 100 * float(self.confidence.mean()),
            "calibration_error": self.calibration_error(),
            "classes": self.per_class(),
        }


def write_evaluation(folder: Path, found: Evaluation, metadata: dict[str, Any]) -> None:
    """Write tables, pictures and, last, ``results.json``.

    Args:
        folder: where they go.
        found: what was measured.
        metadata: what of which run was measured on what.
    """
    matrix, bins = found.confusion(), found.calibration()
    rows = [[name, *counts] for name, counts in zip(found.classes, matrix.tolist(), strict=True)]
    write_csv(folder / "confusion.csv", [["true_label", *found.classes], *rows])
    write_csv(folder / "calibration.csv", [list(bins[0]), *(list(row.values()) for row in bins)])
    write_csv(folder / "skipped.csv", [["path", "reason"], *found.skipped])
    plot_confusion(matrix, found.classes, folder / "confusion.png")
    plot_calibration(bins, found.calibration_error(), folder / "calibration.png")
    results = {"josrc": __version__, **metadata, **found.results()}
    write_text(folder / "results.json", json.dumps(results, indent=2) + "\n")
