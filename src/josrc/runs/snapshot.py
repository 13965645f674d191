"""What a run remembers of its samples, where they are now, and what has become of them.

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

from josrc._io import UNREADABLE, readable, replacing, seen_from
from josrc.config import RunConfig
from josrc.data.image_files import ImageFiles
from josrc.data.packed_strings import Index, Strings
from josrc.data.readers import read_table
from josrc.data.readers.arrays import NAME
from josrc.data.readers.manifest import MANIFESTS
from josrc.data.readers.table import TEST, TRAIN, VAL, Table
from josrc.data.source import Source
from josrc.engine.run_folder import RunFolder
from josrc.errors import UserError

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


# --- where it is now -----------------------------------------------------------------------------


def moved(config: RunConfig, data_root: str | Path | None) -> RunConfig:
    """The configuration with the place where the data is now.

    Of own images that is their folder or manifest, or the folder that holds it.
    """
    name = Path(config.data.name)
    if data_root is None and not name.is_absolute():
        return config
    root = None if data_root is None else Path(data_root).expanduser().absolute()
    if root is not None and name.is_absolute():
        if not root.exists():
            raise UserError(f"--data-root {data_root} does not exist.")
        inside = root / name.name
        if root.is_dir() and (_is_manifest(name) or (root.name != name.name and inside.is_dir())):
            root = inside
    data = config.data.model_copy(update={"root": root})
    return config.model_copy(update={"data": data})


def _is_manifest(path: Path) -> bool:
    return path.suffix.lower() in MANIFESTS and not path.is_dir()


def _home(place: str) -> Path:
    """The folder where paths of own images begin."""
    path = Path(place)
    return path.parent if _is_manifest(path) else path


def check_place(config: RunConfig) -> None:
    """Raise an error if own images are not where they were, or are said to be."""
    place = Path(config.data.place)
    if place.is_absolute() and not place.exists():
        raise UserError(f"{place} does not exist. If it has moved: --data-root NEW.")


def skipped_now(folder: RunFolder, config: RunConfig) -> list[str]:
    """Files that gave no image when a run began, where they are now."""
    before, now = _home(config.data.name), _home(config.data.place)
    return [str(now / seen_from(before, path)) for path in folder.read_skipped()]


def present_table(config: RunConfig) -> Table | None:
    """What a run's folder or manifest holds now; none where there is none, or nothing in it."""
    place = Path(config.data.place)
    if not place.is_absolute() or not place.exists():
        return None
    try:
        return read_table(str(place), config.data)
    except UserError:
        if place.is_dir():
            return None
        raise


def remembered(folder: RunFolder, config: RunConfig) -> Table | None:
    """The samples of a run on own images in files; none where its folder does not know them."""
    own = Path(config.data.name).is_absolute()
    if not own and config.data.name != NAME:
        return None
    home = _home(config.data.place)
    if folder.samples.is_file():
        return read_record(folder.samples, home)
    return None


def check_unchanged(folder: RunFolder, config: RunConfig) -> None:
    """Raise an error unless a run's own images are those that it began with."""
    table, present = remembered(folder, config), present_table(config)
    if table is None or present is None:
        return
    changes: Changes = compare(table, present, set(skipped_now(folder, config)))[1]
    begun = f"{folder.path} goes on only with the images and labels it began with"
    if changes:
        raise UserError(f"{changes.told()} {begun}: put them back as they were, or train anew.")
    held = table.split == VAL
    # Labels of training samples come from the run's folder; they are numbers of classes.
    found = table.ids.found_in(present.ids)
    relabelled = int(relabelled_in(present, table, found)[held].sum())
    if relabelled or not set(table.class_names) <= set(present.class_names):
        what = f"{relabelled:,} labels of held-out images" if relabelled else "The classes"
        raise UserError(
            f"{what} in {config.data.place} have changed since the training. {begun}: put them "
            "back as they were, or train anew."
        )
