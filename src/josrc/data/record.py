"""What a run remembers of its samples, and what has become of them since.

Images in files come and go. A run keeps what each of its samples is called, where it lay and which
label it had, so that whatever was found out about it can be told and used later.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from josrc.data.files import ImageFiles, Index, Strings
from josrc.data.source import Source
from josrc.data.table import TEST, TRAIN, VAL, Table
from josrc.files import UNREADABLE, readable, replacing

# Names that are told of many.
EXAMPLES = 3


def write_record(path: Path, source: Source) -> None:
    """Write what the training and held-out samples of a run are; their images lie in files."""
    parts = [source] if source.val is None else [source, source.val]
    texts: dict[str, Iterable[str]] = {
        "ids": chain.from_iterable(part.ids for part in parts),
        "names": chain.from_iterable(_names(part) for part in parts),
        "classes": source.closed_names,
    }
    arrays: dict[str, Any] = {
        "labels": np.concatenate([part.given for part in parts]),
        "split": np.repeat([TRAIN, VAL][: len(parts)], [len(part) for part in parts]),
    }
    for key, strings in texts.items():
        kept = Strings.of(strings)
        arrays |= {key: np.frombuffer(kept.block, np.uint8), f"{key}_ends": kept.ends}
    with replacing(path) as partial, partial.open("wb") as file:
        np.savez_compressed(file, **arrays)


def _names(source: Source) -> Iterable[str]:
    """Paths below the folder or manifest that a run names; a list of paths has no such place."""
    assert source.files is not None
    return source.files.names if Path(source.name).is_absolute() else source.paths


def read_record(path: Path, root: Path) -> Table:
    """The samples of a run, training samples first; their paths begin at ``root``."""
    with (
        readable(path, "can't be read", UNREADABLE),
        path.open("rb") as file,
        np.load(file, allow_pickle=False) as arrays,
    ):
        ids, names, classes = (
            Strings(arrays[key].tobytes(), arrays[f"{key}_ends"])
            for key in ("ids", "names", "classes")
        )
        labels, split = arrays["labels"], arrays["split"]
    return Table(ImageFiles(names, root), labels, list(classes), ids, split)


@dataclass(frozen=True)
class Changes:
    """How the data differs from the samples that a run was trained on.

    Attributes:
        gone: samples that are not there any more, by their numbers.
        new: ids of images that the run does not know.
        names: ids of all samples.
        relabelled: how many samples have another label there now.
    """

    gone: Index
    new: list[str]
    names: Strings
    relabelled: int = 0

    def __bool__(self) -> bool:
        return bool(len(self.gone) or self.new or self.relabelled)

    @property
    def all_gone(self) -> bool:
        """Whether not a single sample is left."""
        return len(self.gone) == len(self.names) > 0

    def told(self) -> str:
        """How many are gone, new and called otherwise since the training, with a few names."""
        gone = [self.names[int(row)] for row in self.gone[:EXAMPLES]]
        parts = [
            f"{count:,} {'image is' if count == 1 else 'images are'} {what} ({_some(names, count)})"
            for what, count, names in (
                ("gone", len(self.gone), gone),
                ("new", len(self.new), self.new[:EXAMPLES]),
            )
            if count
        ]
        if self.relabelled:
            has = "image has" if self.relabelled == 1 else "images have"
            parts.append(f"{self.relabelled:,} {has} got another label, which the run does not use")
        return f"Since the training {' and '.join(parts)}."


def _some(names: list[str], count: int) -> str:
    return ", ".join(names) + (", ..." if count > len(names) else "")


def compare(
    table: Table, present: Table | None, skipped: Collection[str], labelled: bool = False
) -> tuple[Table, Changes]:
    """A run's samples with the paths they have now, and what has changed.

    Args:
        table: the samples, from the run's folder.
        present: what is there now, by the same ids; none where only the files can be looked for.
        skipped: files that gave no image when the run began, and are not new.
        labelled: the run was trained on the labels that the data had, so that others are told.
    """
    files = table.images
    assert isinstance(files, ImageFiles)
    if present is None:
        return table, Changes(_missing(files), [], table.ids)
    now = present.images
    assert isinstance(now, ImageFiles)
    found = table.ids.found_in(present.ids)
    names = (now.names[p] if p >= 0 else files.names[i] for i, p in enumerate(found.tolist()))
    files = ImageFiles(Strings.of(names), now.root)
    known = np.zeros(len(present.ids), dtype=bool)
    known[found[found >= 0]] = True
    unknown = np.flatnonzero(~known & (present.labels >= 0) & (present.split != TEST)).tolist()
    new = [present.ids[i] for i in unknown if now.location(i) not in skipped]
    gone = np.union1d(np.flatnonzero(found < 0), _missing(files))
    known_still = (found >= 0) & (present.labels[found] >= 0)
    relabelled = int((relabelled_in(present, table, found) & known_still).sum()) if labelled else 0
    return replace(table, images=files), Changes(gone, new, table.ids, relabelled)


def relabelled_in(present: Table, table: Table, found: Index) -> NDArray[np.bool_]:
    """Which samples of a run are called otherwise where they were found, ``(N,)``."""
    then, now = (np.array([*each.class_names, ""]) for each in (table, present))
    return np.asarray(then[table.labels] != now[present.labels[found]])


def _missing(files: ImageFiles) -> Index:
    """Images whose files are not there."""
    missing = [i for i in range(len(files)) if not os.path.exists(files.location(i))]  # noqa: PTH110
    return np.array(missing, dtype=np.int64)


def with_tests(source: Source, present: Table, skipped: Collection[str]) -> Source:
    """A source with the test images that lie beside its samples, if there are any."""
    files, place = present.images, {name: label for label, name in enumerate(source.class_names)}
    assert isinstance(files, ImageFiles)
    number = np.array([place.get(name, -1) for name in present.class_names] + [-1])[present.labels]
    tests = np.flatnonzero((present.split == TEST) & (number >= 0)).tolist()
    sound = np.array([i for i in tests if files.location(i) not in skipped], dtype=np.int64)
    if not sound.size:
        return source
    images = files.take(sound).with_tile(source.images.shape[1])
    return replace(source, test_images=images, test_labels=number[sound])
