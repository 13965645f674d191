"""The map of all images, as numbers that a page can draw."""

from __future__ import annotations

import base64
import json
from collections.abc import Collection
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from josrc._console import clipped
from josrc.data.noise import CLEAN
from josrc.verdicts.feature_map import FeatureMap
from josrc.verdicts.report.gallery import Index, Scores
from josrc.verdicts.table import read_verdicts

# Points that a page draws: it stays smooth, and they take about 1.2 MB.
MAX_POINTS = 50_000
# Bytes for the names of the points; where they take more, points go by their rows.
MAX_ID_BYTES = 1_500_000
# Positions are whole numbers up to this.
MAX_POSITION = 65_535
# For the draw of which clean images are left out.
SEED = 0

TITLES = {"pca": "the two principal axes of their features", "umap": "UMAP on their features"}


def choose_points(scores: Scores, known: NDArray[np.bool_], shown: Collection[int]) -> Index:
    """Rows that are drawn, in order: what is shown or accused first, of the others a fair draw.

    Args:
        scores: of all samples.
        known: which of them have a place, ``(N,)``.
        shown: rows that the gallery holds.
    """
    turn = np.full(len(known), 2)
    turn[scores.verdict != CLEAN] = 1
    turn[list(shown)] = 0
    chance = np.random.default_rng(SEED).random(len(known))
    rows = np.flatnonzero(known)
    order = np.lexsort((chance[rows], turn[rows]))
    return np.sort(rows[order[:MAX_POINTS]])


def describe_map(
    made: FeatureMap, scores: Scores, shown: Collection[int], verdicts: Path
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the page says of its map, and what its script draws.

    Args:
        made: the map.
        scores: of all samples.
        shown: rows that the gallery holds.
        verdicts: the file with their names.
    """
    known = ~np.isnan(made.position.sum(axis=1))
    rows = choose_points(scores, known, shown)
    x, y = _whole_numbers(made.position[rows])
    columns = {
        "x": x,
        "y": y,
        "row": rows.astype("<u4"),
        "given": scores.given[rows].astype("<i4"),
        "suggested": scores.suggested[rows].astype("<i4"),
        "verdict": scores.verdict[rows].astype("u1"),
        "confidence": np.round(100 * scores.confidence[rows]).astype("u1"),
    }
    told = {
        "how": TITLES[made.kind],
        "linear": made.kind == "pca",
        "drawn": len(rows),
        "left_out": int(known.sum()) - len(rows),
        "unknown": int((~known).sum()),
    }
    packed = {name: base64.b64encode(some.tobytes()).decode() for name, some in columns.items()}
    return told, {**packed, "ids": _ids(verdicts, rows)}


def _whole_numbers(position: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Positions from 0 to ``MAX_POSITION``, ``(2, N)``; axes of one scale, y downwards."""
    if not len(position):
        return np.zeros((2, 0), dtype="<u2")
    low, high = position.min(axis=0), position.max(axis=0)
    span = max(float((high - low).max()), 1e-9)
    placed = (position - (low + high) / 2) / span + 0.5
    placed[:, 1] = 1 - placed[:, 1]
    steps: NDArray[np.uint16] = np.round(MAX_POSITION * placed.T.clip(0, 1)).astype("<u2")
    return steps


def _ids(verdicts: Path, rows: Index) -> list[tuple[int, str]] | str | None:
    """What the points are called; ``rows`` where by their rows, none if it takes too much room.

    Of each name it is how many characters it shares with the one before, and the rest: paths take
    less than half of their room so.
    """
    found: list[str] = []
    for frame in read_verdicts(verdicts, ["id"], rows):
        found += [clipped(i) for i in frame["id"]]
    if all(name == str(row) for name, row in zip(found, rows.tolist(), strict=True)):
        return "rows"
    shared = [0, *(_common_prefix(one, other) for one, other in pairwise(found))]
    short = [(same, name[same:]) for same, name in zip(shared, found, strict=True)]
    return short if len(json.dumps(short)) <= MAX_ID_BYTES else None


def _common_prefix(one: str, other: str) -> int:
    """With how many same characters names begin; only of those that scripts count as one too."""
    same = 0
    for a, b in zip(one, other, strict=False):
        if a != b or a > "\uffff":
            break
        same += 1
    return same
