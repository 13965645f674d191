"""What a folder, a manifest or a hub data set says of its images, before any is opened."""

from __future__ import annotations

import csv
import os
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from josrc.config import DataConfig
from josrc.data.files import HubImages, ImageFiles, Index, Strings
from josrc.data.manifest import MANIFESTS, Row, columns_of, library, rows_of, text_of, whole
from josrc.data.noise import Labels
from josrc.data.sidecars import LOOSE, is_sidecar, kind
from josrc.errors import UserError, reason, sentence

TRAIN, VAL, TEST = 0, 1, 2
# What only a run folder of josrc has: its pictures are no data.
RUN_FILES = {"config.yaml", "environment.json", "noise.npz"}
SPLITS = {
    **dict.fromkeys(("", "train", "training"), TRAIN),
    **dict.fromkeys(("val", "valid", "validation", "dev"), VAL),
    **dict.fromkeys(("test", "testing"), TEST),
}
HUB = "hf:"


@dataclass(frozen=True)
class Table:
    """Images with their labels, in the order of their data set.

    Attributes:
        images: where they are, or the pixels themselves.
        labels: the class of each, ``(N,)``; -1 where it has none.
        class_names: the classes in order.
        ids: what each is called; none of them twice.
        split: ``TRAIN``, ``VAL`` or ``TEST``, ``(N,)``.
        verified: as in a source.
        verified_held: likewise.
        left_out: how many files of which kinds lie among them that are no pictures.
    """

    images: ImageFiles | NDArray[np.uint8]
    labels: Labels
    class_names: list[str]
    ids: Strings
    split: Labels
    verified: NDArray[np.int8] | None = None
    verified_held: NDArray[np.int8] | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)

    def images_at(self, index: Index) -> ImageFiles | NDArray[np.uint8]:
        """Some of the images; if it is all of them they are not copied."""
        if len(index) == len(self.ids):
            return self.images
        return (
            self.images.take(index) if isinstance(self.images, ImageFiles) else self.images[index]
        )


def read_table(name: str, config: DataConfig) -> Table:
    """The images of a path or of ``hf:NAME``."""
    path = Path(name)
    if name.startswith(HUB) or _is_saved_dataset(path):
        table = _read_hub(name, config)
    elif path.is_dir():
        table = _read_folder(path)
    elif path.suffix.lower() in MANIFESTS:
        table = _read_manifest(path, config)
    elif not path.exists():
        raise UserError(f"{path} does not exist.")
    else:
        raise UserError(
            f"{path} is neither a folder of class folders nor a manifest ({', '.join(MANIFESTS)})."
        )
    return checked(name, table)


def list_images(paths: Sequence[Path], config: DataConfig) -> tuple[ImageFiles, Mapping[str, int]]:
    """Where the images of files, of folders and of manifests lie, labelled or not, in their order.

    Of a folder it is every file below it but hidden ones and those whose names say that they are no
    pictures; how many of which kinds these are comes second.
    """
    left_out: Counter[str] = Counter()

    def names() -> Iterator[str]:
        for path in paths:
            if not path.exists():
                raise UserError(f"{path} does not exist.")
            if path.is_dir():
                yield from _files(path, left_out)
            elif path.suffix.lower() in MANIFESTS:
                images = _read_manifest(path, config, needed=("path",)).images
                assert isinstance(images, ImageFiles)
                yield from map(images.location, range(len(images)))
            else:
                yield str(path)

    return ImageFiles(Strings.of(names()), Path.cwd()), left_out


def checked(name: str, table: Table) -> Table:
    """A table that holds images, none of them twice."""
    if not len(table.ids):
        raise UserError(f"{name} holds no image.")
    twice = table.ids.duplicate()
    if twice is not None:
        first, second = (place + 1 for place in sorted(twice))
        raise UserError(
            f"{name}: images {first:,} and {second:,} have the same id "
            f"'{table.ids[second - 1]}'. Every image needs one of its own."
        )
    return table


class Builder:
    """Collects rows in little memory."""

    def __init__(self) -> None:
        self.names, self.ids = bytearray(), bytearray()
        self.name_ends, self.id_ends = array("q"), array("q")
        self.labels, self.split = array("q"), array("b")
        self.numbers: dict[str, int] = {}

    def add(self, name: str, label: str | None, sample_id: str, split: int) -> None:
        """One image."""
        self.names += name.encode("utf-8", "surrogateescape")
        self.name_ends.append(len(self.names))
        self.ids += sample_id.encode("utf-8", "surrogateescape")
        self.id_ends.append(len(self.ids))
        self.labels.append(
            self.numbers.setdefault(label, len(self.numbers)) if label is not None else -1
        )
        self.split.append(split)

    def labelled(self) -> tuple[Labels, list[str]]:
        """Labels as numbers of the sorted class names; numbers sort as numbers."""
        found = list(self.numbers)
        whole = all(re.fullmatch("-?[0-9]{1,18}", name) for name in found)
        names = sorted(found, key=int if whole else str)
        place = {name: number for number, name in enumerate(names)}
        translate = np.array([place[name] for name in found] + [-1], dtype=np.int64)
        return translate[np.array(self.labels, dtype=np.int64)], names

    def table(self, root: Path) -> Table:
        """All of them."""
        labels, names = self.labelled()
        paths = Strings(bytes(self.names), np.array(self.name_ends, dtype=np.int64))
        ids = paths
        if self.ids != self.names or self.id_ends != self.name_ends:
            ids = Strings(bytes(self.ids), np.array(self.id_ends, dtype=np.int64))
        split = np.array(self.split, dtype=np.int64)
        return Table(ImageFiles(paths, root), labels, names, ids, split)


# --- folders -------------------------------------------------------------------------------------


def _read_folder(root: Path) -> Table:
    """A folder of class folders, or one of ``train``, ``val`` and ``test`` with those inside."""
    folders = _subfolders(root)
    parts = {name: SPLITS[name.lower()] for name in folders if name.lower() in SPLITS}
    split = len(parts) == len(folders) and TRAIN in parts.values()
    found, left_out = Builder(), Counter[str]()
    left_out.update(LOOSE for _ in _loose(root) if split)
    for part, place in parts.items() if split else [("", TRAIN)]:
        left_out.update(LOOSE for _ in _loose(root / part))
        for label in _subfolders(root / part):
            for file in _files(root / part / label, left_out):
                name = os.path.relpath(file, root)
                found.add(name, label, name, place)
    if not found.numbers:
        raise UserError(
            f"{root} holds no image in class folders: put the images of each class into a folder "
            "that bears its name, or write a manifest (CSV with the columns path and label)."
        )
    return replace(found.table(root.absolute()), left_out=left_out)


def _subfolders(root: Path) -> list[str]:
    return sorted(p.name for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))


def _loose(root: Path) -> Iterator[Path]:
    """What may be pictures and lies beside the class folders, where it has no label."""
    for path in root.iterdir():
        if path.is_file() and not path.name.startswith(".") and not is_sidecar(path.name):
            yield path


def _files(folder: Path, left_out: Counter[str]) -> Iterator[str]:
    """All files below a folder but hidden ones and those of josrc's own runs, in a fixed order.

    Those whose names say that they are no pictures are only counted.
    """

    def refuse(error: OSError) -> None:
        raise UserError(f"{error.filename} can't be read: {reason(error)}")

    for place, folders, files in os.walk(folder, onerror=refuse):
        if set(files) >= RUN_FILES:
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files = sorted(name for name in files if not name.startswith("."))
        left_out.update(kind(name) for name in files if is_sidecar(name))
        yield from (os.path.join(place, name) for name in files if not is_sidecar(name))  # noqa: PTH118


# --- manifests -----------------------------------------------------------------------------------


def _read_manifest(
    path: Path, config: DataConfig, needed: Sequence[str] = ("path", "label")
) -> Table:
    root = path.absolute().parent
    found = Builder()
    try:
        for number, row in enumerate(rows_of(path, config, needed), start=1):
            _add(found, row, number, path, root, config.allow_outside)
    except UserError:  # it says already what is wrong
        raise
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is no UTF-8 text: save it as that ({error}).") from None
    except (OSError, ValueError, csv.Error) as error:
        raise UserError(f"{path} can't be read as a manifest: {reason(error)}") from None
    return found.table(root)


def _add(
    found: Builder, row: Row, number: int, path: Path, root: Path, allow_outside: bool
) -> None:
    name, label, sample_id, split = map(text_of, row)
    place = SPLITS.get((split or "").lower())
    if place is None:
        raise UserError(f"{path}, image {number:,}: split '{split}' is not train, val or test.")
    if name is None:
        found.add("", None, sample_id or f"row {number}", place)
        return
    if not allow_outside and (name.startswith("/") or ".." in name) and _outside(root, name):
        raise UserError(
            f"{path}, image {number:,}: {name} lies outside of {root}. If that is meant: "
            "--allow-outside."
        )
    found.add(name, label or None, sample_id or name, place)


def _outside(root: Path, name: str) -> bool:
    whole = os.path.normpath(os.path.join(root, name))  # noqa: PTH118
    return not whole.startswith(f"{root}{os.sep}")


# --- Hugging Face --------------------------------------------------------------------------------


def _is_saved_dataset(path: Path) -> bool:
    return any((path / name).is_file() for name in ("dataset_dict.json", "dataset_info.json"))


def _read_hub(name: str, config: DataConfig) -> Table:
    """A data set saved by ``save_to_disk``, or one that the library finds by its name."""
    datasets = library("datasets", "hf", f"{name} is a Hugging Face data set")
    try:
        if name.startswith(HUB):
            loaded = datasets.load_dataset(name.removeprefix(HUB))
        else:
            loaded = datasets.load_from_disk(name)
    except Exception as error:  # network, hub and files fail in many ways
        raise UserError(f"{name} can't be loaded: {sentence(error)}") from None
    parts = dict(loaded) if isinstance(loaded, dict) else {"train": loaded}
    found, used = Builder(), []
    kinds: dict[str, str] = {}
    for part, rows in parts.items():
        if part.lower() in SPLITS:
            kinds = kinds or columns_of(rows.column_names, config, name)
            _add_hub_rows(found, rows, part, kinds)
            used.append(rows)
    if not used:
        raise UserError(f"{name} has no split 'train' (it has: {', '.join(parts)}).")
    rows = datasets.concatenate_datasets(used)
    column = kinds["path"]
    if isinstance(rows.features[column], datasets.Image):
        rows = rows.cast_column(column, datasets.Image(decode=False))
    table = found.table(Path())
    index = np.arange(len(table.ids))
    images = HubImages(table.ids, Path(), rows=rows, column=column, index=index)
    return Table(images, table.labels, table.class_names, table.ids, table.split)


def _add_hub_rows(found: Builder, rows: Any, part: str, columns: dict[str, str]) -> None:
    names = getattr(rows.features[columns["label"]], "names", None)
    for number, label in enumerate(map(whole, rows[columns["label"]])):
        text = None if label in (None, -1, "") else str(label)
        if names is not None and text is not None:
            text = str(names[label])
        found.add(f"{part}/{number}", text, f"{part}/{number}", SPLITS[part.lower()])
