"""What a folder, a manifest or a hub data set says of its images, before any is opened."""

from __future__ import annotations

import csv
import importlib
import json
import os
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from josrc.config import DataConfig
from josrc.data.files import HubImages, ImageFiles, Index, Strings
from josrc.data.noise import Labels
from josrc.errors import UserError, closest

TRAIN, VAL, TEST = 0, 1, 2
# What only a run folder of josrc has: its pictures are no data.
RUN_FILES = {"config.yaml", "environment.json", "noise.npz"}
SPLITS = {
    **dict.fromkeys(("", "train", "training"), TRAIN),
    **dict.fromkeys(("val", "valid", "validation", "dev"), VAL),
    **dict.fromkeys(("test", "testing"), TEST),
}
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
MANIFESTS = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
HUB = "hf:"
# A row of a manifest: path, label, id and split; none where the cell is empty.
Row = tuple[Any, Any, Any, Any]
# From the names of all columns to those of path, label, id and split.
Find = Callable[[Sequence[str]], dict[str, str]]


@dataclass(frozen=True)
class Table:
    """Images with their labels, in the order of their data set.

    Attributes:
        images: where they are, or the pixels themselves.
        labels: the class of each, ``(N,)``; -1 where it has none.
        class_names: the classes in order.
        ids: what each is called; none of them twice.
        split: ``TRAIN``, ``VAL`` or ``TEST``, ``(N,)``.
        verified: as in a source.
        verified_held: likewise.
    """

    images: ImageFiles | NDArray[np.uint8]
    labels: Labels
    class_names: list[str]
    ids: Strings
    split: Labels
    verified: NDArray[np.int8] | None = None
    verified_held: NDArray[np.int8] | None = None

    def images_at(self, index: Index) -> ImageFiles | NDArray[np.uint8]:
        """Some of the images; if it is all of them they are not copied."""
        if len(index) == len(self.ids):
            return self.images
        return (
            self.images.take(index) if isinstance(self.images, ImageFiles) else self.images[index]
        )


def read_table(name: str, config: DataConfig) -> Table:
    """The images of a path or of ``hf:NAME``."""
    path = Path(name)
    if name.startswith(HUB) or _is_saved_dataset(path):
        table = _read_hub(name, config)
    elif path.is_dir():
        table = _read_folder(path)
    elif path.suffix.lower() in MANIFESTS:
        table = _read_manifest(path, config)
    elif not path.exists():
        raise UserError(f"{path} does not exist.")
    else:
        raise UserError(
            f"{path} is neither a folder of class folders nor a manifest ({', '.join(MANIFESTS)})."
        )
    return checked(name, table)


def list_images(paths: Sequence[Path], config: DataConfig) -> ImageFiles:
    """Where the images of files, of folders and of manifests lie, labelled or not, in their order.

    Of a folder it is every file below it but hidden ones.
    """

    def names() -> Iterator[str]:
        for path in paths:
            if not path.exists():
                raise UserError(f"{path} does not exist.")
            if path.is_dir():
                yield from _files(path)
            elif path.suffix.lower() in MANIFESTS:
                images = _read_manifest(path, config, needed=("path",)).images
                assert isinstance(images, ImageFiles)
                yield from map(images.location, range(len(images)))
            else:
                yield str(path)

    return ImageFiles(Strings.of(names()), Path.cwd())


def checked(name: str, table: Table) -> Table:
    """A table that holds images, none of them twice."""
    if not len(table.ids):
        raise UserError(f"{name} holds no image.")
    twice = table.ids.duplicate()
    if twice is not None:
        first, second = (place + 1 for place in sorted(twice))
        raise UserError(
            f"{name}: images {first:,} and {second:,} have the same id "
            f"'{table.ids[second - 1]}'. Every image needs one of its own."
        )
    return table


class Builder:
    """Collects rows in little memory."""

    def __init__(self) -> None:
        self.names, self.ids = bytearray(), bytearray()
        self.name_ends, self.id_ends = array("q"), array("q")
        self.labels, self.split = array("q"), array("b")
        self.numbers: dict[str, int] = {}

    def add(self, name: str, label: str | None, sample_id: str, split: int) -> None:
        """One image."""
        self.names += name.encode("utf-8", "surrogateescape")
        self.name_ends.append(len(self.names))
        self.ids += sample_id.encode("utf-8", "surrogateescape")
        self.id_ends.append(len(self.ids))
        self.labels.append(
            self.numbers.setdefault(label, len(self.numbers)) if label is not None else -1
        )
        self.split.append(split)

    def labelled(self) -> tuple[Labels, list[str]]:
        """Labels as numbers of the sorted class names; numbers sort as numbers."""
        found = list(self.numbers)
        whole = all(re.fullmatch("-?[0-9]{1,18}", name) for name in found)
        names = sorted(found, key=int if whole else str)
        place = {name: number for number, name in enumerate(names)}
        translate = np.array([place[name] for name in found] + [-1], dtype=np.int64)
        return translate[np.array(self.labels, dtype=np.int64)], names

    def table(self, root: Path) -> Table:
        """All of them."""
        labels, names = self.labelled()
        paths = Strings(bytes(self.names), np.array(self.name_ends, dtype=np.int64))
        ids = paths
        if self.ids != self.names or self.id_ends != self.name_ends:
            ids = Strings(bytes(self.ids), np.array(self.id_ends, dtype=np.int64))
        split = np.array(self.split, dtype=np.int64)
        return Table(ImageFiles(paths, root), labels, names, ids, split)


# --- folders -------------------------------------------------------------------------------------


def _read_folder(root: Path) -> Table:
    """A folder of class folders, or one of ``train``, ``val`` and ``test`` with those inside."""
    folders = _subfolders(root)
    parts = {name: SPLITS[name.lower()] for name in folders if name.lower() in SPLITS}
    split = len(parts) == len(folders) and TRAIN in parts.values()
    found = Builder()
    for part, place in parts.items() if split else [("", TRAIN)]:
        for label in _subfolders(root / part):
            for file in _files(root / part / label):
                name = os.path.relpath(file, root)
                found.add(name, label, name, place)
    if not found.numbers:
        raise UserError(
            f"{root} holds no image in class folders: put the images of each class into a folder "
            "that bears its name, or write a manifest (CSV with the columns path and label)."
        )
    return found.table(root.absolute())


def _subfolders(root: Path) -> list[str]:
    return sorted(p.name for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))


def _files(folder: Path) -> Iterator[str]:
    """All files below a folder but hidden ones and those of josrc's own runs, in a fixed order."""

    def refuse(error: OSError) -> None:
        raise UserError(f"{error.filename} can't be read: {error.strerror}.")

    for place, folders, files in os.walk(folder, onerror=refuse):
        if set(files) >= RUN_FILES:
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (os.path.join(place, f) for f in sorted(files) if not f.startswith("."))  # noqa: PTH118


# --- manifests -----------------------------------------------------------------------------------


def _read_manifest(
    path: Path, config: DataConfig, needed: Sequence[str] = ("path", "label")
) -> Table:
    root = path.absolute().parent
    suffix = path.suffix.lower()
    find = partial(_columns, config=config, path=path, needed=needed)
    reader = {".jsonl": _json_rows, ".ndjson": _json_rows, ".parquet": _parquet_rows}
    found = Builder()
    try:
        for number, row in enumerate(reader.get(suffix, _csv_rows)(path, find), start=1):
            _add(found, row, number, path, root, config.allow_outside)
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is no UTF-8 text: save it as that ({error}).") from None
    except (OSError, ValueError, csv.Error) as error:
        raise UserError(f"{path} can't be read as a manifest: {error}") from None
    return found.table(root)


def _add(
    found: Builder, row: Row, number: int, path: Path, root: Path, allow_outside: bool
) -> None:
    name, label, sample_id, split = map(_text, row)
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


def _text(cell: Any) -> str | None:
    """What a cell says. Numbers beside empty cells come as floats: class 3 is no class "3.0"."""
    if isinstance(cell, float):
        cell = None if np.isnan(cell) else int(cell) if cell.is_integer() else cell
    return None if cell is None or cell == "" else str(cell).strip()


def _outside(root: Path, name: str) -> bool:
    whole = os.path.normpath(os.path.join(root, name))  # noqa: PTH118
    return not whole.startswith(f"{root}{os.sep}")


def _columns(
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
    parquet = _library("pyarrow.parquet", "parquet", f"{path} is a parquet file")
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


def _library(module: str, extra: str, why: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UserError(f"{why}: install josrc[{extra}] to read it.") from None


# --- Hugging Face --------------------------------------------------------------------------------


def _is_saved_dataset(path: Path) -> bool:
    return any((path / name).is_file() for name in ("dataset_dict.json", "dataset_info.json"))


def _read_hub(name: str, config: DataConfig) -> Table:
    """A data set saved by ``save_to_disk``, or one that the library finds by its name."""
    library = _library("datasets", "hf", f"{name} is a Hugging Face data set")
    try:
        if name.startswith(HUB):
            loaded = library.load_dataset(name.removeprefix(HUB))
        else:
            loaded = library.load_from_disk(name)
    except Exception as error:  # network, hub and files fail in many ways
        raise UserError(f"{name} can't be loaded: {error}") from None
    parts = dict(loaded) if isinstance(loaded, dict) else {"train": loaded}
    found, used = Builder(), []
    kinds: dict[str, str] = {}
    for part, rows in parts.items():
        if part.lower() in SPLITS:
            kinds = kinds or _columns(rows.column_names, config, name)
            _add_hub_rows(found, rows, part, kinds)
            used.append(rows)
    if not used:
        raise UserError(f"{name} has no split 'train' (it has: {', '.join(parts)}).")
    rows = library.concatenate_datasets(used)
    column = kinds["path"]
    if isinstance(rows.features[column], library.Image):
        rows = rows.cast_column(column, library.Image(decode=False))
    table = found.table(Path())
    index = np.arange(len(table.ids))
    images = HubImages(table.ids, Path(), rows=rows, column=column, index=index)
    return Table(images, table.labels, table.class_names, table.ids, table.split)


def _add_hub_rows(found: Builder, rows: Any, part: str, columns: dict[str, str]) -> None:
    names = getattr(rows.features[columns["label"]], "names", None)
    for number, label in enumerate(rows[columns["label"]]):
        text = None if label in (None, -1, "") else str(label)
        if names is not None and text is not None:
            text = str(names[label])
        found.add(f"{part}/{number}", text, f"{part}/{number}", SPLITS[part.lower()])
