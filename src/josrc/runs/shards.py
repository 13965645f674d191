"""Shards: features of some thousand images in a parquet file each, made by any worker.

A shard is whole or not there. So whatever is killed, the next start computes the shards that are
missing, and none of the others.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import torch
from numpy.typing import NDArray

from josrc._io import PARTIAL, readable, write_text
from josrc._reading import read_json, regular
from josrc.config import ModelConfig
from josrc.data.duplicates import MARK_BYTES, Marks, marks_of
from josrc.data.feature_file import Features
from josrc.data.image_files import ImageFiles
from josrc.data.images import ArrayImages, Images, ImageSpec
from josrc.data.near.sketches import SKETCH_BYTES, Sketches, sketches_of
from josrc.data.packed_strings import PackedStrings
from josrc.data.parquet_rows import rows_at_once
from josrc.data.prepare import IMAGES_PER_GROUP
from josrc.data.workers import DecodingPool, Faults
from josrc.errors import UserError
from josrc.models.factory import Classifier
from josrc.runs.features import MOST, TileExtractor, network_for

# Images of a shard. What a network sees at a time lies in one shard, if MOST divides this.
SHARD_SIZE = 4096
TRAIN = "train"
FEATURES, MARK, SKETCH, FAULT = "features", "mark", "sketch", "fault"


class Shard(NamedTuple):
    """Some images that follow one another.

    Attributes:
        part: the part of the data that they are of.
        begin: the number of the first.
        end: the number after the last.
    """

    part: str
    begin: int
    end: int


@dataclass(frozen=True)
class ShardWork:
    """How shards are made, and where they go.

    Attributes:
        folder: their folder, absolute.
        model: the network that makes features.
        spec: of the images.
        device: what the network computes on.
        workers: processes that decode for it; 0: none but itself.
        here: where paths of images count from, if they are not absolute.
    """

    folder: Path
    model: ModelConfig
    spec: ImageSpec
    device: str
    workers: int
    here: str

    def path(self, shard: Shard) -> Path:
        """Where a shard lies."""
        return self.folder / f"{shard.part}-{shard.begin:010}.parquet"

    def begin(self, made_of: Mapping[str, Any]) -> None:
        """Keep the shards that are there if they are made of the same, else none of them."""
        origin = self.folder / "origin.json"
        known = None
        with suppress(UserError):
            known = read_json(origin) if origin.is_file() else None
        if known != json.loads(json.dumps(made_of)):
            shutil.rmtree(self.folder, ignore_errors=True)
            write_text(origin, json.dumps(made_of))
        for left in self.folder.glob(f"*{PARTIAL}"):
            left.unlink(missing_ok=True)

    def make(self, shard: Shard, ids: Sequence[str], images: Images) -> int:
        """Write a shard; returns how many images it has.

        Args:
            shard: which.
            ids: what its images are called.
            images: these alone.
        """
        with suppress(OSError):  # another machine of the cluster may not have that folder
            os.chdir(self.here)
        found = self._found(shard, images)
        self._write(self.path(shard), ids, found)
        return len(images)

    def _found(self, shard: Shard, images: Images) -> Found:
        extractor = None
        if shard.part == TRAIN:
            network = _network(self.model.model_dump_json(), self.spec.channels, self.device)
            rows = np.zeros((len(images), network.num_features), dtype=np.float16)
            device = torch.device(self.device)
            extractor = TileExtractor(rows, 0, network, self.spec, self.model, device)
        if isinstance(images, ArrayImages):
            assert extractor is not None
            numbers = np.arange(len(images))
            extractor.look(numbers, images.pixels, np.ones(len(images), dtype=bool))
            extractor.sound()
            return Found(extractor.rows)
        assert isinstance(images, ImageFiles)
        return _read(images, extractor, self.workers)

    def _write(self, path: Path, ids: Sequence[str], found: Found) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        faults = dict(found.faults)
        columns: dict[str, Any] = {
            "id": pa.array(map(_as_text, ids), pa.string()),
            FAULT: pa.array(map(faults.get, range(len(ids))), pa.string()),
        }
        if found.features is not None:
            flat = pa.array(found.features.reshape(-1))
            width = found.features.shape[1]
            columns[FEATURES] = pa.FixedSizeListArray.from_arrays(flat, width)
        if found.marks is not None:
            blocks = ((MARK, found.marks, MARK_BYTES), (SKETCH, found.sketches, SKETCH_BYTES))
            for name, block, size in blocks:
                buffers = [None, pa.py_buffer(block)]
                columns[name] = pa.Array.from_buffers(pa.binary(size), len(ids), buffers)
        # A worker that was taken for dead may still be writing the same shard.
        partial = path.with_name(f".{path.name}.{uuid4().hex}{PARTIAL}")
        try:
            with partial.open("wb") as file:
                parquet.write_table(pa.table(columns), file, compression="zstd")
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


@dataclass(frozen=True)
class Found:
    """What was found out about the images of a shard.

    Attributes:
        features: ``(n, width)``; none of images that no verdict is on.
        marks: of their files, one behind the other; none of images in memory.
        sketches: likewise.
        faults: what gave no image.
    """

    features: Features | None
    marks: bytes | None = None
    sketches: bytes = b""
    faults: Faults = field(default_factory=list)


def _read(images: ImageFiles, extractor: TileExtractor | None, workers: int) -> Found:
    """Decode the images of a shard."""
    pool = DecodingPool(images, workers, IMAGES_PER_GROUP, keep=extractor is not None, marked=True)
    groups = [
        np.arange(s, min(s + IMAGES_PER_GROUP, len(images)))
        for s in range(0, len(images), IMAGES_PER_GROUP)
    ]
    marks, sketches, faults = bytearray(), bytearray(), list[tuple[int, str]]()
    for group, decoded in zip(groups, pool.decode(groups), strict=True):
        marks += decoded.marks
        sketches += decoded.sketches
        faults += decoded.faults
        if extractor is not None:
            sound = ~np.isin(group, [place for place, _ in decoded.faults])
            extractor.look(group, decoded.tiles.numpy(), sound)
    if extractor is not None:
        extractor.sound()
    features = None if extractor is None else extractor.rows
    return Found(features, bytes(marks), bytes(sketches), faults)


@lru_cache(maxsize=1)
def _network(model: str, channels: int, device: str) -> Classifier:
    """The network of a worker, which makes many shards."""
    return network_for(ModelConfig.model_validate_json(model), channels).to(device)


def _as_text(name: str) -> str:
    """A name as UTF-8: that of a file may be none."""
    return os.fsencode(name).decode("utf-8", "replace")


def shards_of(part: str, images: int, size: int) -> list[Shard]:
    """The shards of a part of the data."""
    return [Shard(part, begin, min(begin + size, images)) for begin in range(0, images, size)]


def check_size(size: int) -> None:
    """Raise an error if features would depend on where shards end."""
    if size < MOST or size % MOST:
        raise UserError(f"--shard-size {size}: a shard has {MOST} images, or a multiple of that.")


def digest_of(names: Iterable[str]) -> str:
    """Tells whether images are the same."""
    return (names if isinstance(names, PackedStrings) else PackedStrings.of(names)).digest()


def read_findings(paths: Sequence[Path]) -> tuple[Marks, Sketches, Faults]:
    """What shards of a part say of its files, in their order."""
    import pyarrow as pa

    marks, sketches, faults = bytearray(), bytearray(), list[tuple[int, str]]()
    seen = 0
    kinds = {MARK: pa.binary(MARK_BYTES), SKETCH: pa.binary(SKETCH_BYTES), FAULT: pa.string()}
    for path in paths:
        with readable(path):
            table = _columns_of(path, kinds)
            for name, block in ((MARK, marks), (SKETCH, sketches)):
                for chunk in table[name].chunks:
                    size = chunk.type.byte_width
                    begin = chunk.offset * size
                    block += chunk.buffers()[1][begin : begin + size * len(chunk)]
            reasons = table[FAULT].to_pylist()
        faults += [(seen + place, why) for place, why in enumerate(reasons) if why is not None]
        seen += len(reasons)
    return marks_of(marks), sketches_of(sketches), faults


def read_features(path: Path, width: int) -> Features:
    """The features of the images of a shard that gave one, ``(n, width)``."""
    import pyarrow as pa

    kinds = {FEATURES: pa.list_(pa.float16(), width), FAULT: pa.string()}
    with readable(path):
        table = _columns_of(path, kinds)
        flat = table[FEATURES].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        rows: Features = flat.reshape(len(table), -1)
        sound: NDArray[np.bool_] = table[FAULT].is_null().to_numpy()
        return rows[sound]


def _columns_of(path: Path, kinds: Mapping[str, Any]) -> Any:
    """Columns of a shard, which hold what a worker has written."""
    from pyarrow import parquet

    with parquet.ParquetFile(regular(path)) as file:
        for name, kind in kinds.items():
            found = file.schema_arrow.field(name).type
            if found != kind:
                raise ValueError(f"{name} holds {found}, not {kind}")
        count = file.metadata.num_rows
        if rows_at_once(path, file, [FAULT], count) < count:
            raise ValueError("its reasons are too long")
        table = file.read(columns=list(kinds)).combine_chunks()
    missing = [name for name in kinds if name != FAULT and table[name].null_count]
    if missing:
        raise ValueError(f"{missing[0]} is missing in some rows")
    return table
