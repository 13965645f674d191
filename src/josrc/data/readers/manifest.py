"""A manifest: a table of images in a CSV, TSV, JSONL or parquet file."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from josrc.config import DataConfig, DataKind
from josrc.data.readers._extras import library
from josrc.data.readers.table import SPLITS, Reader, Table, TableBuilder
from josrc.errors import UserError, closest, reason

if TYPE_CHECKING:
    import pandas

MANIFESTS = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
# Names of columns, in the order in which they are looked for.
MANIFEST_COLUMNS = {
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
# Rows that are read at a time.
CHUNK = 50_000
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
        frames = (f.itertuples(index=False, name=None) for f in frames_of(path, config, needed))
        for number, row in enumerate(chain.from_iterable(frames), start=1):
            _add(found, row, number, path, root, config.allow_outside)
    except UserError:  # it says already what is wrong
        raise
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is no UTF-8 text: save it as that ({error}).") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} can't be read as a manifest: {reason(error)}") from None
    return found.table(root)


def _add(
    found: TableBuilder,
    row: Sequence[Any],
    number: int,
    path: Path,
    root: Path,
    allow_outside: bool,
) -> None:
    name, label, sample_id, split = map(text_of, row)
    place = SPLITS.get((split or "").lower())
    if place is None:
        raise UserError(f"{path}, image {number:,}: split '{split}' is not train, val or test.")
    if name is None:
        found.add("", None, sample_id or f"row {number}", place)
        return
    leaves = os.path.isabs(name) or ".." in name  # noqa: PTH117
    if leaves and not allow_outside and _outside(root, name):
        raise UserError(
            f"{path}, image {number:,}: {name} lies outside of {root}. If that is meant: "
            "--allow-outside."
        )
    found.add(name, label or None, sample_id or name, place)


def _outside(root: Path, name: str) -> bool:
    whole = os.path.normpath(os.path.join(root, name))  # noqa: PTH118
    return not whole.startswith(f"{root}{os.sep}")


def frames_of(path: Path, config: DataConfig, needed: Sequence[str]) -> Iterator[pandas.DataFrame]:
    """The rows of a manifest, some at a time, with the columns path, label, id and split.

    Cells are as they are there, and none or NaN where there is nothing.
    """
    readers = {".jsonl": _json_frames, ".ndjson": _json_frames, ".parquet": _parquet_frames}
    find = partial(columns_of, config=config, path=path, needed=needed)
    columns: dict[str, str] = {}
    for frame in readers.get(path.suffix.lower(), _csv_frames)(path, find):
        columns = columns or find(list(frame.columns))
        names = [columns.get(kind, kind) for kind in MANIFEST_COLUMNS]
        yield frame.reindex(columns=names).set_axis(list(MANIFEST_COLUMNS), axis="columns")


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
    for kind, known in MANIFEST_COLUMNS.items():
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


def _csv_frames(path: Path, find: Find) -> Iterator[pandas.DataFrame]:
    import pandas

    with path.open(encoding="utf-8-sig") as file:
        first = file.readline()
    tabs = path.suffix.lower() == ".tsv" or ("\t" in first and not {",", ";"} & set(first))
    comma = "\t" if tabs else ";" if "," not in first else ","
    options = {"sep": comma, "dtype": object, "keep_default_na": False, "encoding": "utf-8-sig"}
    try:
        columns = find(list(pandas.read_csv(path, nrows=0, **options).columns))
    except pandas.errors.EmptyDataError:
        raise UserError(f"{path} is empty.") from None
    # Only these: a comma too many behind them does no harm.
    wanted = set(columns.values())
    with pandas.read_csv(path, usecols=wanted, chunksize=CHUNK, **options) as frames:
        yield from frames


def _json_frames(path: Path, find: Find) -> Iterator[pandas.DataFrame]:
    with path.open(encoding="utf-8-sig") as file:
        lines = ((number, line) for number, line in enumerate(file, start=1) if line.strip())
        columns: dict[str, str] = {}
        while rows := [_object(number, line) for number, line in islice(lines, CHUNK)]:
            columns = columns or find(list(rows[0]))  # whatever others say besides
            yield _frame(rows, set(columns.values()))


def _object(number: int, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise ValueError(f"line {number}: {error}") from None
    if not isinstance(found, dict):
        kind = type(found).__name__
        raise ValueError(f"line {number}: a row is a {kind} and not an object with keys")
    return found


def _parquet_frames(path: Path, find: Find) -> Iterator[pandas.DataFrame]:
    parquet = library("pyarrow.parquet", "parquet", f"{path} is a parquet file")
    with parquet.ParquetFile(path) as file:
        columns = set(find(file.schema_arrow.names).values())
        for batch in file.iter_batches(CHUNK, columns=list(columns)):
            yield _frame(batch.to_pylist(), columns)


def _frame(rows: list[dict[str, Any]], columns: Collection[str]) -> pandas.DataFrame:
    """What objects say of some columns; whole numbers beside missing ones stay whole."""
    import pandas

    return pandas.DataFrame(rows, columns=list(columns), dtype=object)
