"""The features of many images in one file: safetensors, written part by part, read as needed.

The file has its whole size from the start and its header first. So rows go where they belong as
they come, memory stays bounded, and an extraction that was stopped goes on where it ended.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from josrc._io import partial_of, readable, write_text
from josrc._reading import parse_json, read_json, regular
from josrc.data.packed_strings import Index, PackedStrings, read_strings
from josrc.errors import UserError

METADATA = "josrc"
Features = NDArray[np.float16]
# Bytes of a header: it names a few arrays.
MAX_HEADER_BYTES = 2**24
# Rows that are copied at a time.
ROWS_PER_CHUNK = 2**14
# The largest of given features, as they are kept: squares of many can be added up. And how far they
# lie apart at least.
LARGEST, LEAST = 1024.0, 1e-300


class FeatureWriter:
    """Features of samples in the order of their ids, of which some may have been there before.

    Attributes:
        rows: the features, ``(N, width)``; a part of the file.
        done: how many rows are there.
    """

    def __init__(
        self, path: Path, ids: Sequence[str], width: int, origin: Mapping[str, Any]
    ) -> None:
        """Begin a file, or go on with one that was begun for the same samples.

        Args:
            path: of the file when it is complete.
            ids: what the samples are called.
            width: features of each.
            origin: what the features are of; another origin starts over.
        """
        self.path, self.partial = path, partial_of(path)
        self.progress = path.with_name(f"{path.name}.progress.json")
        self.ids = ids if isinstance(ids, PackedStrings) else PackedStrings.of(ids)
        self.origin = dict(origin)
        self._made_of = {"origin": self.origin, "width": width, "ids": self.ids.digest()}
        header, places = _header(self.ids, width, self.origin)
        self.done = self._known() or self._complete()
        if not self.done:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.progress.unlink(missing_ok=True)  # it is of what others have written
            with self.partial.open("wb") as file:
                file.write(header)
                file.write(self.ids.ends.astype("<i8").tobytes())
                file.seek(places["ids"])
                file.write(self.ids.block)
                file.truncate(places["ids"] + len(self.ids.block))
        shape = (len(self.ids), width)
        self.rows: Features = np.memmap(self.partial, "<f2", "r+", places["features"], shape)

    def _known(self) -> int:
        """Rows that an earlier process has written, if it wrote the same."""
        if not self.partial.is_file() or not self.progress.is_file():
            return 0
        try:
            noted = read_json(self.progress)
        except UserError:
            return 0
        same = {key: noted.get(key) for key in self._made_of} == self._made_of
        return int(noted["done"]) if same else 0

    def _complete(self) -> int:
        """All rows, if an earlier process that was stopped later has written the same."""
        if not self.path.is_file():
            return 0
        try:
            there = {
                "origin": origin_of(self.path),
                "width": open_features(self.path).shape[1],
                "ids": read_ids(self.path).digest(),
            }
        except UserError:
            return 0
        if there != self._made_of:
            return 0
        write_text(self.progress, json.dumps({**self._made_of, "done": len(self.ids)}))
        self.path.replace(self.partial)
        return len(self.ids)

    def save(self, done: int) -> None:
        """Note that all rows before ``done`` are there."""
        self.rows.flush()  # type: ignore[attr-defined]
        self.done = done
        write_text(self.progress, json.dumps({**self._made_of, "done": done}))

    def finish(self, keep: Index | None = None) -> None:
        """Give the file its name; with ``keep`` only these samples stay."""
        if keep is not None and len(keep) < len(self.ids):
            width = self.rows.shape[1]
            kept = self.path.with_name(f"{self.path.name}.kept")
            fewer = FeatureWriter(kept, self.ids.take(keep), width, self.origin)
            for begin in range(0, len(keep), ROWS_PER_CHUNK):
                fewer.rows[begin : begin + ROWS_PER_CHUNK] = self.rows[
                    keep[begin : begin + ROWS_PER_CHUNK]
                ]
            fewer.finish()
            self.partial.unlink()
            kept.replace(self.path)
        else:
            self.rows.flush()  # type: ignore[attr-defined]
            self.partial.replace(self.path)
        self.progress.unlink(missing_ok=True)


def write_scaled(rows: Features, features: NDArray[Any]) -> None:
    """Write features of any size as float16: from the middle of each, all by one factor.

    Neither changes what they say of each other, and numbers beyond 65,504 or far from 0 fit.
    Those that are float16 stay as they are.
    """
    if features.dtype == np.float16:
        rows[:] = features
        return
    low = features.min(axis=0).astype(np.float64)
    high = features.max(axis=0).astype(np.float64)
    middle = low / 2 + high / 2
    factor = LARGEST / max(float((high / 2 - low / 2).max()), LEAST)
    for begin in range(0, len(rows), ROWS_PER_CHUNK):
        part = features[begin : begin + ROWS_PER_CHUNK]
        rows[begin : begin + ROWS_PER_CHUNK] = (part - middle) * factor


def _header(
    ids: PackedStrings, width: int, origin: Mapping[str, Any]
) -> tuple[bytes, dict[str, int]]:
    """How the file begins, and at which bytes its tensors do; the widest numbers come first."""
    count = len(ids)
    table: dict[str, Any] = {"__metadata__": {METADATA: json.dumps(dict(origin))}}
    begin, places = 0, {}
    for name, kind, shape, size in (
        ("id_ends", "I64", [count], 8 * count),
        ("features", "F16", [count, width], 2 * count * width),
        ("ids", "U8", [len(ids.block)], len(ids.block)),
    ):
        table[name] = {"dtype": kind, "shape": shape, "data_offsets": [begin, begin + size]}
        places[name] = begin
        begin += size
    text = json.dumps(table).encode()
    text += b" " * (-len(text) % 8)
    start = 8 + len(text)
    places = {name: start + place for name, place in places.items()}
    return len(text).to_bytes(8, "little") + text, places


def open_features(path: Path) -> Features:
    """The features of a file, ``(N, width)``, as a part of it: nothing is read until it is used."""
    table, begin = _read_header(path)
    with readable(path):
        place = begin + table["features"]["data_offsets"][0]
        count, width = table["features"]["shape"]
        return np.memmap(regular(path), "<f2", "r", place, (count, width))


def read_ids(path: Path) -> PackedStrings:
    """What the samples of a file are called."""
    table, begin = _read_header(path)
    with readable(path), regular(path).open("rb") as file:

        def read(name: str, kind: str) -> NDArray[Any]:
            first, last = table[name]["data_offsets"]
            file.seek(begin + first)
            return np.frombuffer(file.read(last - first), kind)

        arrays = {"ids": read("ids", "u1"), "ids_ends": read("id_ends", "<i8")}
    return read_strings(path, arrays, "ids")


def origin_of(path: Path) -> dict[str, Any]:
    """What the features of a file are of."""
    with readable(path):
        found: dict[str, Any] = parse_json(_read_header(path)[0]["__metadata__"][METADATA])
        return found


def _read_header(path: Path) -> tuple[dict[str, Any], int]:
    """What a file says of its tensors, and the byte at which the first of them begins."""
    with readable(path), regular(path).open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > MAX_HEADER_BYTES:
            raise ValueError("it does not start like a safetensors file")
        return parse_json(file.read(length)), 8 + length
