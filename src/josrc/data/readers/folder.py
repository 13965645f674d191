"""A folder of class folders, and what lies among the images that is no picture."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePath

from josrc.config import DataConfig, DataKind
from josrc.data.readers.table import SPLITS, TRAIN, Reader, Table, TableBuilder
from josrc.errors import UserError, reason

# What only a run folder of josrc has: its pictures are no data.
RUN_FILES = {"config.yaml", "environment.json", "noise.npz"}


class FolderReader(Reader):
    """Class folders, each with the images of one class below it."""

    kind = DataKind.FOLDER

    @staticmethod
    def claims(name: str) -> bool:
        """Any folder."""
        return Path(name).expanduser().is_dir()

    @staticmethod
    def read(config: DataConfig) -> Table:
        """Files in the order of their names."""
        return read_folder(Path(config.place))


def read_folder(root: Path) -> Table:
    """A folder of class folders, or one of ``train``, ``val`` and ``test`` with those inside."""
    folders = _subfolders(root)
    parts = {name: SPLITS[name.lower()] for name in folders if name.lower() in SPLITS}
    split = len(parts) == len(folders) and TRAIN in parts.values()
    found, left_out = TableBuilder(), Counter[str]()
    left_out.update(LOOSE for _ in _loose(root) if split)
    for part, place in parts.items() if split else [("", TRAIN)]:
        left_out.update(LOOSE for _ in _loose(root / part))
        for label in _subfolders(root / part):
            for file in image_files(root / part / label, left_out):
                name = os.path.relpath(file, root)
                found.add(name, label, name, place)
    if not found.numbers:
        raise UserError(
            f"{root} contains no images in class folders: put the images of each class into a "
            f"folder "
            "with its name, or write a manifest (CSV with the columns path and label)."
        )
    return replace(found.table(root.absolute()), left_out=left_out)


def _subfolders(root: Path) -> list[str]:
    return sorted(p.name for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))


def _loose(root: Path) -> Iterator[Path]:
    """What may be pictures and lies beside the class folders, where it has no label."""
    for path in root.iterdir():
        if path.is_file() and not path.name.startswith(".") and not is_sidecar(path.name):
            yield path


def image_files(folder: Path, left_out: Counter[str]) -> Iterator[str]:
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


# --- files that are left out ---------------------------------------------------------------------

# Only what no picture is ever called. A picture that josrc can't read (HEIC, SVG, raw) is told as a
# file that gives no image, and so is whatever has no extension or an unknown one.
KINDS = (
    # annotations, tables, texts
    "json jsonl ndjson geojson txt text xml csv tsv md rst html htm yaml yml toml ini cfg conf log",
    "pdf doc docx xls xlsx ppt pptx odt ods tex",
    # arrays, models, data bases
    "npy npz pkl pickle pt pth onnx safetensors h5 hdf5 mat parquet arrow feather db sqlite",
    # archives and sums
    "zip tar gz tgz bz2 xz 7z rar md5 sha1 sha256",
    # programs and pages
    "py pyc ipynb sh bat js css lnk url",
    # films and sounds
    "mp4 avi mov mkv webm mpg mpeg mp3 wav flac ogg",
)
NO_PICTURES = frozenset(" ".join(KINDS).split())
# Stands among kinds for files beside the class folders; no extension has a slash.
LOOSE = "/"


def is_sidecar(name: str) -> bool:
    """Whether the name of a file says that it is no picture."""
    return kind(name) in NO_PICTURES


def kind(name: str) -> str:
    """The extension of a name, in lower case and without its dot."""
    return PurePath(name).suffix[1:].lower()


def describe_left_out(left_out: Mapping[str, int]) -> list[str]:
    """Sentences on how many files were left out, of which kinds; none if there were none."""
    kinds = {name: count for name, count in left_out.items() if name != LOOSE}
    found = []
    if kinds:
        common = sorted(kinds.items(), key=lambda item: (-item[1], item[0]))
        listed = ", ".join(f"{count:,} .{name}" for name, count in common[:5])
        more = f" and {len(common) - 5} other kinds" if len(common) > 5 else ""
        found.append(f"Ignored, as their names say that they are not pictures: {listed}{more}.")
    if left_out.get(LOOSE):
        found.append(f"Ignored, as they are not in a class folder: {left_out[LOOSE]:,}.")
    return found
