"""Predictions and features that people bring along: arrays or files, checked row by row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from josrc._io import UNREADABLE, readable
from josrc._reading import regular
from josrc.data.parquet_rows import rows_at_once
from josrc.data.readers._extras import library
from josrc.data.source import Source
from josrc.errors import UserError

if TYPE_CHECKING:
    import pandas

What = Literal["probs", "features"]
# How far the probabilities of an image may be from adding up to 1.
TOLERANCE = 0.02
# Beyond it squares of single precision soon are infinite.
LARGEST_NUMBER = 1e15
# Rows of a table that are read at a time, and bytes that any table may take.
CHUNK, LARGEST_TABLE = 50_000, 2**28


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
            "with a row for each image."
        )
    if len(rows) != len(source):
        raise UserError(
            f"{name} has {len(rows):,} rows, but the data has {len(source):,} images. Rows "
            "follow the order of the data, as those of verdicts.csv do."
        )
    broken = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if broken.size:
        row = int(broken[0])
        raise UserError(
            f"{name} has {broken.size:,} rows with NaN or infinite numbers, the first that of "
            f"image {source.ids[row]} (row {row})."
        )
    largest = max(abs(float(rows.max(initial=0))), abs(float(rows.min(initial=0))))
    if largest > LARGEST_NUMBER:
        raise UserError(
            f"{name} has numbers up to {largest:.3g}, whose squares can't be added up. Scale the "
            "features, to a mean of 0 and a deviation of 1 for example."
        )
    return _probabilities(rows, name, source) if what == "probs" else rows


def _probabilities(rows: NDArray[Any], name: str, source: Source) -> NDArray[Any]:
    if rows.shape[1] != source.closed:
        listed = ", ".join(source.closed_names[:5]) + (", ..." if source.closed > 5 else "")
        raise UserError(
            f"{name} has {rows.shape[1]} columns, but there are {source.closed} classes: one "
            f"column each, in the order {listed}"
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
            f"{name}: the probabilities of {off.size:,} images do not add up to 1, the first those "
            f"of image {source.ids[row]} (row {row}), which add up to {sums[row]:.3g}."
        )
    found: NDArray[Any] = (rows / sums[:, None]).astype(np.float32)
    return found


def _read(path: Path, source: Source) -> NDArray[Any]:
    if not path.is_file():
        raise UserError(f"{path} does not exist.")
    if path.suffix.lower() in (".parquet", ".pq"):
        return _read_parquet(path, source)
    with readable(path, "can't be read as an npy or parquet file", UNREADABLE):
        loaded = np.load(regular(path), mmap_mode="r", allow_pickle=False)
    if not isinstance(loaded, np.ndarray):
        raise UserError(f"{path} holds several arrays: save one with numpy.save.")
    return loaded


def _all_rows(path: Path, parquet: Any, images: int) -> pandas.DataFrame:
    """The table, if it takes no more than one of so many images may."""
    import pandas

    frames, size = [], 0
    with parquet.ParquetFile(regular(path)) as file:
        names = file.schema_arrow.names
        most = max(LARGEST_TABLE, 4 * 8 * images * len(names))
        for batch in file.iter_batches(rows_at_once(path, file, names, CHUNK)):
            size += batch.nbytes
            if size > most:
                raise ValueError(f"it takes more than {most:,} bytes, for {images:,} images")
            frames.append(batch.to_pandas())
        return pandas.concat(frames) if frames else file.read().to_pandas()


def _read_parquet(path: Path, source: Source) -> NDArray[Any]:
    """A column for each number, perhaps beside the samples' ids."""
    parquet = library("pyarrow.parquet", "parquet", f"{path} is a parquet file")
    with readable(path, "can't be read as a parquet file", UNREADABLE):
        frame = _all_rows(path, parquet, len(source.ids))
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
