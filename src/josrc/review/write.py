"""Files that a corrected data set is written to: a manifest, a label file, or class folders."""

from __future__ import annotations

import csv
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from josrc._io import atomic_write, seen_from, with_path, write_text
from josrc.data.images import Images
from josrc.data.readers.table import SPLITS
from josrc.data.source import Source
from josrc.errors import UserError
from josrc.review.corrected import ApplyTally, CorrectedSample

LinkMode = Literal["copy", "hard", "sym"]
# Lies in every folder that josrc wrote, and is the only leave to replace one.
MARK = ".josrc-apply"


def write_manifest(out: Path, source: Source, samples: Sequence[CorrectedSample]) -> bool:
    """A CSV with ``path``, ``label`` and ``id``; with held-out or test images also ``split``.

    Returns:
        Whether any image lies outside of the manifest's folder.
    """
    columns = 3 if source.val is None and source.test_images is None else 4
    root, outside = out.absolute().parent, False
    with atomic_write(out) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "label", "id", "split"][:columns])
        for location, *line in _manifest_lines(source, samples):
            path = seen_from(root, location)
            outside = outside or os.path.isabs(path)  # noqa: PTH117
            _bearable([path, *line])
            writer.writerow([path, *line][:columns])
    return outside


def _manifest_lines(source: Source, samples: Sequence[CorrectedSample]) -> Iterator[list[str]]:
    for sample in samples:
        part, index = source.at(sample.row)
        split = "train" if part is source else "val"
        yield [part.paths[index], sample.label, sample.id, split]
    images, labels = source.test_images, source.test_labels
    if images is not None and images.has_paths and labels is not None:
        for index, label in enumerate(labels.tolist()):
            yield [images.location(index), source.class_names[label], "", "test"]


def write_labels(
    out: Path, source: Source, samples: Sequence[CorrectedSample], tally: ApplyTally
) -> None:
    """A CSV with ``id`` and ``label`` for ``--noise-file``: data known by name has no paths."""
    moved = sum(s.row >= len(source) and s.label != s.given for s in samples)
    for count, what in ((tally.of("remove"), "are removed"), (moved, "are held out of training")):
        if count:
            raise UserError(
                f"{source.name} lies in no files that a manifest could name, so {out} would be a "
                f"file of labels, one for every training sample. It can't express that {count:,} "
                f"samples {what}. Write the images: --copy --out FOLDER."
            )
    with atomic_write(out) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "label"])
        writer.writerows((s.row, s.label) for s in samples if s.row < len(source))


def write_folder(
    out: Path, source: Source, samples: Sequence[CorrectedSample], link: LinkMode, overwrite: bool
) -> None:
    """Class folders with the images; ``train``, ``val`` and ``test`` around them where needed."""
    if link != "copy" and not source.images.has_paths:
        raise UserError(f"The images of {source.name} lie in no files to link to: --copy.")
    if out.exists() and not (out / MARK).is_file():
        raise UserError(f"{out} was not written by josrc apply. Name another --out.")
    refuse(out, overwrite)
    for name in source.closed_names:
        if name in ("", ".", "..") or name[0] == "." or "/" in name or len(os.fsencode(name)) > 255:
            raise UserError(f"A folder can't be called {name!r}. Write a manifest: --out FILE.csv.")
    partial, old = (out.with_name(f"{out.name}.{end}") for end in ("partial", "old"))
    _discard(partial)
    _discard(old)
    write_text(partial / MARK, "josrc apply may replace this folder.\n")
    with with_path(out):
        _fill(partial, source, samples, link)
    if out.exists():
        out.rename(old)
    partial.rename(out)
    _discard(old)


def _discard(folder: Path) -> None:
    """Delete a folder that josrc wrote; nobody else's."""
    if not folder.exists():
        return
    if not (folder / MARK).is_file():
        raise UserError(f"{folder} was not written by josrc apply. Name another --out.")
    shutil.rmtree(folder)


def _fill(folder: Path, source: Source, samples: Sequence[CorrectedSample], link: LinkMode) -> None:
    images, labels = source.test_images, source.test_labels
    # Classes called train or test would be taken for parts of a data set: they need one, too.
    parted = all(name.lower() in SPLITS for name in source.closed_names)
    parted = parted or source.val is not None or images is not None
    taken: Counter[Path] = Counter()
    for sample in samples:
        part, index = source.at(sample.row)
        top = folder / ("train" if part is source else "val") if parted else folder
        name = _name(part.images, index, sample.row)
        _put(part.images, index, _free(top / sample.label, name, taken), link)
    if images is None or labels is None:
        return
    for index, label in enumerate(labels.tolist()):
        top = folder / "test" / source.class_names[label]
        _put(images, index, _free(top, _name(images, index, index), taken), link)


def _name(images: Images, index: int, number: int) -> str:
    """What an image's file is called; those that lie in none get a number."""
    return Path(images.location(index)).name if images.has_paths else f"{number}.png"


def _put(images: Images, index: int, path: Path, link: LinkMode) -> None:
    """Put an image to a path, by its file where it has one."""
    if not images.has_paths:
        images.picture(index).save(path, "PNG")
        return
    original = Path(images.location(index)).absolute()
    if link == "copy":
        shutil.copyfile(original, path)
    elif link == "hard":
        path.hardlink_to(original.resolve())
    else:
        path.symlink_to(original)


def _free(folder: Path, name: str, taken: Counter[Path]) -> Path:
    """A path for an image: files of one name may come from many folders."""
    if name.startswith("."):
        name = f"_{name}"  # hidden files are no images for a reader of folders
    stem, suffix = os.path.splitext(name)  # noqa: PTH122
    path = folder / name
    while taken[path]:
        taken[folder / name] += 1
        path = folder / f"{stem}-{taken[folder / name]}{suffix}"
    taken[path] += 1
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def refuse(out: Path, overwrite: bool) -> None:
    """Raise an error if something is there that nobody has given leave to replace."""
    if out.exists() and not overwrite:
        raise UserError(f"{out} exists. Replace it: --overwrite. Or name another --out.")


def _bearable(cells: Iterable[str]) -> None:
    """Raise an error for names that a manifest can't hold unchanged."""
    for cell in cells:
        why = "it begins or ends with a space" if cell != cell.strip() else ""
        if any("\ud800" <= letter <= "\udfff" for letter in cell):
            why = "it is no UTF-8"
        if why:
            raise UserError(
                f"A manifest can't hold {cell!r}: {why}. Write a folder: --copy or --link."
            )
