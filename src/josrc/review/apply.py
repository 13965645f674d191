"""``josrc apply``: the corrected data set, from what people decided and what josrc is sure of."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.console import Console

from josrc._console import say
from josrc.config import RunConfig
from josrc.data.noise import CLEAN
from josrc.engine.run_folder import RunFolder
from josrc.errors import UserError
from josrc.review.carry_over import take_over
from josrc.review.changes import Change, changes_file, check_changes, write_changes
from josrc.review.decisions import Decision, Decisions, Store, accepted
from josrc.verdicts.judge_run import odd_class
from josrc.verdicts.table import VERDICT_TITLES, read_verdicts

if TYPE_CHECKING:
    from josrc.runs.snapshot import OpenRun

LinkMode = Literal["copy", "hard", "sym"]
# If fewer verdicts than this share are followed, so many lower confidences are offered.
FEW, OFFERS = 0.1, 4
GONE = ("gone", "")
LEFT_OUT = "What is gone is left out. What is new is not in it: nothing was found out about it."


@dataclass(frozen=True, slots=True)
class CorrectedSample:
    """A sample of the corrected data set.

    Attributes:
        row: its line in ``verdicts.csv``, from 0.
        id: what it is called.
        given: the label it came with.
        label: the label it gets.
    """

    row: int
    id: str
    given: str
    label: str


@dataclass(frozen=True)
class Auto:
    """Which verdicts count where nobody has decided.

    Attributes:
        least: those that are at least this sure; none: no verdict counts.
        remove: also those that would remove a sample; else that is left to people.
    """

    least: float | None = None
    remove: bool = True

    def reaches(self, confidence: float) -> bool:
        """Whether a verdict is sure enough."""
        return self.least is not None and confidence >= self.least


@dataclass
class ApplyTally:
    """What was done: of each outcome how many, by whom; and how sure verdicts were to do more."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    sure: list[float] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    not_removed: int = 0

    def of(self, outcome: str) -> int:
        """How many samples had an outcome, whoever said so."""
        return sum(count for (found, _), count in self.counts.items() if found == outcome)

    def sentences(self, classes: Iterable[str]) -> str:
        """For the screen."""
        said = []
        for outcome, title in (("relabel", "relabelled"), ("remove", "removed"), ("keep", "kept")):
            by = {who: self.counts[outcome, who] for who in ("decision", "verdict")}
            parts = ", ".join(f"{count:,} by {who}" for who, count in by.items() if count)
            said.append(f"{self.of(outcome):,} {title}" + (f" ({parts})" if parts else ""))
        text = f"{', '.join(said)}, {self.of('untouched'):,} not decided on and left as they were."
        empty = [name for name in classes if not self.labels[name]]
        if empty:
            text += f"\nNo image is left of: {', '.join(empty)}."
        return text

    def left(self, run: Path) -> str:
        """How many verdicts were sure enough to remove a sample, but had no leave to."""
        if not self.not_removed:
            return ""
        look = f"josrc review {shlex.quote(str(run))}"
        return f"\n{self.not_removed:,} more would be removed by verdict. Decide on them: {look}"

    def offers(self, auto: float) -> str:
        """If hardly a verdict was as sure as ``auto``: how many a lower one would follow."""

        def followed(least: float) -> int:
            return sum(confidence >= least for confidence in self.sure)

        if followed(auto) >= FEW * len(self.sure):
            return ""
        counts = {followed(auto): auto}  # the highest confidence that follows so many
        for least in (tenths / 10 for tenths in range(9, 0, -1)):
            counts.setdefault(followed(least), least)
        more = [f"{least:g} ({count:,})" for count, least in counts.items() if least < auto]
        text = (
            f"\n{followed(auto):,} of {len(self.sure):,} verdicts against a label that nobody has "
            f"decided on are at least {auto:g} sure."
        )
        return text + (f" More with --auto {', '.join(more[:OFFERS])}." if more else "")


def apply_run(
    path: Path,
    out: Path,
    *,
    auto: float | None = None,
    auto_remove: bool = True,
    link: LinkMode | None = None,
    overwrite: bool = False,
    decisions_of: Path | None = None,
    data_root: Path | None = None,
    console: Console,
) -> ApplyTally:
    """Write the corrected data set of a run. Original files are only read.

    Args:
        path: the run folder.
        out: a CSV file, or with ``link`` a folder.
        auto: verdicts that are at least this sure count where nobody has decided.
        auto_remove: they may also remove samples.
        link: how images get into the folder: by copy, hard or symbolic link.
        overwrite: replace what an earlier ``apply`` wrote there.
        decisions_of: an earlier run, whose decisions are taken over where there is none yet.
        data_root: where the data is now, if it has moved.
        console: where the counts are told.
    """
    from josrc.review.retrain import train_again
    from josrc.review.write import write_folder, write_labels, write_manifest
    from josrc.runs.snapshot import check_place, moved, open_run

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
        f"{'' if auto is None else tally.offers(auto) + _warning(folder)}{changed}\n"
        f"Every change: {changes}\nTrain again: {again}{later}",
    )
    return tally


def _warning(folder: RunFolder) -> str:
    """What the verdicts came with: the class that they are the least to be trusted on."""
    summary = folder.read_audit()
    odd = None if summary is None else odd_class(summary)
    return f"\n{odd}" if odd else ""


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


def corrected(
    opened: OpenRun,
    decided: Decisions,
    auto: Auto,
    tally: ApplyTally,
) -> list[CorrectedSample]:
    """The samples that stay, with their labels, in data order. Decisions win over verdicts."""
    verdicts = opened.folder.audit / "verdicts.csv"
    gone = set() if opened.changes is None else set(opened.changes.gone.tolist())

    def location(row: int) -> str:
        part, index = opened.source.at(row)
        return part.paths[index] if index < len(part) else ""

    found = list(_corrected(verdicts, decided, auto, tally, gone, location))
    opened.check_verdicts(tally.counts.total())
    tally.counts.pop(GONE, None)
    return found


def _corrected(
    verdicts: Path,
    decided: Decisions,
    auto: Auto,
    tally: ApplyTally,
    gone: Collection[int],
    location: Callable[[int], str],
) -> Iterator[CorrectedSample]:
    lines = chain.from_iterable(frame.itertuples() for frame in read_verdicts(verdicts))
    for row, sample_id, _, given, verdict, suggested, _, _, confidence, _ in lines:
        if row in gone:
            tally.counts[GONE] += 1
            continue
        who, decision = "decision", decided.get(row, ("", None))[1]
        if decision is None:
            who = "verdict"
            decision = _followed(_by_verdict(verdict, suggested), float(confidence), auto, tally)
        outcome, label = decision or ("untouched", None)
        tally.counts[outcome, who] += 1
        if outcome in ("relabel", "remove"):
            change = (
                sample_id,
                location(row),
                given,
                outcome,
                label or "",
                who,
                verdict,
                confidence,
            )
            tally.changes.append(change)
        if outcome != "remove":
            tally.labels[label or given] += 1
            # A million samples share a few labels.
            yield CorrectedSample(row, sample_id, sys.intern(given), sys.intern(label or given))


def _followed(
    decision: Decision | None, confidence: float, auto: Auto, tally: ApplyTally
) -> Decision | None:
    """What a verdict would do, if it may."""
    if decision is None:
        return None
    if decision[0] == "remove" and not auto.remove:
        tally.not_removed += auto.reaches(confidence)
        return None
    tally.sure.append(confidence)
    return decision if auto.reaches(confidence) else None


def _by_verdict(verdict: str, suggested: str) -> Decision | None:
    """What a verdict against a label would do, however sure it is."""
    if verdict == VERDICT_TITLES[CLEAN]:
        return None
    action, label = accepted(verdict, suggested)
    if action == "remove":
        return "remove", None
    return ("relabel", label) if label else None


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
