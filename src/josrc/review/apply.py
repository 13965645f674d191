"""``josrc apply``: the corrected data set, from what people decided and what josrc is sure of."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from josrc._console import say
from josrc._io import is_url
from josrc.config import DataKind, RunConfig
from josrc.data.readers.other_columns import OtherColumns, other_columns
from josrc.data.readers.shards import shard_files
from josrc.data.source import Source
from josrc.data.written import is_remembered, remember
from josrc.engine.run_folder import RunFolder
from josrc.errors import UserError, closest
from josrc.review.carry_over import take_over
from josrc.review.changes import changes_file, check_changes, write_changes
from josrc.review.corrected import ApplyTally, Auto, CorrectedSample, correct_samples
from josrc.review.decisions import Decisions, Store
from josrc.review.formats import FORMATS, SUFFIXES
from josrc.review.formats.coco import write_coco
from josrc.review.formats.imagefolder import write_imagefolder
from josrc.review.formats.rows import check_files, has_splits, make_rows
from josrc.review.formats.tables import write_csv_manifest, write_parquet_manifest
from josrc.review.replacement import check_originals
from josrc.review.retrain import train_again
from josrc.review.write import LinkMode, check_linked, write_folder, write_labels
from josrc.runs.auto import plant_share_for
from josrc.runs.snapshot import OpenRun, check_place, find_moved, open_run
from josrc.verdicts.judge_run import unlearned_warning
from josrc.verdicts.table import verdicts_of

PLANTS_AGAIN = (
    "It plants errors in a few labels again, to measure its verdicts. A last training needs none: "
    "--plant 0."
)
LEFT_OUT = "Missing images are left out. So are new ones: nothing is known about them."


@dataclass(frozen=True)
class Target:
    """Where the corrected data set goes, and as what.

    Attributes:
        out: the file or the folder.
        to: one of ``FORMATS``; none: a CSV, or with ``link`` a folder of class folders.
        link: how images get into a folder: by copy, hard or symbolic link.
        overwrite: replace what an earlier ``apply`` wrote there.
    """

    out: Path
    to: str | None = None
    link: LinkMode | None = None
    overwrite: bool = False

    @property
    def is_folder(self) -> bool:
        """Whether images are written, and not only their names."""
        return self.link is not None or self.to == "hf"

    def check(self) -> None:
        """Raise an error unless the name fits what is written."""
        if self.to is not None and self.to not in FORMATS:
            raise UserError(f"--to {self.to} is not a format.{closest(self.to, FORMATS)}")
        if self.link is not None and self.to not in (None, "hf"):
            raise UserError(f"--to {self.to} writes a file: --copy and --link are for folders.")
        suffix = SUFFIXES.get(self.to or "csv")
        if not self.is_folder and self.out.suffix.lower() != suffix:
            folder = "" if self.to else " To write a folder of class folders add --copy or --link."
            raise UserError(f"{self.out} does not end in {suffix}.{folder}")


def apply_run(
    path: Path,
    out: Path,
    *,
    to: str | None = None,
    auto: float | None = None,
    auto_remove: bool = False,
    link: LinkMode | None = None,
    overwrite: bool = False,
    decisions_of: Path | None = None,
    data_root: Path | None = None,
    console: Console,
) -> ApplyTally:
    """Write the corrected data set of a run. Original files are only read.

    With ``auto`` it first says what it expects to mend and to spoil; ``expected`` of the tally has
    the same numbers.

    Args:
        path: the run folder.
        out: a file, or a folder.
        to: one of ``FORMATS``; none: a CSV, or with ``link`` a folder of class folders.
        auto: verdicts that are at least this sure count where nobody has decided.
        auto_remove: they may also remove samples, and not only relabel them.
        link: how images get into the folder: by copy, hard or symbolic link.
        overwrite: replace what an earlier ``apply`` wrote there.
        decisions_of: an earlier run, whose decisions are taken over where there is none yet.
        data_root: where the data is now, if it has moved.
        console: where the counts are printed.
    """
    target = Target(out, to, link, overwrite)
    target.check()
    opened = open_judged_run(path, data_root)
    folder, config, source = opened.folder, opened.config, opened.source
    decided, taken = read_decisions(folder.audit, decisions_of, source.closed_names)
    if not decided and auto is None:
        raise UserError(
            f"Nobody has decided on anything in {path} yet. Look at its verdicts: josrc review "
            f"{shlex.quote(str(path))}. Or take what josrc is sure of: --auto 0.9."
        )
    tally = ApplyTally()
    samples = correct_samples(opened, decided, Auto(auto, auto_remove), tally)
    changes = changes_file(target.out, target.link is not None and target.to is None)
    for one in (target.out, changes):
        protect(one, folder, config, target.is_folder)
    if target.link is None or target.to is not None:  # in a folder it is as new as the folder
        check_changes(changes, target.out, target.overwrite)
    warning = "" if auto is None else _tell_expected(folder, tally, console)
    columns = other_columns(config.data)
    if config.data.test is not None:
        source = replace(source, test_images=None, test_labels=None)  # they lie elsewhere, and stay
    words, new = _write(target, config, source, samples, columns, tally)
    write_changes(changes, tally.changes)
    if config.data.path is not None:
        config = find_moved(config, None)  # the command says by itself where it is
    again = train_again(config, source, words, new=new)
    plants = new and "--plant" not in again and plant_share_for(tally.labels.total()) > 0
    planted = f"\n{PLANTS_AGAIN}" if plants else ""
    tests = 0 if source.test_images is None or not new else len(source.test_images)
    tested = f" and {tests:,} test images" if tests else ""
    later = _later(path) if decided and not target.is_folder else ""
    changed = f"\n{opened.changes.describe()} {LEFT_OUT}" if opened.changes else ""
    say(
        console,
        f"{taken}Wrote {target.out}: {tally.labels.total():,} images{tested}.\n"
        f"{tally.sentences(source.closed_names)}{tally.left(path)}"
        f"{'' if auto is None else tally.offers(auto)}{warning}{changed}\n"
        f"Every change: {changes}\nTrain again: {again}{planted}{later}",
    )
    return tally


def open_judged_run(path: Path, data_root: Path | None) -> OpenRun:
    """A run that has verdicts, and whose images are there."""
    opened = open_run(path, data_root=data_root)
    check_place(opened.config)
    opened.check_images()
    if not verdicts_of(opened.folder.audit).exists():
        raise UserError(
            f"{path} has no verdicts yet. Write them: josrc audit {shlex.quote(str(path))}"
        )
    return opened


def _write(
    target: Target,
    config: RunConfig,
    source: Source,
    samples: Sequence[CorrectedSample],
    columns: OtherColumns,
    tally: ApplyTally,
) -> tuple[list[str], bool]:
    """Write it; returns the words that name it to ``josrc train``, and whether it is new data."""
    out, parted = target.out, has_splits(source)
    rows = make_rows(source, samples, columns)
    outside = False
    if target.to == "hf":
        check_linked(source, target.link or "copy")
        check_originals(out, source)
        write_imagefolder(out, rows, parted, target.link or "copy", target.overwrite)
        named = out / "train" if parted else out
        tests = out / "test" / "metadata.csv"
        return [
            str(named / "metadata.csv"), *(["--test", str(tests)] if tests.is_file() else []),
        ], True  # fmt: skip
    if target.link is not None:
        write_folder(out, source, samples, target.link, target.overwrite)
        return [str(out), *_outside(config)], True
    if target.to in ("parquet", "coco"):
        check_files(source, f"a file of {target.to}")
        if target.to == "coco":
            outside = write_coco(out, rows, source.closed_names, parted)
        else:
            outside = write_parquet_manifest(out, rows, parted)
    elif source.images.has_paths:
        outside = write_csv_manifest(out, rows, parted)
    else:
        write_labels(out, source, samples, tally)
        return [config.data.place, "--noise-file", str(out)], False
    remember(out)
    asks = outside and not is_remembered(out)
    return [str(out), *(["--allow-outside"] if asks else _outside(config))], True


def _outside(config: RunConfig) -> list[str]:
    """Leave for images that lie anywhere, where tests may need it."""
    return ["--allow-outside"] * (config.data.test is not None and config.data.allow_outside)


def _tell_expected(folder: RunFolder, tally: ApplyTally, console: Console) -> str:
    """Say what the verdicts will mend and spoil; returns the warning that they came with."""
    summary = folder.read_audit()
    say(console, tally.expected.sentences(summary or {}))
    warning = None if summary is None else unlearned_warning(summary)
    return f"\n{warning}" if warning else ""


def _later(run: Path) -> str:
    """How a run on the corrected CSV gets the decisions: in a folder samples have other names."""
    name = shlex.quote(str(run))
    return f"\nLater, with these decisions: josrc review NEW --decisions-of {name}"


def read_decisions(
    audit: Path, before: Path | None, classes: Collection[str]
) -> tuple[Decisions, str]:
    """What people decided on a run, with what it takes over from one before; a line on that."""
    if before is None and not (audit / "decisions.sqlite").is_file():
        return {}, ""
    store, told = Store(audit), ""
    try:
        if before is not None:
            told = f"{take_over(before, store, classes)}\n"
        return store.decisions(), told
    finally:
        store.close()


def protect(out: Path, folder: RunFolder, config: RunConfig, writes_folder: bool) -> None:
    """Raise an error if something that was there before josrc could be written over."""
    target, run = out.resolve(), folder.path.resolve()
    data = config.data
    originals = [data.test, data.noise_file, data.original_path, data.path]
    if data.kind is DataKind.SHARDS:
        originals += [Path(file) for file in shard_files(data.place) if not is_url(file)]
    for original in (path.resolve() for path in originals if path is not None):
        if target == original or target in original.parents:
            raise UserError(f"{out} is or contains the original {original}. Name another --out.")
        if writes_folder and original.is_dir() and original in target.parents:
            raise UserError(f"{out} lies inside the original data. Name another --out.")
    if target == run or run in target.parents or target in run.parents:
        raise UserError(f"{out} lies inside the run folder, or contains it. Name another --out.")
