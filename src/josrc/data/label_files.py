"""Label files: josrc's own noise files (npz) and anyone's labels (npz, npy, CSV)."""

import csv
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from josrc._console import clipped
from josrc._io import UNREADABLE, readable, write_npz
from josrc._reading import check_array, read_array, read_arrays, regular
from josrc.data.noise import Labels
from josrc.errors import UserError

# The column of a CSV that holds the labels, in the order in which they are looked for.
LABEL_COLUMNS = ("given", "given_label", "label", "noisy_label", "target")
PLACES = ("id", "index")
COMPLAINT = "can't be read as labels"
# What a noise file holds at least.
GIVEN = "given.npy"


def check_noise_target(path: Path) -> None:
    """Raise an error if anything but an earlier noise file would be replaced."""
    if path.suffix != ".npz":
        raise UserError(f"A noise file ends in .npz, and {path} does not.")
    if path.is_file() and not (zipfile.is_zipfile(path) and GIVEN in _members(path)):
        raise UserError(f"{path} exists and is not a noise file. Name another --out.")


def _members(path: Path) -> set[str]:
    with zipfile.ZipFile(regular(path)) as archive:
        return set(archive.namelist())


def write_noise_file(
    path: Path,
    given: Labels,
    true: Labels | None,
    kind: NDArray[np.int8] | None,
    ids: str | None = None,
) -> None:
    """Write the arrays ``given``, ``true`` and ``kind`` (0 clean, 1 ID-noisy, 2 OOD).

    Where the truth is unknown the last two are left out. ``ids`` is a digest of the samples' ids,
    to tell later whether these are still their labels.
    """
    arrays: dict[str, Any] = {"given": given}
    if true is not None:
        arrays |= {"true": true, "kind": kind}
    if ids is not None:
        arrays["ids"] = np.array(ids)
    write_npz(path, arrays)


def check_ids(path: Path, ids: str | None) -> None:
    """Raise an error if a noise file knows its samples by other ids than these."""
    known = read_arrays(path, known=("ids",)).get("ids")
    if known is not None and str(known) != ids:
        raise UserError(
            f"The images have changed since {path} was written: files were added, removed or "
            "renamed. Its labels can no longer be matched to the images. Put the files back, or "
            "start over."
        )


def read_truth(path: Path) -> Labels | None:
    """The true labels of a noise file that can be read; none where it holds none."""
    if path.suffix.lower() != ".npz":
        return None
    arrays = read_arrays(path, needed=("given",), known=("true",))
    if "true" not in arrays:
        return None
    check_array(path, arrays, "true", "iu", length=len(arrays["given"]), low=0)
    true: Labels = arrays["true"].astype(np.int64)
    return true


def read_label_file(
    path: Path, true: Labels | None, class_names: Sequence[str], samples: int | None = None
) -> Labels:
    """Given labels from a file, checked against the data they are meant for.

    Args:
        path: ``.npz`` with an array ``given``, ``.npy`` with one vector, or ``.csv``.
        true: the true classes of the data, in data order; none where nobody knows.
        class_names: names of the classes of the task; a CSV may hold names or numbers.
        samples: how many labels there must be, where ``true`` does not say.
    """
    if not regular(path).is_file():
        raise UserError(f"Label file {path} does not exist.")
    suffix = path.suffix.lower()
    readers = {".npz": _read_npz, ".npy": _read_npy, ".csv": _read_csv}
    if suffix not in readers:
        raise UserError(f"{path}: labels are read from .npz, .npy and .csv files, not '{suffix}'.")
    with readable(path, COMPLAINT, UNREADABLE):
        values, file_true = readers[suffix](path, class_names)
    length = samples if true is None else len(true)
    given = check_labels(path, values, len(values) if length is None else length, len(class_names))
    if true is not None and file_true is not None and not np.array_equal(file_true, true):
        raise UserError(f"{path} was made for other data: its true labels differ from this data's.")
    return given


def _read_npz(path: Path, _: Sequence[str]) -> tuple[Any, Any]:
    arrays = read_arrays(path, needed=("given",), known=("true",), complaint=COMPLAINT)
    return arrays["given"], arrays.get("true")


def _read_npy(path: Path, _: Sequence[str]) -> tuple[Any, None]:
    return read_array(path, COMPLAINT), None


def _read_csv(path: Path, class_names: Sequence[str]) -> tuple[Any, None]:
    with regular(path).open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        lines = [(reader.line_num, row) for row in reader if row]
    if not lines:
        raise ValueError("it is empty")
    header = [cell.strip().lower() for cell in lines[0][1]]
    column = next((header.index(name) for name in LABEL_COLUMNS if name in header), None)
    if column is None and len(header) > 1:
        raise ValueError(
            f"no column is named {' or '.join(LABEL_COLUMNS)} (found: {', '.join(header)})"
        )
    if column is not None:
        lines = lines[1:]
        _check_order(lines, header)
    number = {name: index for index, name in enumerate(class_names)}
    labels = []
    for line, row in lines:
        cell = row[column or 0].strip() if len(row) > (column or 0) else ""
        if cell not in number and not re.fullmatch("-?[0-9]{1,18}", cell):
            shown = clipped(repr(cell))
            raise ValueError(f"line {line} holds {shown}, which is neither a class nor a number")
        labels.append(number[cell] if cell in number else int(cell))
    return np.array(labels), None


def _check_order(lines: list[tuple[int, list[str]]], header: list[str]) -> None:
    """Rows must stand in data order: where they carry a number, it must count from 0."""
    place = next((header.index(name) for name in PLACES if name in header), None)
    if place is None:
        return
    for expected, (line, row) in enumerate(lines):
        if len(row) <= place or row[place].strip() != str(expected):
            raise ValueError(
                f"line {line} has {header[place]} {row[place] if len(row) > place else ''!r} where "
                f"{expected} belongs: rows must be in data order, numbered from 0"
            )


def check_labels(path: Path, values: Any, length: int, classes: int) -> Labels:
    """Values of a file as labels, if there are that many and each names one of the classes."""
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
