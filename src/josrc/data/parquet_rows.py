"""Parquet files that hold images as bytes: which column, and how a row is read."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
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

# Bytes of images that a row group of parquet may hold, as one is read at once, which takes up to
# five times as much; of how many each process keeps some; and how many files it holds open.
LARGEST_GROUP, KEPT_GROUPS, KEPT_FILES = 5 * 2**26, 4, 64
KEPT_BYTES = 2**29
# Bytes of texts that are read at a time, and values of a row, if it holds lists. Beyond some rows
# each must take a byte of the file at least, as no two images have the same path.
BYTES_AT_ONCE, VALUES_PER_ROW, ROWS_WITHOUT_BYTES = 2**28, 10_000, 10**6
# What texts may be encoded as that stand there once; and what with their beginnings left out.
DICTIONARIES, PREFIXED = {"PLAIN_DICTIONARY", "RLE_DICTIONARY"}, "DELTA_BYTE_ARRAY"
# Names of columns of images, in the order in which they are looked for.
IMAGE_COLUMNS = ("image", "img", "jpg", "jpeg", "png", "webp", "picture", "bytes", "image_bytes")


def open_parquet(path: str, columns: list[str] | None = None) -> Any:
    """A parquet file; of ``columns`` (of bytes) equal values are kept once."""
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise UserError(f"{path} is a parquet file: install josrc[parquet] to read it.") from None
    try:
        return parquet.ParquetFile(
            open_remote(path) if is_url(path) else regular(path), read_dictionary=columns
        )
    except UserError:
        raise
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
                while len(self.groups) > KEPT_GROUPS or self._is_heavy():
                    self.groups.popitem(last=False)
            self.files.move_to_end(one)
            self.groups.move_to_end(key)
            return self.groups[key][row - int(begins[group])]

    def _is_heavy(self) -> bool:
        """Whether the groups take too much, and the last is not all there is."""
        return len(self.groups) > 1 and sum(g.nbytes for g in self.groups.values()) > KEPT_BYTES

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
                f"{size >> 20:,} MiB, and josrc reads one group at a time, up to "
                f"{LARGEST_GROUP >> 20:,} MiB. Write it with fewer rows per group: "
                "row_group_size=100."
            )


def rows_at_once(path: Path | str, file: Any, columns: Collection[str], most: int) -> int:
    """How many rows of a parquet file can be read at a time, without too many bytes.

    A text that stands in a million rows is in the file once, and a million times in what is read.

    Args:
        path: of the file, for messages.
        file: open.
        columns: that will be read.
        most: how many are wanted.
    """
    meta, packed, longest = file.metadata, 0, 1
    shared: dict[str, list[int]] = {}
    for number in range(meta.num_row_groups):
        group = meta.row_group(number)
        for chunk in (group.column(place) for place in range(group.num_columns)):
            packed += chunk.total_compressed_size
            if chunk.path_in_schema.split(".")[0] not in columns:
                continue
            size = chunk.total_uncompressed_size
            if size > LARGEST_GROUP or chunk.num_values > VALUES_PER_ROW * max(1, group.num_rows):
                raise UserError(
                    f"{path}: row group {number}, column '{clipped(chunk.path_in_schema)}' holds "
                    f"{chunk.num_values:,} values in {size:,} bytes, which is too much to read."
                )
            if chunk.physical_type != "BYTE_ARRAY" or size * most <= BYTES_AT_ONCE:
                continue
            if PREFIXED in chunk.encodings:
                longest = max(longest, size)
            elif DICTIONARIES & set(chunk.encodings):
                shared.setdefault(chunk.path_in_schema, []).append(number)
    if meta.num_rows > max(ROWS_WITHOUT_BYTES, packed):
        raise UserError(
            f"{path} says that it has {meta.num_rows:,} rows, in {packed:,} bytes: that can't be."
        )
    if shared:
        longest = max(longest, _longest_shared(path, shared))
    return max(1, min(most, BYTES_AT_ONCE // longest))


def _longest_shared(path: Path | str, columns: Mapping[str, Sequence[int]]) -> int:
    """Bytes of the longest text in the dictionaries of columns, each in some row groups."""
    from pyarrow import compute

    longest = 0
    with open_parquet(str(path), list(columns)) as file:
        for column, groups in columns.items():
            for number in groups:
                batch = next(file.iter_batches(1, row_groups=[number], columns=[column]), None)
                found = None if batch is None else _dictionary(batch.column(0))
                if found is not None and len(found):
                    longest = max(longest, compute.max(compute.binary_length(found)).as_py() or 0)
    return longest


def _dictionary(values: Any) -> Any:
    """The dictionary of an array, or of what is nested in it; none if it has none."""
    from pyarrow import types

    while not types.is_dictionary(values.type):
        if types.is_struct(values.type) and values.type.num_fields == 1:
            values = values.field(0)
        elif types.is_list(values.type) or types.is_large_list(values.type):
            values = values.values
        else:
            return None
    return values.dictionary


def read_row(path: str, row: int, column: str = "") -> bytes:
    """The image in a row of a parquet file; of a column, if it is not the one of images."""
    try:
        content = _buffer(_row_groups.row(path, row, column))
    except (UnreadableImageError, UserError) as error:
        raise UnreadableImageError(str(error)) from None
    except Exception as error:  # damaged files fail in many ways
        raise UnreadableImageError(f"damaged: {clipped(str(error), MAX_TEXT_LENGTH)}") from None
    if content is None:
        raise UnreadableImageError("its row contains no bytes")
    if content.size > LARGEST_IMAGE:
        raise UnreadableImageError(f"larger than {LARGEST_IMAGE >> 20} MiB")
    return bytes(content)


def _buffer(cell: Any) -> Any:
    """Where the bytes of a cell lie, which are not copied; none of an empty one."""
    from pyarrow import types

    if cell.is_valid and types.is_struct(cell.type):
        cell = cell["bytes"]
    if cell.is_valid and types.is_dictionary(cell.type):
        cell = cell.value
    return cell.as_buffer() if cell.is_valid else None
