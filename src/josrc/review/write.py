"""Files that a corrected data set is written to: a manifest, a label file, or class folders."""

from __future__ import annotations

import csv
import os
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from josrc._io import atomic_write
from josrc._reading import regular
from josrc.data.images import Images
from josrc.data.readers.table import SPLITS
from josrc.data.source import Source
from josrc.errors import UserError
from josrc.review.corrected import ApplyTally, CorrectedSample
from josrc.review.replacement import check_below, check_originals, replacing

LinkMode = Literal["copy", "hard", "sym"]


def write_labels(
    out: Path, source: Source, samples: Sequence[CorrectedSample], tally: ApplyTally
) -> None:
    """A CSV with ``id`` and ``label`` for ``--noise-file``: data known by name has no paths."""
    moved = sum(s.row >= len(source) and s.label != s.given for s in samples)
    for count, what in ((tally.of("remove"), "are removed"), (moved, "are held out of training")):
        if count:
            raise UserError(
                f"{source.name} is not stored in files that a manifest could name, so {out} "
                "would be a file of labels, one for every training sample. It can't express that "
                f"{count:,} samples {what}. Write the images: --copy --out FOLDER."
            )
    with atomic_write(out) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "label"])
        writer.writerows((s.row, s.label) for s in samples if s.row < len(source))


def write_folder(
    out: Path, source: Source, samples: Sequence[CorrectedSample], link: LinkMode, overwrite: bool
) -> None:
    """Class folders with the images; ``train``, ``val`` and ``test`` around them where needed."""
    check_linked(source, link)
    check_originals(out, source)
    for name in source.closed_names:
        if not _is_folder_name(name):
            raise UserError(f"A folder can't be called {name!r}. Write a manifest: --out FILE.csv.")
    with replacing(out, overwrite) as new:
        _fill(new, source, samples, link)


def check_linked(source: Source, link: LinkMode) -> None:
    """Raise an error if images are to be linked that are no files of this machine."""
    val = None if source.val is None else source.val.images
    parts = [source.images, val, source.test_images]
    if link != "copy" and not all(part.has_files for part in parts if part is not None):
        raise UserError(f"The images of {source.name} lie in no files to link to: --copy.")


def _is_folder_name(name: str) -> bool:
    """Whether a class can be the name of a folder, which is not hidden and lies nowhere else."""
    return (
        name not in ("", ".", "..")
        and name[0] != "."
        and not set(name) & {"/", os.sep, os.altsep, "\0"}
        and len(os.fsencode(name)) <= 255
    )


def _fill(folder: Path, source: Source, samples: Sequence[CorrectedSample], link: LinkMode) -> None:
    images, labels = source.test_images, source.test_labels
    # Classes called train or test would be taken for parts of a data set: they need one, too.
    parted = all(name.lower() in SPLITS for name in source.closed_names)
    parted = parted or source.val is not None or images is not None
    places = Places(folder)
    for sample in samples:
        part, index = source.at(sample.row)
        top = folder / ("train" if part is source else "val") if parted else folder
        name = name_of(part.images, index, sample.row)
        put_image(part.images, index, places.free(top / sample.label, name), link)
    if images is None or labels is None:
        return
    for index, label in enumerate(labels.tolist()):
        top = folder / "test" / source.class_names[label]
        put_image(images, index, places.free(top, name_of(images, index, index)), link)


def name_of(images: Images, index: int, number: int) -> str:
    """What an image's file is called; those that lie in none get a number."""
    return images.file_name(index) if images.has_paths else f"{number}.png"


def put_image(images: Images, index: int, path: Path, link: LinkMode) -> None:
    """Put an image to a path, by its file where it has one."""
    if not images.has_paths:
        images.picture(index).save(path, "PNG")
        return
    content = images.content(index)
    if isinstance(content, bytes):
        path.write_bytes(content)
        return
    original = Path(content).absolute()
    if link == "copy":
        shutil.copyfile(regular(original), path)
    elif link == "hard":
        path.hardlink_to(original.resolve())
    else:
        path.symlink_to(original)


class Places:
    """Paths for images below a folder, none of them given twice."""

    def __init__(self, top: Path) -> None:
        self.top, self.taken, self.folders = top, Counter[Path](), set[Path]()

    def free(self, folder: Path, name: str) -> Path:
        """A path for an image: files of one name may come from many folders."""
        if name.startswith("."):
            name = f"_{name}"  # hidden files are not images for a reader of folders
        stem, suffix = os.path.splitext(name)  # noqa: PTH122
        path, taken = folder / name, self.taken
        while taken[path]:
            taken[folder / name] += 1
            path = folder / f"{stem}-{taken[folder / name]}{suffix}"
        taken[path] += 1
        if folder not in self.folders:
            check_below(self.top, folder)
            folder.mkdir(parents=True, exist_ok=True)
            self.folders.add(folder)
        return path
