"""Tar files as WebDataset writes them, and parquet files with bytes of images in them."""

from __future__ import annotations

import json
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from josrc._io import is_url
from josrc._reading import parse_json
from josrc.config import DataConfig, DataKind
from josrc.data.packed_images import PackedImages
from josrc.data.parquet_rows import (
    check_groups,
    holds_bytes,
    image_column,
    open_parquet,
    row_name,
    rows_at_once,
)
from josrc.data.readers.manifest import (
    CHUNK,
    MANIFEST_COLUMNS,
    Find,
    frame_of,
    read_frames,
)
from josrc.data.readers.places import SHARDS, expand, home_of, is_pattern
from josrc.data.readers.table import SPLITS, TRAIN, Reader, Table
from josrc.data.remote import list_files
from josrc.data.tars import TELLING, Member, tar_members
from josrc.errors import UserError

if TYPE_CHECKING:
    import pandas

PICTURES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif")
# How the names of files begin that are for one part of the data.
PART = re.compile(rf"({'|'.join(filter(None, SPLITS))})[-_.]", re.IGNORECASE)
# Columns that a manifest has for where its images lie.
PATHS = MANIFEST_COLUMNS["path"]


class ShardsReader(Reader):
    """Files that hold the images, one or many."""

    kind = DataKind.SHARDS

    @staticmethod
    def claims(name: str) -> bool:
        """A tar, a parquet file with images in it, a pattern of such, or a folder of them."""
        place = str(Path(name).expanduser()) if not is_url(name) else name
        if is_pattern(place):
            return True
        path = Path(place)
        if not is_url(place) and path.is_dir():
            return bool(_in_folder(place)) and not any(p.is_dir() for p in path.iterdir())
        if is_url(place) and not path.suffix:
            return bool(_in_folder(place))
        if not is_url(place) and not path.is_file():
            return False
        return place.lower().endswith(".tar") or _holds_images(place)

    @staticmethod
    def read(config: DataConfig) -> Table:
        """Images in the order of their files, and in each as they come."""
        frames = ShardFrames(config)
        table = read_frames(config.place, frames.config, frames, may_leave=False)
        start, size = (np.array(values, dtype=np.int64) for values in (frames.start, frames.size))
        images = PackedImages(table.files.names, table.files.root, 0, start, size)
        return replace(table, images=images, left_out=frames.left_out)


def shard_files(place: str) -> list[str]:
    """The files of a place, in their order."""
    if is_pattern(place):
        return expand(place)
    if place.lower().endswith(SHARDS):
        return [place]
    return _in_folder(place)


def names_in(file: str, column: str | None = None) -> Iterator[str]:
    """What the images in a file are called, ``FILE#NAME``.

    Args:
        file: a tar or a parquet file.
        column: of the images in a parquet file; none: found by its name.
    """
    if not file.lower().endswith(".parquet"):
        for member in tar_members(file)[0]:
            if PurePosixPath(member.name).suffix.lower() in PICTURES:
                yield f"{file}#{member.name}"
        return
    with open_parquet(file) as content:
        schema, rows = content.schema_arrow, content.metadata.num_rows
        found = require_image_column(file, schema, column)
        check_groups(file, content, found)
        rows_at_once(file, content, (), rows)
        yield from (f"{file}#{row_name(schema, found, row)}" for row in range(rows))


def require_image_column(file: str, schema: Any, wanted: str | None) -> str:
    """The column of images of a parquet file, or an error that names those it has."""
    found = image_column(schema, wanted)
    if found is None:
        raise UserError(
            f"{file} has no column of images as bytes (its columns: {', '.join(schema.names)}). "
            "Name it: --path-column COLUMN."
        )
    return found


def _in_folder(place: str) -> list[str]:
    if is_url(place):
        names = list_files(place.rstrip("/"))
    else:
        names = sorted(str(path) for path in Path(place).iterdir() if path.is_file())
    return [n for n in names if n.lower().endswith(SHARDS) and not Path(n).name.startswith(".")]


def _holds_images(place: str) -> bool:
    """Whether a parquet file has images, and is no manifest that names them."""
    if not place.lower().endswith(".parquet"):
        return False
    try:
        with open_parquet(place) as file:
            schema = file.schema_arrow
    except UserError:  # for the reader of manifests to tell
        return False
    column = image_column(schema)
    names = [field.name.lower() for field in schema if not holds_bytes(field.type)]
    return column is not None and (column.lower() in PATHS or not set(names) & set(PATHS))


class ShardFrames:
    """Reads what files say of the images in them, as rows of a manifest.

    Attributes:
        config: how the rows are to be read.
        start: where each image begins, once the rows are read.
        size: its bytes, likewise.
        left_out: how many files of which kinds lie among the images that are no pictures.
    """

    def __init__(self, config: DataConfig) -> None:
        self.files, self.root = shard_files(config.place), home_of(config.place)
        self.start, self.size = array("q"), array("q")
        self.left_out: Counter[str] = Counter()
        self._check()
        parts = [PART.match(Path(file).name) for file in self.files]
        known = [SPLITS[part[1].lower()] for part in parts if part]
        # As with folders: only if all are of a part, and one is to train on.
        split = len(known) == len(self.files) and TRAIN in known
        self.split = [part[1] if part and split else None for part in parts]
        self.column = "path"
        if self.files[0].lower().endswith(".parquet"):
            with open_parquet(self.files[0]) as file:
                schema = file.schema_arrow
            self.column = require_image_column(self.files[0], schema, config.path_column)
            read = {"path_column": self.column}
        else:  # what stands beside an image is brought into columns here
            read = {"path_column": "path", "label_column": "label"}
        self.label_column = config.label_column
        self.config = config.model_copy(update=read)

    def _check(self) -> None:
        if not self.files:
            raise UserError(f"{self.root} holds no tar or parquet file.")
        kinds = {Path(file).suffix.lower() for file in self.files}
        if len(kinds) > 1:
            raise UserError(f"{self.root} holds tar and parquet files. Name those that are meant.")
        for file in self.files:
            if not is_url(file) and not Path(file).is_file():
                raise UserError(f"{file} does not exist.")

    def __call__(self, _: Path, find: Find) -> Iterator[pandas.DataFrame]:
        """The rows of all files."""
        for file, part in zip(self.files, self.split, strict=True):
            name = file[len(self.root) + 1 :]
            if file.lower().endswith(".parquet"):
                yield from self._parquet(file, name, part, find)
                continue
            rows = iter(self._tar(file, name, part))
            while some := list(islice(rows, CHUNK)):
                yield frame_of(some, find)

    def _tar(self, file: str, name: str, part: str | None) -> Iterator[dict[str, Any]]:
        members, told = tar_members(file)
        for member in members:
            kind = PurePosixPath(member.name).suffix.lower()
            if kind not in PICTURES:
                self.left_out.update([kind[1:]] if kind not in TELLING else [])
                continue
            row = {"path": f"{name}#{member.name}", **self._told(member, told, file)}
            self.start.append(member.start)
            self.size.append(member.size)
            yield row if part is None else {"split": part, **row}

    def _told(self, member: Member, told: dict[str, bytes], file: str) -> dict[str, Any]:
        """What stands beside an image: the members that share its name up to the first dot."""
        folder, slash, base = member.name.rpartition("/")
        key = f"{folder}{slash}{base.partition('.')[0]}"
        found: dict[str, Any] = {}
        if f"{key}.json" in told:
            try:
                found = parse_json(told[f"{key}.json"])
            except ValueError as error:
                raise UserError(f"{file}: {key}.json is no JSON: {error}") from None
            if not isinstance(found, dict):
                raise UserError(f"{file}: {key}.json is not an object with keys.")
            found.pop("path", None)
        column = self.label_column or _label_column(found)
        label = folder.rpartition("/")[2] if column is None else found.pop(column, None)
        if f"{key}.cls" in told:
            label = told[f"{key}.cls"].decode("utf-8", "replace").strip()
        return found | {"label": label}

    def _parquet(
        self, file: str, name: str, part: str | None, find: Find
    ) -> Iterator[pandas.DataFrame]:
        with open_parquet(file) as content:
            schema = content.schema_arrow
            if image_column(schema, self.column) is None:
                raise UserError(f"{file} has no column '{self.column}' of images as bytes.")
            check_groups(file, content, self.column)
            names = [f.name for f in schema if f.name == self.column or not holds_bytes(f.type)]
            own = [*names, *(["split"] if part and "split" not in names else [])]
            wanted = find(own)
            read = [n for n in dict.fromkeys(wanted.values()) if n in names and n != self.column]
            classes = _class_names(schema, wanted.get("label"))
            row = 0
            rows = rows_at_once(file, content, read, CHUNK)
            for batch in content.iter_batches(rows, columns=read):
                rows = batch.to_pylist() if read else [{} for _ in range(batch.num_rows)]
                for cells in rows:
                    cells[self.column] = f"{name}#{row_name(schema, self.column, row)}"
                    self.start.append(row)
                    self.size.append(0)
                    if part:
                        cells.setdefault("split", part)
                    if classes:
                        _name_class(cells, wanted["label"], classes, f"{file}, row {row:,}")
                    row += 1
                yield frame_of(rows, find)


def _label_column(found: dict[str, Any]) -> str | None:
    """What the class is called beside an image, if it stands there."""
    lower = {name.strip().lower(): name for name in reversed(found)}
    return next((lower[name] for name in MANIFEST_COLUMNS["label"] if name in lower), None)


def _class_names(schema: Any, column: str | None) -> Sequence[str]:
    """What Hugging Face calls the classes of a column of numbers; empty if it does not say."""
    try:
        told = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        names = told["info"]["features"][column]["names"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return ()
    return names if isinstance(names, list) and all(isinstance(n, str) for n in names) else ()


def _name_class(cells: dict[str, Any], column: str, names: Sequence[str], where: str) -> None:
    """Put the name of a class in place of its number."""
    label = cells.get(column)
    if label in (None, -1):
        cells[column] = None
    elif isinstance(label, int):
        if not 0 <= label < len(names):
            raise UserError(f"{where} has the label {label}, and there are {len(names):,} classes.")
        cells[column] = names[label]
