"""A manifest: a table of images in a CSV, TSV, JSONL or parquet file."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from josrc._console import MAX_TEXT_LENGTH, clipped
from josrc._io import is_url
from josrc._reading import parse_json, regular
from josrc.config import DataConfig, DataKind
from josrc.data.packed_images import unpacked
from josrc.data.parquet_rows import rows_at_once
from josrc.data.readers._extras import library
from josrc.data.readers.annotators import AnnotatedBuilder, annotator_columns
from josrc.data.readers.places import check_inside, home_of
from josrc.data.readers.several_labels import check_single, listed_label, refuse_several
from josrc.data.readers.table import SPLITS, Reader, Table, TableBuilder
from josrc.data.remote import check_reached, local_copy, local_or_url, protocol_of
from josrc.data.written import is_remembered
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
    "group": (),  # only where it is named: nobody asks for groups by accident
}  # fmt: skip
# Characters of a cell. Readers of CSV files refuse 131,072.
LONGEST_CELL, LONGEST_LABEL = 10_000, 1_000
# Characters of the names of all columns, as they are told.
LONGEST_LIST = 500
SURROGATE = re.compile("[\ud800-\udfff]")
# Rows that are read at a time.
CHUNK = 50_000
# From the names of all columns to those that are wanted: path, label, id, split and group.
Find = Callable[[Sequence[str]], dict[str, str]]
# What reads the rows of a file, some at a time, with the columns that are wanted of it.
Frames = Callable[[Path, Find], Iterator["pandas.DataFrame"]]


class ManifestReader(Reader):
    """A file with a row for each image."""

    kind = DataKind.MANIFEST

    @staticmethod
    def claims(name: str) -> bool:
        """Whatever is there and no folder; behind an address what is called like a manifest."""
        path = Path(name).expanduser()
        return is_manifest(path) if is_url(name) else path.exists() and not path.is_dir()

    @staticmethod
    def read(config: DataConfig) -> Table:
        """Rows in their order."""
        check_manifest(Path(config.place))
        return read_manifest(config.place, config)


def check_manifest(path: Path) -> None:
    """Raise an error if a file can't be a manifest, by its name and sort."""
    if not is_manifest(regular(path)):
        known = ", ".join(MANIFESTS)
        raise UserError(f"{path} is neither a folder of class folders nor a manifest ({known}).")


def is_manifest(path: Path) -> bool:
    """Whether a file's name says that it is one."""
    return path.suffix.lower() in MANIFESTS and not path.is_dir()


def lists_images(path: Path) -> bool:
    """Whether a file's name says that it names images, or holds them."""
    return is_manifest(path) or (path.suffix.lower() in (".json", ".tar") and not path.is_dir())


def read_manifest(
    path: Path | str, config: DataConfig, needed: Sequence[str] = ("path", "label")
) -> Table:
    """The images of a manifest; those columns must be there."""
    return read_rows(path, config, manifest_frames(Path(path)), needed)


def read_rows(
    place: Path | str, config: DataConfig, frames: Frames, needed: Sequence[str] = ("path", "label")
) -> Table:
    """The images that a file or what is behind an address names; those columns must be there."""
    with local_copy(str(place)) as path:
        regular(path)
        may_leave = config.allow_outside or is_remembered(path)
        table = read_frames(place, config, frames, needed, may_leave=may_leave, copy=path)
    images = unpacked(table.files)
    check_reached(images)
    return replace(table, images=images)


def read_frames(
    place: Path | str,
    config: DataConfig,
    frames: Frames,
    needed: Sequence[str] = ("path", "label"),
    *,
    may_leave: bool,
    copy: Path | None = None,
) -> Table:
    """The images of rows that ``frames`` reads.

    Args:
        place: the path or the address, as people know it.
        config: how the rows are read.
        frames: what reads them.
        needed: columns that must be there.
        may_leave: images may lie anywhere.
        copy: where what is behind the address is kept meanwhile.
    """
    root, path = home_of(place), copy or Path(place)
    annotated = AnnotatedBuilder(place) if config.has_annotators else None
    found = annotated or TableBuilder()
    if config.annotator_columns:
        needed = [kind for kind in needed if kind != "label"]
    try:
        found_frames = frames_of(path, config, needed, frames)
        rows = (frame.itertuples(index=False, name=None) for frame in found_frames)
        several: list[str] = []
        for number, row in enumerate(chain.from_iterable(rows), start=1):
            row = _with_one_label(row, config, several)
            part = _checked(row, number, place, root, may_leave)
            if annotated is None:
                _add(found, row, number, part)
            else:
                _add_votes(annotated, row, number, part, config)
    except UserError:  # it says already what is wrong
        raise
    except UnicodeDecodeError as error:
        raise UserError(f"{place} is not UTF-8 text: save it as UTF-8 ({error}).") from None
    except (OSError, ValueError, csv.Error) as error:
        why = clipped(reason(error), MAX_TEXT_LENGTH)
        raise UserError(f"{place} can't be read as a manifest: {why}") from None
    if several:
        raise refuse_several(str(place), several[0], len(several))
    if not config.whole_labels:
        check_single(str(place), found.label_counts())
    return found.table(root)


def _with_one_label(row: Sequence[Any], config: DataConfig, several: list[str]) -> Sequence[Any]:
    """A row without lists of labels: of a list of one that one, any other is noted."""
    if config.whole_labels:
        return row
    cells = list(row)
    votes = range(len(MANIFEST_COLUMNS), len(cells)) if config.annotator_columns else ()
    for at in (1, *votes):
        listed = listed_label(cells[at])
        if listed is None:
            continue
        if len(listed) > 1:
            several.append(str(cells[at]))
        cells[at] = listed[0] if listed else None
    return cells


def _add(found: TableBuilder, row: Sequence[Any], number: int, place: int) -> None:
    name, label, sample_id, _, group = map(text_of, row)
    if name is None:
        found.add("", None, sample_id or f"row {number}", place, group)
    else:
        found.add(name, label or None, sample_id or name, place, group)


def _add_votes(
    found: AnnotatedBuilder, row: Sequence[Any], number: int, place: int, config: DataConfig
) -> None:
    """The labels of a row: one, by the annotator that it names, or one in each of their columns."""
    name, label, sample_id, _, group, *others = map(text_of, row)
    if config.annotator_columns:
        votes = dict(zip(config.annotator_columns, others, strict=True))
    elif others[0] is None and label:
        raise UserError(
            f"{found.path}, row {number:,}: a label without an annotator. Name one in column "
            f"'{config.annotator_column}'."
        )
    else:
        votes = {} if others[0] is None else {others[0]: label or None}
    if name is None:
        found.add_votes("", {}, sample_id or f"row {number}", place, group)
    else:
        found.add_votes(name, votes, sample_id or name, place, group)


def _checked(row: Sequence[Any], number: int, path: Path | str, root: str, may_leave: bool) -> int:
    """The split of a row that names a file where it may, or none."""
    _check_cells(row, number, path)
    name, split = text_of(row[0]), text_of(row[3])
    place = SPLITS.get((split or "").lower())
    if place is None:
        raise UserError(f"{path}, image {number:,}: split '{split}' is not train, val or test.")
    if name is not None and not may_leave:
        check_inside(root, name, f"{path}, image {number:,}")
    elif name is not None and is_url(local_or_url(name)):
        protocol_of(name)
    return place


def _check_cells(row: Sequence[Any], number: int, path: Path | str) -> None:
    """Raise an error for texts that no file of a run can hold."""
    for kind, cell in zip(chain(MANIFEST_COLUMNS, repeat("label")), row, strict=False):
        if isinstance(cell, str):
            check_text(cell, f"{path}, image {number:,}", kind)


def check_text(text: str, where: str, kind: str) -> None:
    """Raise an error for a text that no file of a run can hold, or no folder be called."""
    longest, why = LONGEST_LABEL if kind in ("label", "group") else LONGEST_CELL, ""
    if len(text) > longest:
        why = f"has {len(text):,} characters; at most {longest:,} are allowed"
    elif "\0" in text and kind != "path":  # no file has such a name: it gives no image
        why = f"{clipped(text)!r} holds a NUL character"
    elif not text.isascii() and SURROGATE.search(text):
        why = f"{clipped(text)!r} can't be encoded as UTF-8"
    if why:
        raise UserError(f"{where}: its {kind} {why}.")


def every_column(found: Sequence[str]) -> dict[str, str]:
    """All columns are wanted, those of later rows too."""
    return {name: name for name in found}


def manifest_frames(path: Path) -> Frames:
    """What reads the rows of a manifest, by the end of its name."""
    readers = {".jsonl": _json_frames, ".ndjson": _json_frames, ".parquet": _parquet_frames}
    return readers.get(path.suffix.lower(), _csv_frames)


def frames_of(
    path: Path, config: DataConfig, needed: Sequence[str], frames: Frames
) -> Iterator[pandas.DataFrame]:
    """The rows of a manifest, some at a time, with the columns path, label, id, split, group.

    Behind them come those of annotators, if there are any. Cells are as they are there, and none or
    NaN where there is nothing.
    """

    def find(found: Sequence[str]) -> dict[str, str]:
        people = annotator_columns(found, config, path)
        chosen = columns_of(found, config, path, needed)
        return chosen | {f"annotator {name}": name for name in people}

    columns: dict[str, str] = {}
    for frame in frames(path, find):
        columns = columns or find(list(frame.columns))
        kinds = [*MANIFEST_COLUMNS, *(kind for kind in columns if kind not in MANIFEST_COLUMNS)]
        names = [columns.get(kind, f"no {kind}") for kind in kinds]
        yield frame.reindex(columns=names).set_axis(kinds, axis="columns")


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
    """Which columns hold path, label, id, split and group; those not needed may be missing."""
    lower = {name.strip().lower(): name for name in reversed(found)}
    chosen = {}
    for kind, known in MANIFEST_COLUMNS.items():
        wanted = getattr(config, f"{kind}_column", None)
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
                f"{clipped(', '.join(found), LONGEST_LIST)}).{near if 'mean' in near else ''} "
                "Name it: "
                f"--{kind}-column COLUMN. The first line must hold the names of the columns."
            )
    return chosen


def _csv_frames(path: Path, find: Find) -> Iterator[pandas.DataFrame]:
    import pandas

    with regular(path).open(encoding="utf-8-sig") as file:
        first = file.readline()
    tabs = path.suffix.lower() == ".tsv" or ("\t" in first and not {",", ";"} & set(first))
    comma = "\t" if tabs else ";" if "," not in first else ","
    options = {"sep": comma, "dtype": object, "keep_default_na": False, "encoding": "utf-8-sig"}
    try:
        columns = find(list(pandas.read_csv(regular(path), nrows=0, **options).columns))
    except pandas.errors.EmptyDataError:
        raise UserError(f"{path} is empty.") from None
    # Only these: a comma too many behind them does no harm.
    wanted = set(columns.values())
    with pandas.read_csv(regular(path), usecols=wanted, chunksize=CHUNK, **options) as frames:
        yield from frames


def _json_frames(path: Path, find: Find) -> Iterator[pandas.DataFrame]:
    with regular(path).open(encoding="utf-8-sig") as file:
        lines = ((number, line) for number, line in enumerate(file, start=1) if line.strip())
        names: dict[str, None] = {}
        while rows := [_object(number, line) for number, line in islice(lines, CHUNK)]:
            if find is every_column:
                names |= dict.fromkeys(name for row in rows for name in row)
            names = names or dict.fromkeys(rows[0])  # whatever others say besides
            yield _frame(rows, list(find(list(names)).values()))


def _object(number: int, line: str) -> dict[str, Any]:
    try:
        found = parse_json(line)
    except ValueError as error:
        raise ValueError(f"line {number}: {error}") from None
    if not isinstance(found, dict):
        kind = type(found).__name__
        raise ValueError(f"line {number}: a row is a {kind}, not an object with keys")
    return found


def _parquet_frames(path: Path, find: Find) -> Iterator[pandas.DataFrame]:
    parquet = library("pyarrow.parquet", "parquet", f"{path} is a parquet file")
    with parquet.ParquetFile(regular(path)) as file:
        columns = list(find(file.schema_arrow.names).values())
        for batch in file.iter_batches(rows_at_once(path, file, columns, CHUNK), columns=columns):
            yield _frame(batch.to_pylist(), columns)


def frame_of(rows: list[dict[str, Any]], find: Find) -> pandas.DataFrame:
    """The wanted columns of objects, whose keys may differ."""
    names = dict.fromkeys(name for row in rows for name in row)
    return _frame(rows, list(find(list(names)).values()))


def _frame(rows: list[dict[str, Any]], columns: Collection[str]) -> pandas.DataFrame:
    """What objects say of some columns; whole numbers beside missing ones stay whole."""
    for name in columns:
        if re.search("[\ud800-\udfff]", name):
            raise UserError(f"A column is called {name!a}, which is not valid UTF-8. Rename it.")
    import pandas

    return pandas.DataFrame(rows, columns=list(dict.fromkeys(columns)), dtype=object)
