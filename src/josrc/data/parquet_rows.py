"""Parquet files that hold images as bytes: which column, and how a row is read."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from josrc._console import MAX_TEXT_LENGTH, clipped
from josrc._io import is_url
from josrc._reading import regular
from josrc.data.decode import UnreadableImageError
from josrc.data.packed_strings import Index
from josrc.data.remote import LARGEST_IMAGE, open_remote
from josrc.errors import UserError

# Bytes of images that a row group of parquet may hold, as one is read at once; and of how many each
# process keeps; and how many files it holds open.
LARGEST_GROUP, KEPT_GROUPS, KEPT_FILES = 2**30, 4, 64
# Names of columns of images, in the order in which they are looked for.
IMAGE_COLUMNS = ("image", "img", "jpg", "jpeg", "png", "webp", "picture", "bytes", "image_bytes")


def open_parquet(path: str, columns: list[str] | None = None) -> Any:
    """A parquet file; of ``columns`` (of bytes) equal values are kept once."""
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise UserError(f"{path} is a parquet file: install josrc[parquet] to read it.") from None
    if not is_url(path):
        regular(Path(path))
        file: Any = path
    else:
        file = open_remote(path)
    try:
        return parquet.ParquetFile(file, read_dictionary=columns)
    except Exception as error:
        raise UserError(f"{path} can't be read as a parquet file: {error}") from None


def image_column(schema: Any, wanted: str | None = None) -> str | None:
    """The column of a parquet file that holds images, as bytes; none if none does.

    Args:
        schema: of pyarrow.
        wanted: its name, where it is known.
    """
    holding = [field.name for field in schema if holds_bytes(field.type)]
    if wanted is not None:
        return wanted if wanted in holding else None
    named = [name for known in IMAGE_COLUMNS for name in holding if name.lower() == known]
    return named[0] if named else holding[0] if len(holding) == 1 else None


def row_name(schema: Any, column: str, row: int) -> str:
    """What the image in a row is called; with its column where that is not the one of images."""
    return str(row) if column == image_column(schema) else f"{column}/{row}"


def row_names(schema: Any, rows: int) -> Iterator[tuple[str, int]]:
    """What all images are called, whatever column they are in, each with its row."""
    for field in schema:
        if holds_bytes(field.type):
            yield from ((row_name(schema, field.name, row), row) for row in range(rows))


def holds_bytes(kind: Any) -> bool:
    """Bytes, or as Hugging Face writes them ``{bytes, path}``."""
    from pyarrow import types

    if types.is_struct(kind):
        index = kind.get_field_index("bytes")
        return index >= 0 and holds_bytes(kind.field(index).type)
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


class RowGroups:
    """The images of the row groups that were asked for last; each process has its own."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew, as a process does that was forked: files and locks are its parent's."""
        self.files: OrderedDict[tuple[str, str], tuple[Any, str, Index]] = OrderedDict()
        self.groups: OrderedDict[tuple[str, str, int], Any] = OrderedDict()
        self.lock = Lock()

    def row(self, path: str, row: int, wanted: str) -> Any:
        """The cell of an image in a column; empty: the one that image_column finds."""
        with self.lock:  # one file is not to be read by two threads
            one = (path, wanted)
            if one not in self.files:
                self.files[one] = self._open(path, wanted or None)
            while len(self.files) > KEPT_FILES:
                self.files.popitem(last=False)[1][0].close()
            file, column, begins = self.files[one]
            group = int(np.searchsorted(begins, row, side="right")) - 1
            key = (*one, group)
            if key not in self.groups:
                read = file.read_row_group(group, columns=[column], use_threads=False)
                self.groups[key] = read.column(0)
                while len(self.groups) > KEPT_GROUPS:
                    self.groups.popitem(last=False)
            self.files.move_to_end(one)
            self.groups.move_to_end(key)
            return self.groups[key][row - int(begins[group])].as_py()

    def _open(self, path: str, wanted: str | None) -> tuple[Any, str, Index]:
        with open_parquet(path) as file:
            column = image_column(file.schema_arrow, wanted)
            if column is None:
                raise UnreadableImageError(f"{Path(path).name} has no column of images")
            check_groups(path, file, column)
            counts = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
            struct = file.schema_arrow.field(column).type.num_fields > 0
        # One value in a dictionary may stand in a million rows: as such it stays small.
        kept = open_parquet(path, [f"{column}.bytes" if struct else column])
        return kept, column, np.cumsum([0, *counts[:-1]])


_row_groups = RowGroups()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_row_groups.forget)


def check_groups(path: str, file: Any, column: str) -> None:
    """Raise an error if images can't be read some at a time."""
    meta = file.metadata
    for number in range(meta.num_row_groups):
        group = meta.row_group(number)
        chunks = (group.column(place) for place in range(group.num_columns))
        size = sum(
            chunk.total_uncompressed_size
            for chunk in chunks
            if chunk.path_in_schema.split(".")[0] == column
        )
        if size > LARGEST_GROUP:
            raise UserError(
                f"{path}: the {group.num_rows:,} images of row group {number} take "
                f"{size / 2**30:.1f} GiB, and josrc reads one at a time, up to "
                f"{LARGEST_GROUP / 2**30:.0f} GiB. Write it with fewer rows per group: "
                "row_group_size=100."
            )


def read_row(path: str, row: int, column: str = "") -> bytes:
    """The image in a row of a parquet file; of a column, if it is not the one of images."""
    try:
        cell = _row_groups.row(path, row, column)
    except (UnreadableImageError, UserError) as error:
        raise UnreadableImageError(str(error)) from None
    except Exception as error:  # damaged files fail in many ways
        raise UnreadableImageError(f"damaged: {clipped(str(error), MAX_TEXT_LENGTH)}") from None
    content = cell.get("bytes") if isinstance(cell, dict) else cell
    if content is None:
        raise UnreadableImageError("its row contains no bytes")
    if len(content) > LARGEST_IMAGE:
        raise UnreadableImageError(f"larger than {LARGEST_IMAGE >> 20} MiB")
    return bytes(content)
