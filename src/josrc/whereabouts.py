"""Where the data of a run is now, and which of its samples are still there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from josrc.audit.gallery import names_files
from josrc.config import RunConfig
from josrc.data.arrays import NAME
from josrc.data.labels import read_given
from josrc.data.manifest import MANIFESTS
from josrc.data.record import Changes, compare, read_record, relabelled_in
from josrc.data.table import TRAIN, VAL, Builder, Table, read_table
from josrc.engine.runfolder import RunFolder
from josrc.errors import UserError
from josrc.files import seen_from
from josrc.review.index import read_verdicts


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
    # Runs of before there was such a file are known by their verdicts.
    verdicts = folder.audit / "verdicts.csv"
    if not verdicts.is_file() or not names_files(verdicts):
        return None
    return _of_verdicts(folder, _home(config.data.name) if own else None, home)


def _of_verdicts(folder: RunFolder, before: Path | None, home: Path) -> Table:
    """Samples as verdicts name them, in their order: training samples first."""
    found = Builder()
    for name, path, given, *_ in read_verdicts(folder.audit / "verdicts.csv"):
        found.add(seen_from(before, path) if before else path, given, name, TRAIN)
    table = found.table(home)
    summary, names = folder.read_audit(), table.class_names
    if summary is not None:  # it also names classes that no label is of
        known = [entry["class"] for entry in summary["classes"]]
        names = list(dict.fromkeys([*known, *names]))
    number = np.array([names.index(name) for name in table.class_names], dtype=np.int64)
    trained = len(read_given(folder.noise)) if folder.noise.is_file() else len(table.ids)
    split = np.where(np.arange(len(table.ids)) < trained, TRAIN, VAL)
    return replace(table, labels=number[table.labels], class_names=names, split=split)


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
