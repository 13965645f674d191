"""Which samples a corrected data set has, and with which labels."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from josrc._console import clipped
from josrc.config import SCAN
from josrc.data.noise import CLEAN
from josrc.errors import UserError
from josrc.review.decisions import Decision, Decisions, resolve_accept
from josrc.review.expected import ExpectedChanges
from josrc.runs.snapshot import OpenRun
from josrc.verdicts.table import PROBABILITY, VERDICT_TITLES, read_verdicts, verdicts_of

# If fewer verdicts than this share are followed, this many lower confidences are offered.
MIN_FOLLOWED_SHARE, MAX_OFFERS = 0.1, 4
GONE = ("gone", "")
# A line of the list of changes.
Change = tuple[str, ...]


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
    remove: bool = False

    def reaches(self, confidence: float) -> bool:
        """Whether a verdict is sure enough."""
        return self.least is not None and confidence >= self.least


@dataclass
class ApplyTally:
    """What was done: of each outcome how many, by whom; and how sure verdicts were to do more.

    Attributes:
        counts: samples by outcome and by who said so, ``decision`` or ``verdict``.
        labels: samples of each label that are left.
        sure: the confidence of each verdict that could be followed.
        changes: a line for each sample that was changed.
        not_removed: samples that verdicts would have removed, had they been allowed to.
        expected: what the changes by verdict alone are expected to mend and to spoil.
    """

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    sure: list[float] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    not_removed: int = 0
    expected: ExpectedChanges = field(default_factory=ExpectedChanges)

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
        text = f"{', '.join(said)}, {self.of('untouched'):,} undecided and left as they were."
        empty = [name for name in classes if not self.labels[name]]
        if empty:
            text += f"\nNo image is left of: {', '.join(empty)}."
        return text

    def left(self, run: Path) -> str:
        """How many verdicts were sure enough to remove a sample, but had no leave to."""
        if not self.not_removed:
            return ""
        look = f"josrc review {shlex.quote(str(run))}"
        return (
            f"\n{self.not_removed:,} more would be removed by verdict (with --auto-remove). "
            f"Decide on them: {look}"
        )

    def offers(self, auto: float) -> str:
        """If hardly a verdict was as sure as ``auto``: how many a lower one would follow."""

        def followed(least: float) -> int:
            return sum(confidence >= least for confidence in self.sure)

        if followed(auto) >= MIN_FOLLOWED_SHARE * len(self.sure):
            return ""
        counts = {followed(auto): auto}  # the highest confidence that follows this many
        for least in (tenths / 10 for tenths in range(9, 0, -1)):
            counts.setdefault(followed(least), least)
        more = [f"{least:g} ({count:,})" for count, least in counts.items() if least < auto]
        text = (
            f"\n{followed(auto):,} of {len(self.sure):,} verdicts against a label that nobody has "
            f"decided on have a confidence of at least {auto:g}."
        )
        return text + (f" More with --auto {', '.join(more[:MAX_OFFERS])}." if more else "")


def correct_samples(
    opened: OpenRun,
    decided: Decisions,
    auto: Auto,
    tally: ApplyTally,
) -> list[CorrectedSample]:
    """The samples that stay, with their labels, in data order. Decisions win over verdicts."""
    verdicts = verdicts_of(opened.folder.audit)
    gone = set() if opened.changes is None else set(opened.changes.gone.tolist())

    def location(row: int) -> str:
        part, index = opened.source.at(row)
        return part.paths[index] if index < len(part) else ""

    found = list(_correct_sample(verdicts, decided, auto, tally, gone, location))
    _check_labels(found, opened, decided)
    opened.check_verdicts(tally.counts.total())
    tally.counts.pop(GONE, None)
    return [*found, *_not_judged(opened, gone, tally)]


def _not_judged(
    opened: OpenRun, gone: Collection[int], tally: ApplyTally
) -> Iterator[CorrectedSample]:
    """Held-out samples, on which a scan has no verdicts, as they are."""
    source, val = opened.source, opened.source.val
    if val is None or opened.config.method.name != SCAN:
        return
    for place, label in enumerate(val.given.tolist()):
        row, name = len(source) + place, source.closed_names[label]
        if row not in gone:
            tally.labels[name] += 1
            yield CorrectedSample(row, val.ids[place], name, name)


def _check_labels(found: Sequence[CorrectedSample], opened: OpenRun, decided: Decisions) -> None:
    """Raise an error unless all labels are classes of the run: some become names of folders."""
    classes, audit = set(opened.source.closed_names), opened.folder.audit
    for sample in found:
        for label in (sample.given, sample.label):
            if label not in classes:
                by_people = label == sample.label and sample.row in decided
                file = "decisions.sqlite" if by_people else "verdicts.csv"
                raise UserError(
                    f"{audit / file} gives {sample.id} the label {clipped(label)!r}, which is not "
                    "a class of this run."
                )


def _correct_sample(
    verdicts: Path,
    decided: Decisions,
    auto: Auto,
    tally: ApplyTally,
    gone: Collection[int],
    location: Callable[[int], str],
) -> Iterator[CorrectedSample]:
    lines = chain.from_iterable(frame.itertuples() for frame in read_verdicts(verdicts))
    for row, sample_id, _, given, verdict, suggested, p_clean, p_ood, confidence, _, _ in lines:
        if row in gone:
            tally.counts[GONE] += 1
            continue
        who, decision = "decision", decided.get(row, ("", None))[1]
        if decision is None:
            who = "verdict"
            decision = _follow_verdict(
                _by_verdict(verdict, suggested), float(confidence), auto, tally
            )
        outcome, label = decision or ("untouched", None)
        tally.counts[outcome, who] += 1
        if who == "verdict":
            tally.expected.add(outcome, float(p_clean), float(p_ood), float(confidence))
        if outcome in ("relabel", "remove"):
            change = (
                sample_id,
                location(row),
                given,
                outcome,
                label or "",
                who,
                verdict,
                PROBABILITY.format(float(confidence)),
            )
            tally.changes.append(change)
        if outcome != "remove":
            tally.labels[label or given] += 1
            # A million samples share a few labels.
            yield CorrectedSample(row, sample_id, sys.intern(given), sys.intern(label or given))


def _follow_verdict(
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
    action, label = resolve_accept(verdict, suggested)
    if action == "remove":
        return "remove", None
    return ("relabel", label) if label else None
