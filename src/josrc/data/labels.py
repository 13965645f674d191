"""Label files: josrc's own noise files (npz) and anyone's labels (npz, npy, CSV)."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from josrc.data.noise import Labels
from josrc.errors import UserError

# The column of a CSV that holds the labels, in the order in which they are looked for.
COLUMNS = ("given", "given_label", "label", "noisy_label", "target")


def write_noise_file(path: Path, given: Labels, true: Labels, kind: NDArray[np.int8]) -> None:
    """Write the arrays ``given``, ``true`` and ``kind`` (0 clean, 1 ID-noisy, 2 OOD)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        np.savez_compressed(file, given=given, true=true, kind=kind)


def read_label_file(path: Path, true: Labels, class_names: Sequence[str]) -> Labels:
    """Given labels from a file, checked against the data they are meant for.

    Args:
        path: ``.npz`` with an array ``given``, ``.npy`` with one vector, or ``.csv``.
        true: the true classes of the data, in data order.
        class_names: names of the classes of the task; a CSV may hold names or numbers.
    """
    if not path.is_file():
        raise UserError(f"Label file {path} does not exist.")
    suffix = path.suffix.lower()
    readers = {".npz": _read_npz, ".npy": _read_npy, ".csv": _read_csv}
    if suffix not in readers:
        raise UserError(f"{path}: labels are read from .npz, .npy and .csv files, not '{suffix}'.")
    try:
        values, file_true = readers[suffix](path, class_names)
    except (ValueError, OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} can't be read as labels: {error}") from None
    given = _checked(path, values, len(true), len(class_names))
    if file_true is not None and not np.array_equal(file_true, true):
        raise UserError(f"{path} was made for other data: its true labels differ from this data's.")
    return given


def _read_npz(path: Path, _: Sequence[str]) -> tuple[Any, Any]:
    with np.load(path, allow_pickle=False) as arrays:
        if "given" not in arrays:
            raise ValueError(
                f"it holds {', '.join(arrays.files) or 'nothing'}, but no array 'given'"
            )
        return arrays["given"], arrays.get("true")


def _read_npy(path: Path, _: Sequence[str]) -> tuple[Any, None]:
    return np.load(path, allow_pickle=False), None


def _read_csv(path: Path, class_names: Sequence[str]) -> tuple[Any, None]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = [row for row in csv.reader(file) if row]
    if not rows:
        raise ValueError("it is empty")
    header = [cell.strip().lower() for cell in rows[0]]
    column = next((header.index(name) for name in COLUMNS if name in header), None)
    if column is not None:
        rows = rows[1:]
    elif len(header) > 1:
        raise ValueError(f"no column is named {' or '.join(COLUMNS)} (found: {', '.join(header)})")
    number = {name: index for index, name in enumerate(class_names)}
    labels = []
    for line, row in enumerate(rows, start=1 if column is None else 2):
        cell = row[column or 0].strip() if len(row) > (column or 0) else ""
        if cell not in number and not cell.lstrip("-").isdigit():
            raise ValueError(f"line {line} holds {cell!r}, which is neither a class nor a number")
        labels.append(number[cell] if cell in number else int(cell))
    return np.array(labels), None


def _checked(path: Path, values: Any, length: int, classes: int) -> Labels:
    if values.ndim != 1:
        raise UserError(f"{path}: labels must be one vector, not an array of shape {values.shape}.")
    if len(values) != length:
        raise UserError(
            f"{path} holds {len(values):,} labels, but the data has {length:,} samples."
        )
    if not np.issubdtype(values.dtype, np.integer):
        whole = np.issubdtype(values.dtype, np.floating) and np.all(values == np.floor(values))
        if not whole:
            raise UserError(f"{path}: labels must be whole numbers, not {values.dtype}.")
    wrong = (values < 0) | (values >= classes)
    if wrong.any():
        where = int(np.flatnonzero(wrong)[0])
        raise UserError(
            f"{path}: label {values[where]} of sample {where} is out of range; "
            f"labels go from 0 to {classes - 1}."
        )
    labels: Labels = values.astype(np.int64)
    return labels
