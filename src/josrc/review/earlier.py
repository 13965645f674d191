"""Decisions on an earlier run, for one that was trained on the same images since.

Who has looked at an image need not look again because a network was trained once more. A sample is
known again by its id, which ``josrc apply`` keeps in the CSV files that it writes.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from josrc.engine.runfolder import RunFolder
from josrc.errors import UserError
from josrc.review.store import Decided, Store


@dataclass(frozen=True)
class Earlier:
    """What an earlier run's decisions say of the samples of another run.

    Attributes:
        decisions: by row, of the samples that are in both.
        missing: how many were made on samples that this run has not.
        changed: how many on samples that have got a third label since.
    """

    decisions: Decided
    missing: int
    changed: int

    def told(self, run: Path, taken: int) -> str:
        """For the screen, when so many of them were taken over."""
        others = [
            f"{count:,} {why}"
            for count, why in (
                (len(self.decisions) - taken, "on what has a decision here"),
                (self.missing, "on images that are not in this run"),
                (self.changed, "on images that have got another label since"),
            )
            if count
        ]
        left = f" Not taken: {', '.join(others)}." if others else ""
        return f"Took {taken:,} decisions over from {run}.{left}"


def earlier_decisions(before: Path, store: Store, classes: Collection[str]) -> Earlier:
    """Decisions on the run ``before``, as they apply to the samples of a store.

    An image that was removed and is here is removed again. One whose label was kept, or is by now
    what it was relabelled to, is kept. One that still has the label of then is relabelled again.
    """
    folder, now = RunFolder(before), RunFolder(store.path.parent.parent)
    _check_same_data(folder, now)
    if not (folder.audit / "decisions.sqlite").is_file():
        raise UserError(f"Nobody has decided on anything in {before}.")
    if folder.path.samefile(now.path):
        raise UserError(f"{before} is the run itself: its decisions are there already.")
    then = Store(folder.audit)
    try:
        decided, samples = then.decisions(), then.samples()
    finally:
        then.close()
    wanted = {name: (given, decided[row][1]) for row, name, given in samples if row in decided}
    found: Decided = {}
    changed = 0
    for row, name, given in store.samples():
        if name not in wanted:
            continue
        label, (outcome, corrected) = wanted.pop(name)
        right = corrected or label
        if given not in (label, right) or right not in classes:
            changed += 1
        elif outcome == "remove":
            found[row] = name, ("remove", None)
        else:
            found[row] = name, ("keep", None) if given == right else ("relabel", right)
    if not found:
        raise UserError(
            f"None of the {len(decided):,} decisions on {before} is on a sample of this run."
        )
    return Earlier(found, len(wanted), changed)


def _check_same_data(before: RunFolder, now: RunFolder) -> None:
    """Data known by name has numbers for ids: those of another data set say nothing."""
    then, here = (folder.read_config().data.name for folder in (before, now))
    if then != here and not (Path(then).is_absolute() and Path(here).is_absolute()):
        raise UserError(f"{before.path} is a run on {then}, and {now.path} one on {here}.")
