"""Manifests: a row for each image, as CSV or parquet."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from josrc._io import atomic_write, leaves, seen_from
from josrc.data.readers._extras import library
from josrc.errors import UserError
from josrc.review.formats.rows import CorrectedRow, as_text

Cells = Sequence[Any]


def write_csv_manifest(out: Path, rows: Iterable[CorrectedRow], parted: bool) -> bool:
    """``path``, ``label``, ``id``, ``split`` where there is more than training, and the others.

    Returns:
        Whether any image lies outside of the manifest's folder.
    """
    header, lines, outside = _table(out, rows, parted)
    with (
        atomic_write(out) as partial,
        # Cells that are not text are written as what they are called in Python.
        partial.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(map(as_text, line) for line in lines)
    return outside


def write_parquet_manifest(out: Path, rows: Iterable[CorrectedRow], parted: bool) -> bool:
    """The same as a parquet file; columns keep their types where all cells have one."""
    arrow = library("pyarrow", "parquet", f"{out} is a parquet file")
    parquet = library("pyarrow.parquet", "parquet", f"{out} is a parquet file")
    header, lines, outside = _table(out, rows, parted)
    columns = zip(*lines, strict=True) if lines else ([] for _ in header)
    arrays = [_array(arrow, list(column)) for column in columns]
    with atomic_write(out) as partial:
        parquet.write_table(arrow.table(arrays, names=list(map(_utf8, header))), partial)
    return outside


def _array(arrow: Any, cells: list[Any]) -> Any:
    try:
        found = arrow.array(cells)
    except (arrow.ArrowException, OverflowError, UnicodeEncodeError):
        found = None
    # Of several types, beyond 64 bits, no UTF-8; or objects without keys, which parquet has not.
    if found is None or "struct<>" in str(found.type):
        return arrow.array([None if cell is None else _utf8(as_text(cell)) for cell in cells])
    return found


def _utf8(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _table(
    out: Path, rows: Iterable[CorrectedRow], parted: bool
) -> tuple[list[str], list[Cells], bool]:
    """Names of columns, lines, and whether any image lies outside of the manifest's folder."""
    root, outside = out.absolute().parent, False
    own = ["path", "label", "id", "split"][: 4 if parted else 3]
    others: dict[str, None] = {}
    found: list[tuple[list[str], CorrectedRow]] = []
    for row in rows:
        path = seen_from(root, row.location)
        outside = outside or leaves(path)
        cells = [path, row.label, row.id, row.split]
        check_bearable(cells)
        others |= dict.fromkeys(row.others)
        found.append((cells[: len(own)], row))
    lines: list[Cells] = [
        [*cells, *(row.others.get(name) for name in others)] for cells, row in found
    ]
    return [*own, *others], lines, outside


def check_bearable(cells: Iterable[str]) -> None:
    """Raise an error for names that a manifest can't hold unchanged."""
    for cell in cells:
        why = "it begins or ends with a space" if cell != cell.strip() else ""
        if any("\ud800" <= letter <= "\udfff" for letter in cell):
            why = "it is not valid UTF-8"
        if why:
            raise UserError(
                f"A manifest can't hold {cell!r}: {why}. Write a folder: --copy or --link."
            )
