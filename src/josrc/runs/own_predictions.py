"""Predictions and features that people bring along: arrays or files, checked row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from josrc._io import UNREADABLE, readable
from josrc.data.readers._extras import library
from josrc.data.source import Source
from josrc.errors import UserError

What = Literal["probs", "features"]
# How far the probabilities of an image may be from adding up to 1.
TOLERANCE = 0.02


def read_rows(values: NDArray[Any] | str | Path, what: What, source: Source) -> NDArray[Any]:
    """Numbers for each sample of a source, in its order, or a helpful error.

    Args:
        values: an array, or the path of an npy or parquet file. A parquet file with a column ``id``
            or ``path`` is brought into the order of the samples.
        what: what they are.
        source: the samples.
    """
    name = f"--{what}" if isinstance(values, str | Path) else what
    if isinstance(values, str | Path):
        name = str(values)
        values = _read(Path(values), source)
    rows = np.asarray(values)
    if rows.ndim != 2 or not rows.shape[1] or rows.dtype.kind not in "fiu":
        raise UserError(
            f"{name} has shape {rows.shape} and type {rows.dtype}: it must be a table of numbers "
            "with one row per image."
        )
    if len(rows) != len(source):
        raise UserError(
            f"{name} has {len(rows):,} rows, but the data has {len(source):,} images. Rows "
            "must be in the order of the data, which is also that of verdicts.csv."
        )
    broken = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if broken.size:
        row = int(broken[0])
        raise UserError(
            f"{name} has {broken.size:,} rows with NaN or infinite values, the first for "
            f"image{source.ids[row]} (row {row})."
        )
    return _probabilities(rows, name, source) if what == "probs" else rows


def _probabilities(rows: NDArray[Any], name: str, source: Source) -> NDArray[Any]:
    if rows.shape[1] != source.closed:
        listed = ", ".join(source.closed_names[:5]) + (", ..." if source.closed > 5 else "")
        raise UserError(
            f"{name} has {rows.shape[1]} columns, but there are {source.closed} classes: one "
            f"column per class, in the order {listed}"
        )
    if rows.min() < 0:
        raise UserError(
            f"{name} has negative numbers: these are not probabilities. Are they logits? Apply a "
            "softmax first."
        )
    sums = rows.sum(axis=1, dtype=np.float64)
    off = np.flatnonzero(np.abs(sums - 1) > TOLERANCE)
    if off.size:
        row = int(off[0])
        raise UserError(
            f"{name}: the probabilities of {off.size:,} images do not sum to 1, the first for "
            f"image{source.ids[row]} (row {row}), with a sum of{sums[row]:.3g}."
        )
    found: NDArray[Any] = (rows / sums[:, None]).astype(np.float32)
    return found


def _read(path: Path, source: Source) -> NDArray[Any]:
    if not path.is_file():
        raise UserError(f"{path} does not exist.")
    if path.suffix.lower() in (".parquet", ".pq"):
        return _read_parquet(path, source)
    with readable(path, "can't be read as an npy or parquet file", UNREADABLE):
        loaded = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(loaded, np.ndarray):
        raise UserError(f"{path} contains several arrays: save a single one with numpy.save.")
    return loaded


def _read_parquet(path: Path, source: Source) -> NDArray[Any]:
    """A column for each number, perhaps beside the samples' ids."""
    parquet = library("pyarrow.parquet", "parquet", f"{path} is a parquet file")
    with readable(path, "can't be read as a parquet file", UNREADABLE):
        frame = parquet.read_table(path).to_pandas()
    for column, names in (("id", source.ids), ("path", source.paths)):
        if column in frame:
            frame = frame.set_index(frame[column].astype(str)).drop(
                columns=["id", "path"], errors="ignore"
            )
            missing = [name for name in names if name not in frame.index]
            if missing:
                raise UserError(
                    f"{path} has no row for {len(missing):,} of the images, such as {missing[0]}."
                )
            frame = frame.loc[list(names)]
            break
    found: NDArray[Any] = frame.to_numpy()
    return found
