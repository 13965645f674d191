"""A manifest: a table of images in a CSV, TSV, JSONL or parquet file."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from josrc.config import DataConfig, DataKind
from josrc.data.readers._extras import library
from josrc.data.readers.table import SPLITS, Reader, Table, TableBuilder
from josrc.errors import UserError, closest, reason

MANIFESTS = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
# Names of columns, in the order in which they are looked for.
COLUMNS = {
    "path": (
        "path", "file_path", "filepath", "image_path", "img_path", "file_name", "filename", "file",
        "image", "img",
    ),
    "label": (
        "label", "given_label", "class", "class_name", "category", "target", "label_name", "labels",
        "y",
    ),
    "id": ("id", "sample_id", "uid"),
    "split": ("split", "subset"),
}  # fmt: skip
# A row of a manifest: path, label, id and split; none where the cell is empty.
Row = tuple[Any, Any, Any, Any]
# From the names of all columns to those of path, label, id and split.
Find = Callable[[Sequence[str]], dict[str, str]]


class ManifestReader(Reader):
    """A file with a row for each image."""

    kind = DataKind.MANIFEST

    @staticmethod
    def claims(name: str) -> bool:
        """Whatever is there and no folder."""
        path = Path(name).expanduser()
        return path.exists() and not path.is_dir()

    @staticmethod
    def read(config: DataConfig) -> Table:
        """Rows in their order."""
        path = Path(config.place)
        if not is_manifest(path):
            known = ", ".join(MANIFESTS)
            raise UserError(
                f"{path} is neither a folder of class folders nor a manifest ({known})."
            )
        return read_manifest(path, config)


def is_manifest(path: Path) -> bool:
    """Whether a file's name says that it is one."""
    return path.suffix.lower() in MANIFESTS and not path.is_dir()


def read_manifest(
    path: Path, config: DataConfig, needed: Sequence[str] = ("path", "label")
) -> Table:
    """The images of a manifest; those columns must be there."""
    root = path.absolute().parent
    found = TableBuilder()
    try:
        for number, row in enumerate(rows_of(path, config, needed), start=1):
            _add(found, row, number, path, root, config.allow_outside)
    except UserError:  # it says already what is wrong
        raise
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is no UTF-8 text: save it as that ({error}).") from None
    except (OSError, ValueError, csv.Error) as error:
        raise UserError(f"{path} can't be read as a manifest: {reason(error)}") from None
    return found.table(root)


def _add(
    found: TableBuilder, row: Row, number: int, path: Path, root: Path, allow_outside: bool
) -> None:
    name, label, sample_id, split = map(text_of, row)
    place = SPLITS.get((split or "").lower())
    if place is None:
        raise UserError(f"{path}, image {number:,}: split '{split}' is not train, val or test.")
    if name is None:
        found.add("", None, sample_id or f"row {number}", place)
        return
    if not allow_outside and (name.startswith("/") or ".." in name) and _outside(root, name):
        raise UserError(
            f"{path}, image {number:,}: {name} lies outside of {root}. If that is meant: "
            "--allow-outside."
        )
    found.add(name, label or None, sample_id or name, place)


def _outside(root: Path, name: str) -> bool:
    whole = os.path.normpath(os.path.join(root, name))  # noqa: PTH118
    return not whole.startswith(f"{root}{os.sep}")


def rows_of(path: Path, config: DataConfig, needed: Sequence[str]) -> Iterator[Row]:
    """The rows of a manifest, in their order; those columns must be there."""
    find = partial(columns_of, config=config, path=path, needed=needed)
    reader = {".jsonl": _json_rows, ".ndjson": _json_rows, ".parquet": _parquet_rows}
    return reader.get(path.suffix.lower(), _csv_rows)(path, find)


def whole(cell: Any) -> Any:
    """A cell; numbers beside empty ones come as floats: class 3 is no class "3.0"."""
    if isinstance(cell, float):
        return None if math.isnan(cell) else int(cell) if cell.is_integer() else cell
    return cell


def text_of(cell: Any) -> str | None:
    """What a cell says, if anything."""
    cell = whole(cell)
    return None if cell is None or cell == "" else str(cell).strip()


def columns_of(
    found: Sequence[str],
    config: DataConfig,
    path: Path | str,
    needed: Sequence[str] = ("path", "label"),
) -> dict[str, str]:
    """Which columns hold path, label, id and split; those not needed may be missing."""
    lower = {name.strip().lower(): name for name in reversed(found)}
    chosen = {}
    for kind, known in COLUMNS.items():
        wanted = {"path": config.path_column, "label": config.label_column}.get(kind)
        if wanted is not None:
            if wanted not in found:
                raise UserError(f"{path} has no column '{wanted}'.{closest(wanted, found)}")
            chosen[kind] = wanted
            continue
        match = next((lower[name] for name in known if name in lower), None)
        if match is not None:
            chosen[kind] = match
        elif kind in needed:
            near = closest(kind, found)
            raise UserError(
                f"{path} has no column for the {kind} of an image (its columns: "
                f"{', '.join(found)}).{near if 'mean' in near else ''} Name it: "
                f"--{kind}-column COLUMN. The first line must hold the names of the columns."
            )
    return chosen


def _csv_rows(path: Path, find: Find) -> Iterator[Row]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        first = file.readline()
        file.seek(0)
        tabs = path.suffix.lower() == ".tsv" or ("\t" in first and not {",", ";"} & set(first))
        comma = "\t" if tabs else ";" if "," not in first else ","
        reader = csv.reader(file, delimiter=comma)
        header = next(reader, None)
        if header is None:
            raise UserError(f"{path} is empty.")
        columns = find(header)
        places = [header.index(columns[kind]) if kind in columns else None for kind in COLUMNS]
        for row in reader:
            if row:
                yield tuple(  # type: ignore[misc]
                    row[place] if place is not None and place < len(row) else None
                    for place in places
                )


def _json_rows(path: Path, find: Find) -> Iterator[Row]:
    def parsed(number: int, line: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(line)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
        return found

    with path.open(encoding="utf-8-sig") as file:
        lines = enumerate(file, start=1)
        yield from _dict_rows((parsed(n, line) for n, line in lines if line.strip()), find)


def _parquet_rows(path: Path, find: Find) -> Iterator[Row]:
    parquet = library("pyarrow.parquet", "parquet", f"{path} is a parquet file")
    with parquet.ParquetFile(path) as file:
        columns = find(file.schema_arrow.names)
        for batch in file.iter_batches(columns=list(set(columns.values()))):
            yield from _dict_rows(batch.to_pylist(), find)


def _dict_rows(rows: Iterable[Any], find: Find) -> Iterator[Row]:
    columns: dict[str, str] = {}
    for row in rows:
        if not isinstance(row, dict):
            raise ValueError(f"a row is a {type(row).__name__} and not an object with keys")
        columns = columns or find(list(row))
        path_cell, label, sample_id, split = (
            row.get(columns[kind]) if kind in columns else None for kind in COLUMNS
        )
        yield path_cell, label, sample_id, split
