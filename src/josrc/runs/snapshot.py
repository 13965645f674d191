"""What a run remembers of its samples, where they are now, and what has become of them.

Images in files come and go. A run keeps what each of its samples is called, where it lay and which
label it had, so that whatever was found out about it can be told and used later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from josrc._console import Terminal
from josrc._io import is_url, located, seen_from, write_npz
from josrc._reading import check_array, read_arrays
from josrc.config import SCAN, DataConfig, DataKind, RunConfig
from josrc.data.assemble import part_of
from josrc.data.image_files import ImageFiles
from josrc.data.images import ArrayImages
from josrc.data.label_files import read_truth, write_noise_file
from josrc.data.packed_strings import Index, PackedStrings, read_strings
from josrc.data.prepare import spec_of_files
from josrc.data.readers import read_table
from josrc.data.readers.arrays import source_of
from josrc.data.readers.manifest import lists_images
from josrc.data.readers.places import home_of
from josrc.data.readers.table import TEST, TRAIN, VAL, Table
from josrc.data.registry import kind_of, open_source
from josrc.data.source import Source
from josrc.engine.run_folder import RunFolder
from josrc.errors import UserError, command
from josrc.runs.data import has_untrusted_labels, read_images
from josrc.runs.resolve import load_run_config
from josrc.verdicts.table import verdicts_of

# Names that are listed when there are many.
MAX_EXAMPLES = 3


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
        kept = PackedStrings.of(strings)
        arrays |= {key: np.frombuffer(kept.block, np.uint8), f"{key}_ends": kept.ends}
    write_npz(path, arrays)


def _names(source: Source) -> Iterable[str]:
    """Paths below the folder or manifest that a run names; a list of paths has no such place."""
    files = source.images.files if isinstance(source.images, ArrayImages) else source.images
    if isinstance(files, ImageFiles) and source.data_kind is not DataKind.ARRAYS:
        return files.names
    return source.paths


def read_record(path: Path, root: Path | str) -> Table:
    """The samples of a run, training samples first; their paths begin at ``root``."""
    texts = ("ids", "names", "classes")
    needed = ["labels", "split", *texts, *(f"{key}_ends" for key in texts)]
    arrays = read_arrays(path, needed=needed)
    ids, names, classes = (read_strings(path, arrays, key) for key in texts)
    high = {"labels": len(classes) - 1, "split": VAL}
    for key, most in high.items():
        check_array(path, arrays, key, "iu", length=len(ids), low=0, high=most)
    check_array(path, arrays, "names_ends", "iu", length=len(ids))
    labels, split = arrays["labels"].astype(np.int64), arrays["split"].astype(np.int64)
    sound = len(ids) and (np.diff(split) >= 0).all() and len(set(classes)) == len(classes)
    if not sound:
        raise UserError(f"{path} is damaged: its samples or classes are not in the right order.")
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
    names: PackedStrings
    relabelled: int = 0

    def __bool__(self) -> bool:
        return bool(len(self.gone) or self.new or self.relabelled)

    @property
    def all_gone(self) -> bool:
        """Whether not a single sample is left."""
        return len(self.gone) == len(self.names) > 0

    def describe(self) -> str:
        """How many are gone, new and called otherwise since the training, with a few names."""
        gone = [self.names[int(row)] for row in self.gone[:MAX_EXAMPLES]]
        parts = [
            f"{count:,} {'image is' if count == 1 else 'images are'} {what} ({_some(names, count)})"
            for what, count, names in (
                ("gone", len(self.gone), gone),
                ("new", len(self.new), self.new[:MAX_EXAMPLES]),
            )
            if count
        ]
        if self.relabelled:
            has = "image has" if self.relabelled == 1 else "images have"
            parts.append(f"{self.relabelled:,} {has} a different label now, which this run ignores")
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
        labelled: the run was trained on the labels that the data had, so that others are reported.
    """
    files = table.files
    if present is None:
        return table, Changes(files.missing(), [], table.ids)
    now = present.files
    found = table.ids.found_in(present.ids)
    names = (now.names[p] if p >= 0 else files.names[i] for i, p in enumerate(found.tolist()))
    files = now.renamed(PackedStrings.of(names), found)
    known = np.zeros(len(present.ids), dtype=bool)
    known[found[found >= 0]] = True
    unknown = np.flatnonzero(~known & (present.labels >= 0) & (present.split != TEST)).tolist()
    new = [present.ids[i] for i in unknown if now.location(i) not in skipped]
    gone = np.union1d(np.flatnonzero(found < 0), files.missing())
    known_still = (found >= 0) & (present.labels[found] >= 0)
    relabelled = (
        int((find_relabelled(present, table, found) & known_still).sum()) if labelled else 0
    )
    return replace(table, images=files), Changes(gone, new, table.ids, relabelled)


def find_relabelled(present: Table, table: Table, found: Index) -> NDArray[np.bool_]:
    """Which samples of a run are called otherwise where they were found, ``(N,)``."""
    then, now = (np.array([*each.class_names, ""]) for each in (table, present))
    return np.asarray(then[table.labels] != now[present.labels[found]])


def with_tests(source: Source, present: Table, skipped: Collection[str]) -> Source:
    """A source with the test images that lie beside its samples, if there are any."""
    files, place = present.files, {name: label for label, name in enumerate(source.class_names)}
    number = np.array([place.get(name, -1) for name in present.class_names] + [-1])[present.labels]
    tests = np.flatnonzero((present.split == TEST) & (number >= 0)).tolist()
    sound = np.array([i for i in tests if files.location(i) not in skipped], dtype=np.int64)
    if not sound.size:
        return source
    images = files.take(sound).with_tile(source.images.shape[1])
    return replace(source, test_images=images, test_labels=number[sound])


# --- where it is now -----------------------------------------------------------------------------


def find_moved(config: RunConfig, data_root: str | Path | None) -> RunConfig:
    """The configuration with the place where the data is now.

    Of own images that is their folder or manifest, or the folder that holds it.
    """
    kind, original = config.data.kind, config.data.original_path
    if original is None and kind.is_list:  # an address, or several files
        original = Path(config.data.name)
    if data_root is None and original is None:
        return config
    found: dict[str, Any] = {"root": None}
    if data_root is not None:
        root = found["root"] = Path(data_root).expanduser().absolute()
        if original is not None:
            if not root.exists():
                raise UserError(f"--data-root {data_root} does not exist.")
            inside = root / original.name
            other = root.name != original.name and inside.exists()
            if root.is_dir() and ((kind.is_list and kind is not DataKind.SHARDS) or other):
                root = inside
            found = {
                "root": root,
                "kind": kind_of(str(root)) if root.exists() else config.data.kind,
            }
    return config.model_copy(update={"data": config.data.model_copy(update=found)})


def _home(data: DataConfig, path: Path | None) -> Path | str:
    """Where paths of own images begin."""
    if path is None:
        return home_of(data.name) if data.kind.is_list else Path()
    return path.parent if lists_images(path) else path


def check_place(config: RunConfig) -> None:
    """Raise an error if own images are not where they were, or are said to be."""
    if config.data.path is not None and not config.data.path.exists():
        raise UserError(f"{config.data.path} does not exist. If it has moved, use --data-root NEW.")


def find_skipped(folder: RunFolder, config: RunConfig) -> list[str]:
    """Files that gave no image when a run began, where they are now."""
    data = config.data
    before, now = _home(data, data.original_path), _home(data, data.path)
    return [located(now, _inside(before, path)) for path in folder.read_skipped()]


def _inside(home: Path | str, path: str) -> str:
    """A path as seen from where paths began; an address outside of it stays."""
    if is_url(str(home)):
        return path.removeprefix(f"{home}/")
    return seen_from(Path(home), path)


def present_table(config: RunConfig) -> Table | None:
    """What a run's folder or manifest holds now; none where there is none, or nothing in it."""
    path = config.data.path
    if path is None and config.data.kind.is_list:
        return read_table(config.data)
    if path is None or not path.exists():
        return None
    try:
        return read_table(config.data)
    except UserError:
        if path.is_dir():
            return None
        raise


def check_unchanged(folder: RunFolder, config: RunConfig) -> None:
    """Raise an error unless a run's own images are those that it began with."""
    present = present_table(config)
    if present is None or not folder.samples.is_file():
        return
    table = read_record(folder.samples, _home(config.data, config.data.path))
    changes: Changes = compare(table, present, set(find_skipped(folder, config)))[1]
    begun = f"{folder.path} can only be resumed with the original images and labels"
    if changes:
        raise UserError(
            f"{changes.describe()} {begun}: put them back as they were, or start a new run."
        )
    held = table.split == VAL
    # Labels of training samples come from the run's folder; they are numbers of classes.
    found = table.ids.found_in(present.ids)
    relabelled = int(find_relabelled(present, table, found)[held].sum())
    if relabelled or not set(table.class_names) <= set(present.class_names):
        what = f"{relabelled:,} labels of held-out images" if relabelled else "The classes"
        raise UserError(
            f"{what} in {config.data.place} have changed since the training. {begun}: put them "
            "back as they were, or start a new run."
        )


# --- the data of a run, found again --------------------------------------------------------------


def source_of_run(
    folder: RunFolder,
    config: RunConfig,
    console: Console,
    pair: Sequence[Any] | None = None,
    test: Sequence[Any] | None = None,
) -> Source:
    """A run's data with the labels it began with, whatever became of where they came from."""
    labels = {"noise_file": folder.noise, "noise": "none", "rate": 0.0}
    data = config.data.model_copy(update=labels if folder.noise.is_file() else {})
    if data.kind is not DataKind.ARRAYS:
        check_place(config)
        check_unchanged(folder, config)
        source = open_source(data)
    elif pair is None:
        raise UserError(
            f"{folder.path} was trained on images in memory. Resume it from Python: "
            "josrc.resume(path, data=(X, y)), and test=(X_test, y_test) if it had them."
        )
    else:
        source = source_of(pair, data, config.model.name, test)
    if not source.images.in_memory:
        known = find_skipped(folder, config)
        return read_images(source, config.model_copy(update={"data": data}), console, known)
    if not folder.noise.is_file():
        write_noise_file(folder.noise, source.given, source.true, source.kind, source.digest)
    return source


@dataclass(frozen=True)
class OpenRun:
    """A run that is looked at, and not trained: its images stay in their files.

    Attributes:
        folder: the run's.
        config: what was run, with the place where its data is now.
        source: its samples with the labels it began with.
        changes: what has become of them; none where nobody can tell.
    """

    folder: RunFolder
    config: RunConfig
    source: Source
    changes: Changes | None = None

    def check_verdicts(self, rows: int) -> None:
        """Raise an error unless there are as many verdicts as samples that need one."""
        val, scanned = self.source.val, self.config.method.name == SCAN
        expected = len(self.source) + (
            len(val) if val is not None and has_untrusted_labels(val) and not scanned else 0
        )
        if rows != expected:
            raise UserError(
                f"{verdicts_of(self.folder.audit)} has {rows:,} samples, but the data has "
                f"{expected:,}. Write it again: {command('audit', self.folder.path)}"
            )

    def check_images(self) -> None:
        """Raise an error if none of the images is there."""
        if self.changes is not None and self.changes.all_gone:
            raise UserError(
                f"None of the {len(self.changes.names):,} images of {self.folder.path} can be "
                f"found, such as {self.source.paths[0]}. If they have moved, use --data-root NEW."
            )


def open_run(
    path: str | Path, *, data_root: str | Path | None = None, pair: Sequence[Any] | None = None
) -> OpenRun:
    """A run and the data that its verdicts speak of.

    Own images in files are those that the run's folder knows, whatever has become of them. All
    other data is opened as it is.

    Args:
        path: the run folder.
        data_root: where the data is now, if it has moved.
        pair: the images and labels that the run began with, if it was such a pair.
    """
    folder = RunFolder(Path(path))
    config = find_moved(load_run_config(folder), data_root)
    if pair is not None or not folder.samples.is_file():
        if config.data.kind is DataKind.ARRAYS and pair is None:
            raise UserError(
                f"{path} was trained on images in memory, and they are gone. Its verdicts: "
                "josrc.Run.load(path).verdicts(). Its report was written when it ended. To rewrite "
                "it in Python: josrc.report(path, data=(X, y))."
            )
        opened = config.data.model_copy(update={"resident": False})
        lean = config.model_copy(update={"data": opened})
        source = source_of_run(folder, lean, Terminal(quiet=True), pair)
        return OpenRun(folder, config, source)
    home = _home(config.data, config.data.path)
    table, present = read_record(folder.samples, home), present_table(config)
    skipped = set(find_skipped(folder, config)) if folder.skipped.is_file() else set()
    as_labelled = config.data.noise == "none" and config.data.noise_file is None
    table, changes = compare(table, present, skipped, as_labelled)
    source = source_of_files(table, config)
    if folder.noise.is_file():
        true = read_truth(folder.noise)
        if true is not None and len(true) != len(source):
            raise UserError(
                f"{folder.noise} is damaged: it contains the truth of {len(true):,} samples, and "
                f"the "
                f"run has {len(source):,}."
            )
        source = replace(source, true=true)
    if present is not None and config.data.test is None:
        source = with_tests(source, present, skipped)
    return OpenRun(folder, config, source, changes)


def source_of_files(table: Table, config: RunConfig) -> Source:
    """A source of a run's own samples, with the labels it began with; no image is decoded."""
    spec = spec_of_files(config.model)
    table = replace(table, images=table.files.with_tile(spec.tile[0]))
    train, val = (
        replace(
            part_of(table, np.flatnonzero(table.split == part), config.data),
            crop=spec.crop,
            mean=spec.mean,
            std=spec.std,
        )
        for part in (TRAIN, VAL)
    )
    return replace(train, val=val if len(val) else None, skipped=())
