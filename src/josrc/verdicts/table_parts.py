"""Verdicts of very many samples as parquet parts in a folder, which are read as one table.

A CSV file of ten million lines takes 2 GB, and whoever wants one column of it reads them all. In
parts a column is read alone, some rows at a time. The last thing a writer does is to give the whole
folder its name, so the parts in it are complete.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from josrc._io import partial_of, readable, with_path, write_text
from josrc._reading import read_json, regular
from josrc.data.parquet_rows import rows_at_once
from josrc.errors import UserError

if TYPE_CHECKING:
    import pandas
    import pyarrow

# Rows of a part, in groups of so many that are read at a time.
PART_ROWS = 1_000_000
# What they must be, all together.
ROWS = "rows.json"
# Its columns of few different texts, and those of numbers.
FEW = ("given_label", "verdict", "suggested_label")
NUMBERS = ("p_clean", "p_ood", "confidence", "score")


def write_parts(
    folder: Path,
    columns: Sequence[str],
    frames: Iterable[pandas.DataFrame],
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Write a table, a frame at a time, in place of one that is there.

    Args:
        folder: of the parts.
        columns: their names.
        frames: rows that follow one another; texts and numbers.
        ready: called when all is written, before it takes its place.
    """
    partial = partial_of(folder)
    shutil.rmtree(partial, ignore_errors=True)
    with with_path(partial):
        partial.mkdir(parents=True)
        try:
            parts, rows = _write(partial, columns, frames)
            write_text(partial / ROWS, json.dumps({"parts": parts, "rows": rows}))
            ready()
            shutil.rmtree(folder, ignore_errors=True)
            partial.replace(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _write(
    folder: Path, columns: Sequence[str], frames: Iterable[pandas.DataFrame]
) -> tuple[int, int]:
    """Write the parts; returns how many there are, and of how many rows."""
    from pyarrow import parquet

    writer, number, total, filled = None, 0, 0, 0
    try:
        for frame in frames:
            table = _table(frame[list(columns)])
            if writer is None:
                path = folder / f"part-{number:05}.parquet"
                writer = parquet.ParquetWriter(path, table.schema, compression="zstd")
                number += 1
            writer.write_table(table)
            filled, total = filled + len(frame), total + len(frame)
            if filled >= PART_ROWS:
                writer.close()
                writer, filled = None, 0
    finally:
        if writer is not None:
            writer.close()
    return number, total


def _table(frame: pandas.DataFrame) -> pyarrow.Table:
    import pyarrow as pa

    arrays = {}
    for name, column in frame.items():
        if column.dtype == np.float64:
            arrays[name] = pa.array(column.to_numpy())
        else:
            texts = pa.array(map(str, column), pa.string())
            arrays[name] = texts.dictionary_encode() if name in FEW else texts
    return pa.table(arrays)


def read_parts(
    folder: Path,
    columns: Sequence[str],
    wanted: Sequence[str],
    rows: int,
    chosen: NDArray[np.int64] | None = None,
) -> Iterator[pandas.DataFrame]:
    """The table, so many rows at a time, by their numbers.

    Args:
        folder: of the parts.
        columns: that it must have.
        wanted: those of them that are read.
        rows: that are read at a time.
        chosen: numbers of the rows that are handed on, rising; all of them by default.
    """
    from pyarrow import parquet

    promised = read_json(folder / ROWS)
    with readable(folder / ROWS):
        parts, total = int(promised["parts"]), int(promised["rows"])
    begin = 0
    for number in range(parts):
        path = folder / f"part-{number:05}.parquet"
        if not path.is_file():
            raise UserError(f"{path} is missing.")
        with readable(path), parquet.ParquetFile(regular(path)) as file:
            if tuple(file.schema_arrow.names) != tuple(columns):
                raise UserError(
                    f"{path} has columns other than those josrc writes: {', '.join(columns)}."
                )
            _check_types(path, file.schema_arrow, columns)
            some = rows_at_once(path, file, wanted, rows)
            for batch in file.iter_batches(batch_size=some, columns=list(wanted)):
                _check_complete(path, batch)
                yield _frame(batch, wanted, begin, chosen)
                begin += batch.num_rows
    if begin != total:
        raise UserError(f"{folder} has {begin:,} rows, and should have {total:,}.")


def _check_types(path: Path, schema: pyarrow.Schema, columns: Sequence[str]) -> None:
    """Raise an error unless columns hold numbers or texts, as they are written."""
    import pyarrow as pa

    text = pa.string()
    for name in columns:
        found, wanted = schema.field(name).type, text
        if name in NUMBERS:
            wanted = pa.float64()
        elif name in FEW:
            wanted = pa.dictionary(pa.int32(), text)
        if found != wanted:
            raise UserError(f"{path} is damaged: {name} holds {found}, not {wanted}.")


def _check_complete(path: Path, batch: pyarrow.RecordBatch) -> None:
    """Raise an error if something is missing in some rows."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if column.null_count:
            raise UserError(f"{path} is damaged: {name} is missing in {column.null_count:,} rows.")


def _frame(
    batch: pyarrow.RecordBatch,
    wanted: Sequence[str],
    begin: int,
    chosen: NDArray[np.int64] | None,
) -> pandas.DataFrame:
    import pandas

    index = pandas.RangeIndex(begin, begin + batch.num_rows)
    if chosen is not None:
        first, last = np.searchsorted(chosen, (begin, begin + batch.num_rows))
        index = pandas.Index(chosen[first:last])
        batch = batch.take(chosen[first:last] - begin)
    found = {}
    for name in wanted:
        column = batch.column(name)
        if name in FEW:  # the same few texts again and again
            texts = column.dictionary.to_numpy(zero_copy_only=False).astype(object)
            values = texts[column.indices.to_numpy(zero_copy_only=False)]
        else:
            values = column.to_numpy(zero_copy_only=False)
        kind = np.float64 if values.dtype == np.float64 else object
        found[name] = pandas.Series(values, index=index, dtype=kind)
    return pandas.DataFrame(found, index=index)
