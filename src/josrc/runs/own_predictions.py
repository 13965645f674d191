"""Predictions and features that people bring along: arrays or files, checked row by row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from josrc._io import UNREADABLE, readable
from josrc._reading import regular
from josrc.data.feature_file import open_features, read_ids
from josrc.data.packed_strings import PackedStrings
from josrc.data.parquet_rows import rows_at_once
from josrc.data.readers._extras import library
from josrc.data.source import Source
from josrc.errors import UserError

if TYPE_CHECKING:
    from pandas import DataFrame

What = Literal["probs", "features"]
# How npy files begin, and archives of them.
ARRAY_MARK, ARCHIVE_MARK = b"\x93NUMPY", b"PK"
# Columns that say which image a row is of.
NAMES = ("id", "path")
# Columns that are named in an error.
MAX_LISTED = 5
# How far the probabilities of an image may be from adding up to 1.
TOLERANCE = 0.02
# Rows of a table that are read at a time, and bytes that any table may take.
CHUNK, LARGEST_TABLE = 50_000, 2**28


def read_rows(values: NDArray[Any] | str | Path, what: What, source: Source) -> NDArray[Any]:
    """Numbers for each sample of a source, in its order, or a helpful error.

    Args:
        values: an array, or the path of an npy, parquet or CSV file, or of the features of a scan.
            What has ids, or a column ``id`` or ``path``, is brought into the order of the samples,
            and columns that are named after the classes into the order of these.
        what: what they are.
        source: the samples.
    """
    name = f"--{what}" if isinstance(values, str | Path) else what
    if isinstance(values, str | Path):
        name = str(values)
        values = _read(Path(values), what, source)
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
            f"image {source.ids[row]} (row {row})."
        )
    return _probabilities(rows, name, source) if what == "probs" else rows


def _probabilities(rows: NDArray[Any], name: str, source: Source) -> NDArray[Any]:
    if rows.shape[1] != source.closed:
        raise UserError(
            f"{name} has {rows.shape[1]} columns, but there are {source.closed} classes: one "
            f"column per class, in the order {_listed(source.closed_names)}"
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
            f"image {source.ids[row]} (row {row}), with a sum of {sums[row]:.3g}."
        )
    found: NDArray[Any] = (rows / sums[:, None]).astype(np.float32)
    return found


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:MAX_LISTED]) + (", ..." if len(names) > MAX_LISTED else "")


def _read(path: Path, what: What, source: Source) -> NDArray[Any]:
    if not path.is_file():
        raise UserError(f"{path} does not exist.")
    kind = path.suffix.lower()
    if kind in (".parquet", ".pq", ".csv"):
        frame = _in_order(path, _read_table(path, len(source)), source)
        return _class_columns(path, frame, source) if what == "probs" else frame.to_numpy()
    if kind == ".safetensors":
        if what == "probs":
            raise UserError(f"{path} holds features: give it as --features.")
        return _features_of_scan(path, source)
    with readable(path, "can't be read as an npy file", UNREADABLE):
        with regular(path).open("rb") as file:
            if not file.read(len(ARRAY_MARK)).startswith((ARRAY_MARK, ARCHIVE_MARK)):
                raise UserError(f"{path} is not an npy, parquet or CSV file.")
        loaded = np.load(regular(path), mmap_mode="r", allow_pickle=False)
    if not isinstance(loaded, np.ndarray):
        raise UserError(f"{path} contains several arrays: save a single one with numpy.save.")
    return loaded


def _all_rows(path: Path, parquet: Any, images: int) -> DataFrame:
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


def _read_table(path: Path, images: int) -> DataFrame:
    """The columns of a file."""
    if path.suffix.lower() == ".csv":
        import pandas

        with readable(path, "can't be read as a CSV file", UNREADABLE):
            return pandas.read_csv(
                regular(path), dtype=dict.fromkeys(NAMES, str), keep_default_na=False
            )
    parquet = library("pyarrow.parquet", "parquet", f"{path} is a parquet file")
    with readable(path, "can't be read as a parquet file", UNREADABLE):
        return _all_rows(path, parquet, images)


def _in_order(path: Path, frame: DataFrame, source: Source) -> DataFrame:
    """The rows in the order of the samples, if they are named; without the names."""
    for column, names in zip(NAMES, (source.ids, source.paths), strict=True):
        if column in frame:
            frame = frame.set_index(frame[column].astype(str))
            twice = frame.index[frame.index.duplicated()]
            if len(twice):
                raise UserError(f"{path} has two rows for {twice[0]}.")
            _check_all_there(path, [name for name in names if name not in frame.index])
            frame = frame.loc[list(names)]
            break
    return frame.drop(columns=list(NAMES), errors="ignore")


def _check_all_there(path: Path, missing: Sequence[str]) -> None:
    if missing:
        raise UserError(
            f"{path} has no row for {len(missing):,} of the images, such as {missing[0]}."
        )


def _class_columns(path: Path, frame: DataFrame, source: Source) -> NDArray[Any]:
    """The columns of the classes in their order; those of other names are left out.

    Columns that are numbered follow the order of the classes already.
    """
    names, found = source.closed_names, [str(name) for name in frame.columns]
    frame = frame.set_axis(found, axis=1)
    missing = [name for name in names if name not in found]
    if len(missing) == len(names) and found == [str(number) for number in range(len(names))]:
        return _numbers(frame)
    if missing:
        raise UserError(
            f"{path} has no column for class '{missing[0]}': it needs one named after each class, "
            f"and has {_listed(found)}."
        )
    return _numbers(frame[names])


def _numbers(frame: DataFrame) -> NDArray[Any]:
    found: NDArray[Any] = frame.to_numpy()
    return found


def _features_of_scan(path: Path, source: Source) -> NDArray[Any]:
    """What an earlier scan has computed, by the ids of the images."""
    place = PackedStrings.of(source.ids).found_in(read_ids(path))
    _check_all_there(path, [source.ids[row] for row in np.flatnonzero(place < 0).tolist()])
    features = open_features(path)
    same = len(place) == len(features) and (np.diff(place) == 1).all()
    return features if same else features[place]
