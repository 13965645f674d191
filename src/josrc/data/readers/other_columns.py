"""What a manifest says of its images besides path, label, id and split: kept, and handed on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from josrc._io import located
from josrc.config import DataConfig, DataKind
from josrc.data.readers import coco, label_studio
from josrc.data.readers.manifest import Frames, columns_of, every_column, manifest_frames, text_of
from josrc.data.readers.places import home_of
from josrc.data.readers.shards import ShardFrames
from josrc.data.remote import local_copy

# A manifest needs none of these to be read for its other columns.
USED = ("path", "label", "id", "split")


@dataclass(frozen=True)
class OtherColumns:
    """The cells that josrc has no use for, of every image by its id.

    Attributes:
        names: of the columns, in their order.
        ids: of the rows, in their order.
        locations: where the image of each row lies.
        cells: of each row one per column, as they are there.
    """

    names: Sequence[str] = ()
    ids: Sequence[str] = field(default=(), repr=False)
    locations: Sequence[str] = field(default=(), repr=False)
    cells: Sequence[tuple[Any, ...]] = field(default=(), repr=False)

    def of(self, sample_id: str) -> Mapping[str, Any]:
        """The cells of a sample; none where its row is not there any more."""
        return self._row(self._by_id.get(sample_id))

    def at(self, location: str) -> tuple[str, Mapping[str, Any]]:
        """The id and the cells of the image that lies somewhere."""
        row = self._by_location.get(location)
        return ("" if row is None else self.ids[row]), self._row(row)

    def _row(self, row: int | None) -> Mapping[str, Any]:
        # Names that came later have no cell in the rows before.
        return {} if row is None else dict(zip(self.names, self.cells[row], strict=False))

    @cached_property
    def _by_id(self) -> dict[str, int]:
        # Several rows may be of one image, a label by each annotator: the first one speaks for it.
        return {name: row for row, name in reversed(list(enumerate(self.ids)))}

    @cached_property
    def _by_location(self) -> dict[str, int]:
        return {name: row for row, name in reversed(list(enumerate(self.locations)))}


def frames_for(config: DataConfig) -> Frames | None:
    """What reads the rows of a list of images; none for data that is no such list."""
    readers: dict[DataKind, Frames] = {
        DataKind.LABEL_STUDIO: label_studio.frames,
        DataKind.COCO: coco.frames,
    }
    if config.kind is DataKind.MANIFEST:
        return manifest_frames(Path(config.place))
    if config.kind is DataKind.SHARDS:
        return ShardFrames(config)
    return readers.get(config.kind)


def other_columns(config: DataConfig) -> OtherColumns:
    """All cells of a list of images that are not its path, label, id or split."""
    there = config.path is None or config.path.exists()
    frames = frames_for(config) if there else None
    if isinstance(frames, ShardFrames):
        return _other_cells(Path(config.place), frames.config, frames)
    if frames is None:
        return OtherColumns()
    with local_copy(config.place) as path:
        return _other_cells(path, config, frames) if path.is_file() else OtherColumns()


def _other_cells(path: Path, config: DataConfig, frames: Frames) -> OtherColumns:
    root = home_of(config.place)
    names: list[str] = []
    rows: list[tuple[str, str, tuple[Any, ...]]] = []
    for frame in frames(path, every_column):
        columns = list(map(str, frame.columns))
        # Under a column of labels per annotator nothing is called label.
        used = columns_of(columns, config, path, ("path",))
        taken = {used.get(kind) for kind in USED}
        kept = [n for n in columns if n not in taken and not n.startswith("Unnamed: ")]
        names += [name for name in kept if name not in names]
        cells = frame.reindex(columns=names).itertuples(index=False, name=None)
        for file, sample_id, line in zip(*_path_and_id(frame, used), cells, strict=True):
            name = text_of(file) or ""
            rows.append((text_of(sample_id) or name, located(root, name), tuple(map(_cell, line))))
    ids, locations, lines = zip(*rows, strict=True) if rows else ((), (), ())
    return OtherColumns(names, ids, locations, lines)


def _cell(cell: Any) -> Any:
    """A cell as it is, or none where there is nothing."""
    return None if isinstance(cell, float) and math.isnan(cell) else cell


def _path_and_id(frame: Any, used: Mapping[str, str]) -> tuple[Any, Any]:
    empty = [None] * len(frame)
    return frame[used["path"]], frame[used["id"]] if "id" in used else empty
