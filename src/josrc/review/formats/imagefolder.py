"""Images beside a ``metadata.csv``, as ``datasets.load_dataset("imagefolder")`` reads them."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

from josrc.review.formats.rows import CorrectedRow, as_text, rename_columns
from josrc.review.formats.tables import check_bearable
from josrc.review.replacement import replacing
from josrc.review.write import LinkMode, Places, name_of, put_image

# What the library calls the parts of a data set.
SPLITS = {"train": "train", "val": "validation", "test": "test"}
OWN = ("file_name", "label", "id", "path", "split", "image")


def write_imagefolder(
    out: Path, rows: Iterable[CorrectedRow], parted: bool, link: LinkMode, overwrite: bool
) -> None:
    """Images in ``images/`` and their table; in a folder per part where there are several.

    ``file_name`` is the image as the library asks for it, ``label`` the name of its class.
    """
    with replacing(out, overwrite) as new:
        places = Places(new)
        parts: dict[str, list[tuple[str, CorrectedRow]]] = {}
        for number, row in enumerate(rows):
            top = new / SPLITS[row.split] if parted else new
            name = name_of(row.images, row.index, number if row.row is None else row.row)
            path = places.free(top / "images", name)
            put_image(row.images, row.index, path, link)
            parts.setdefault(row.split, []).append((f"images/{path.name}", row))
        for split, listed in parts.items():
            top = new / SPLITS[split] if parted else new
            _write_table(top / "metadata.csv", listed)


def _write_table(path: Path, listed: list[tuple[str, CorrectedRow]]) -> None:
    others = dict.fromkeys(name for _, row in listed for name in row.others)
    names = rename_columns(list(others), OWN)
    with path.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file:
        writer = csv.writer(file)
        writer.writerow(["file_name", "label", "id", *names.values()])
        for name, row in listed:
            check_bearable([name, row.label, row.id])
            cells = (as_text(row.others.get(other)) for other in others)
            writer.writerow([name, row.label, row.id, *cells])
