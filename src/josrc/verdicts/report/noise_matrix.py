"""The noise matrix that a method estimated: which class is given which label, and how often."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from josrc._reading import regular

# A method that has such a matrix remembers it by this name.
KEY = "method.transitions"
# Lines of the list, and the least share that is worth one.
MAX_LINES, MIN_SHARE = 12, 0.01

Matrix = NDArray[np.float64]


def read_noise_matrix(checkpoint: Path) -> Matrix | None:
    """Probability of a label (column) for each true class (row), if the method estimates it."""
    try:
        with safe_open(regular(checkpoint), framework="numpy") as file:
            return file.get_tensor(KEY).astype(np.float64) if KEY in file.keys() else None  # noqa: SIM118
    except (SafetensorError, OSError):
        return None  # the report does without


def true_matrix(given: NDArray[Any], true: NDArray[Any], classes: int) -> Matrix:
    """What was really given to the samples of each class; NaN for a class without any."""
    closed = true < classes
    counts = np.zeros((classes, classes))
    np.add.at(counts, (true[closed], given[closed]), 1)
    with np.errstate(invalid="ignore"):
        found: Matrix = counts / counts.sum(axis=1, keepdims=True)
    return found


def describe_noise_matrix(
    matrix: Matrix, names: Sequence[str], truth: Matrix | None = None
) -> dict[str, Any]:
    """Its right labels on average, and what else is given most often.

    Args:
        matrix: as estimated.
        names: of the classes.
        truth: as it really is, where that is known.
    """
    wrong = np.where(np.eye(len(matrix), dtype=bool), 0, matrix)
    places = np.argsort(-wrong, axis=None, kind="stable")[:MAX_LINES]
    pairs = [divmod(int(place), len(matrix)) for place in places]

    def share(found: Matrix | None, row: int, column: int) -> str | None:
        if found is None or np.isnan(found[row, column]):
            return None
        return f"{100 * found[row, column]:.1f}"

    right = None if truth is None else np.nanmean(truth.diagonal())
    return {
        "right": f"{100 * matrix.diagonal().mean():.1f}",
        "truly_right": None if right is None or np.isnan(right) else f"{100 * right:.1f}",
        "lines": [
            {
                "class": names[row],
                "label": names[column],
                "share": share(matrix, row, column),
                "truth": share(truth, row, column),
            }
            for row, column in pairs
            if wrong[row, column] >= MIN_SHARE
        ],
    }
