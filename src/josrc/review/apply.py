"""``josrc apply``: the corrected data set, from what people decided and what josrc is sure of."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from josrc._console import say
from josrc.config import RunConfig
from josrc.engine.run_folder import RunFolder
from josrc.errors import UserError
from josrc.review.carry_over import take_over
from josrc.review.changes import changes_file, check_changes, write_changes
from josrc.review.corrected import ApplyTally, Auto, corrected
from josrc.review.decisions import Decisions, Store
from josrc.review.retrain import train_again
from josrc.review.write import LinkMode, write_folder, write_labels, write_manifest
from josrc.runs.snapshot import check_place, moved, open_run
from josrc.verdicts.judge_run import unlearned_warning

LEFT_OUT = "What is gone is left out. What is new is not in it: nothing was found out about it."


def apply_run(
    path: Path,
    out: Path,
    *,
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
        out: a CSV file, or with ``link`` a folder.
        auto: verdicts that are at least this sure count where nobody has decided.
        auto_remove: they may also remove samples, and not only relabel them.
        link: how images get into the folder: by copy, hard or symbolic link.
        overwrite: replace what an earlier ``apply`` wrote there.
        decisions_of: an earlier run, whose decisions are taken over where there is none yet.
        data_root: where the data is now, if it has moved.
        console: where the counts are told.
    """
    if link is None and out.suffix.lower() != ".csv":
        raise UserError(
            f"{out} does not end in .csv. To write a folder of class folders add --copy or --link."
        )
    opened = open_run(path, data_root=data_root)
    folder, config, source = opened.folder, opened.config, opened.source
    check_place(config)
    opened.check_images()
    if not (folder.audit / "verdicts.csv").is_file():
        raise UserError(
            f"{path} has no verdicts yet. Write them: josrc audit {shlex.quote(str(path))}"
        )
    decided, taken = read_decisions(folder.audit, decisions_of, source.closed_names)
    if not decided and auto is None:
        raise UserError(
            f"Nobody has decided on anything in {path} yet. Look at its verdicts: josrc review "
            f"{shlex.quote(str(path))}. Or take what josrc is sure of: --auto 0.9."
        )
    tally = ApplyTally()
    samples = corrected(opened, decided, Auto(auto, auto_remove), tally)
    changes = changes_file(out, link is not None)
    for target in (out, changes):
        protect(target, folder, config, link)
    if link is None:  # in a folder it is as new as the folder
        check_changes(changes, out, overwrite)
    warning = "" if auto is None else _tell_expected(folder, tally, console)
    if config.data.test is not None:
        source = replace(source, test_images=None, test_labels=None)  # they lie elsewhere, and stay
    named, new = [str(out)], link is not None or source.images.has_paths
    outside = config.data.test is not None and config.data.allow_outside  # tests may need it
    if link is not None:
        write_folder(out, source, samples, link, overwrite)
    elif new:
        outside = write_manifest(out, source, samples) or outside
    else:
        write_labels(out, source, samples, tally)
        named = [config.data.place, "--noise-file", str(out)]
    write_changes(changes, tally.changes)
    if config.data.path is not None:
        config = moved(config, None)  # the command says by itself where it is
    again = train_again(config, source, named + ["--allow-outside"] * (new and outside), new=new)
    tests = 0 if source.test_images is None or not new else len(source.test_images)
    tested = f" and {tests:,} test images" if tests else ""
    later = _later(path) if decided and link is None else ""
    changed = f"\n{opened.changes.told()} {LEFT_OUT}" if opened.changes else ""
    say(
        console,
        f"{taken}Wrote {out}: {tally.labels.total():,} images{tested}.\n"
        f"{tally.sentences(source.closed_names)}{tally.left(path)}"
        f"{'' if auto is None else tally.offers(auto)}{warning}{changed}\n"
        f"Every change: {changes}\nTrain again: {again}{later}",
    )
    return tally


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


def protect(out: Path, folder: RunFolder, config: RunConfig, link: LinkMode | None) -> None:
    """Raise an error if something that was there before josrc could be written over."""
    target, run = out.resolve(), folder.path.resolve()
    data = config.data
    originals = (data.test, data.noise_file, data.original_path, data.path)
    for original in (path.resolve() for path in originals if path is not None):
        if target == original or target in original.parents:
            raise UserError(f"{out} is or holds the original {original}. Name another --out.")
        if link is not None and original.is_dir() and original in target.parents:
            raise UserError(f"{out} lies inside of the original data. Name another --out.")
    if target == run or run in target.parents or target in run.parents:
        raise UserError(f"{out} lies inside of the run folder or holds it. Name another --out.")
