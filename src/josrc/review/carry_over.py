"""Decisions on an earlier run, for one that was trained on the same images since.

Who has looked at an image need not look again because a network was trained once more. A sample is
known again by its id and its file, which the CSV files that ``josrc apply`` writes keep. Samples
without files have numbers for ids, which say nothing of another data set's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from josrc.engine.run_folder import RunFolder
from josrc.errors import UserError
from josrc.review.decisions import Decisions, Origin, Store
from josrc.runs.resolve import load_run_config


@dataclass(frozen=True)
class ImportedDecisions:
    """What an earlier run's decisions say of the samples of another run.

    Attributes:
        decisions: by row, of the samples that are in both.
        origins: who made them, and when.
        missing: how many were made on samples that this run has not.
        changed: how many on samples that have got a third label since.
        unknown: how many name a class that this run has not.
    """

    decisions: Decisions
    origins: Mapping[int, Origin]
    missing: int
    changed: int
    unknown: int

    def describe(self, run: Path, taken: int) -> str:
        """For the screen, when that many of them were taken over."""
        others = [
            f"{count:,} {why}"
            for count, why in (
                (len(self.decisions) - taken, "on images that already have a decision here"),
                (self.missing, "on images that are not in this run"),
                (self.changed, "on images whose label has changed since"),
                (self.unknown, "for a class that this run does not have"),
            )
            if count
        ]
        left = f" Not copied: {', '.join(others)}." if others else ""
        return f"Copied {taken:,} decisions from {run}.{left}"


def take_over(before: Path, store: Store, classes: Collection[str]) -> str:
    """Decide on the samples of a store as was decided on the run ``before``; what became of it."""
    earlier = import_decisions(before, store, classes)
    return earlier.describe(before, store.take_over(earlier.decisions, earlier.origins))


def import_decisions(before: Path, store: Store, classes: Collection[str]) -> ImportedDecisions:
    """Decisions on the run ``before``, as they apply to the samples of a store.

    An image that was removed and is here is removed again. One whose label was kept, or is by now
    what it was relabelled to, is kept. One that still has the label of then is relabelled again.
    """
    folder, now = RunFolder(before), RunFolder(store.path.parent.parent)
    names = [load_run_config(run).data.name for run in (folder, now)]
    if folder.path.samefile(now.path):
        raise UserError(f"{before} is the same run: its decisions are already here.")
    decided, origins, samples = _read(folder)
    if not decided:
        raise UserError(f"There are no decisions in {before}.")
    wanted = {
        (name, path): (given, decided[row][1], origins[row])
        for row, name, path, given in samples
        if row in decided and (path or names[0] == names[1])
    }
    found: Decisions = {}
    whence: dict[int, Origin] = {}
    changed = unknown = 0
    for row, name, path, given in store.samples():
        if (name, path) not in wanted:
            continue
        label, (outcome, corrected), whence[row] = wanted.pop((name, path))
        right = corrected or label
        if given not in (label, right):
            changed += 1
        elif outcome == "remove":
            found[row] = name, ("remove", None)
        elif given == right:
            found[row] = name, ("keep", None)
        elif right in classes:
            found[row] = name, ("relabel", right)
        else:
            unknown += 1
    missing = len(decided) - len(found) - changed - unknown
    removed = sum(outcome == "remove" for _, (outcome, _), _ in wanted.values())
    if missing == len(decided) and removed < missing:  # what was removed need not be here
        raise UserError(
            f"None of the {missing:,} decisions on {before} is for a sample of this run."
        )
    return ImportedDecisions(found, whence, missing, changed, unknown)


def _read(
    folder: RunFolder,
) -> tuple[Decisions, Mapping[int, Origin], list[tuple[int, str, str, str]]]:
    if not (folder.audit / "decisions.sqlite").is_file():
        return {}, {}, []
    store = Store(folder.audit)
    try:
        return store.decisions(), store.origins(), store.samples()
    finally:
        store.close()
