"""``josrc decisions``: what people chose in Label Studio, taken back as decisions on a run."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from rich.console import Console

from josrc._console import clipped, counted, say
from josrc.data.readers.label_studio import (
    COPIES,
    Answer,
    answers,
    file_of,
    image_key,
    is_untouched,
    no_class,
    read_tasks,
)
from josrc.errors import UserError
from josrc.review.decisions import Decision, Decisions, Store, same_decision
from josrc.runs.snapshot import open_run
from josrc.verdicts.table import verdicts_of

# Names that are listed when there are many.
MAX_EXAMPLES = 5
# Why a task has no answer, in the words of the screen.
WHY = {
    "open": "without an annotation",
    "settled": "with the label that they came with, saved by nobody",
    "draft": "with a draft that was not submitted",
    "skipped": "skipped",
    "empty": "submitted without a choice",
}
OUTCOMES = {"keep": "kept", "relabel": "relabelled", "remove": "removed"}


@dataclass
class AnswerTally:
    """What became of the tasks of a file.

    Attributes:
        tasks: how many there were.
        taken: decisions that are new, or replace older ones.
        same: those that say what holds already.
        older: those that stand behind a newer decision.
        unanswered: how many tasks nobody has answered, by the reason.
        copies: images that show the same as one that was answered, and follow it.
        several: images with more than one annotation by people, of which the newest counts.
        disputed: those of them on which the annotations differ, by name.
        people: who decided.
        outcomes: how many of each outcome.
        unmatched: images that are not in the run, or not for sure, by their ids or files.
        unknown: classes that the run has not.
    """

    tasks: int = 0
    taken: int = 0
    same: int = 0
    older: int = 0
    unanswered: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    copies: int = 0
    several: int = 0
    disputed: list[str] = field(default_factory=list)
    people: set[str] = field(default_factory=set)
    outcomes: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    unmatched: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def sentences(self, file: Path) -> str:
        """For the screen."""
        left = sum(self.unanswered.values())
        answered = self.tasks - left - len(self.unmatched)
        by = f" by {_some(sorted(self.people))}" if self.people else ""
        sorts = [f"{answered:,} answered{by}", *([f"{left:,} without an answer"] if left else [])]
        if self.unmatched:
            sorts.append(f"{len(self.unmatched):,} of no image of this run")
        lines = [f"{file}: {counted(self.tasks, 'task')}, {', '.join(sorts)}."]
        if left:
            lines.append(f"Without an answer, and no decision: {_listed(self.unanswered, WHY)}.")
        images = counted(sum(self.outcomes.values()), "image")
        found = _listed(self.outcomes, OUTCOMES)
        lines += [
            f"Answers on {images} of this run{f': {found}' if found else ''}.",
            f"{counted(self.taken, 'decision')} taken over, {self.same:,} already here, "
            f"{self.older:,} older than the decision here.",
            *self._peculiar(),
        ]
        return "\n".join(lines)

    def _peculiar(self) -> Iterator[str]:
        """Sentences on what there need not be."""
        if self.copies:
            copies = counted(self.copies, "exact copy", "exact copies")
            yield f"Among them {copies}, decided with their image."
        if self.several:
            several = counted(self.several, "image")
            differ = f"; they differ on {len(self.disputed):,}: {_some(self.disputed)}"
            yield (
                f"{several} had several annotations, of which the newest counts"
                f"{differ if self.disputed else ''}."
            )
        if self.unmatched:
            yield f"Of no image of this run: {_some(self.unmatched)}."
        if self.unknown:
            named = _some(sorted(set(self.unknown)))
            images = counted(len(self.unknown), "image")
            yield f"Answers on {images} name a class that this run does not have: {named}"


def _listed(counts: Mapping[str, int], titles: Mapping[str, str]) -> str:
    return ", ".join(f"{counts[key]:,} {title}" for key, title in titles.items() if counts[key])


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(clipped, names[:MAX_EXAMPLES])) + (
        ", ..." if len(names) > MAX_EXAMPLES else ""
    )


def import_answers(
    path: Path, file: Path, *, data_root: Path | None = None, console: Console
) -> AnswerTally:
    """Decide on a run as people did in Label Studio, in one step that can be undone.

    Args:
        path: the run folder.
        file: what Label Studio exported as JSON.
        data_root: where the run's data is now, if it has moved.
        console: where the counts are printed.
    """
    if not file.is_file():
        raise UserError(f"{file} does not exist. Export the project from Label Studio as JSON.")
    tasks = read_tasks(file)
    opened = open_run(path, data_root=data_root)
    if not verdicts_of(opened.folder.audit).exists():
        raise UserError(
            f"{path} has no verdicts yet. Write them: josrc audit {shlex.quote(str(path))}"
        )
    store, tally = Store(opened.folder.audit), AnswerTally(len(tasks))
    try:
        found = _decisions(file, tasks, store, opened.source.closed_names, tally)
        decisions: Decisions = {row: (name, decision) for row, (name, decision, _) in found.items()}
        origins = {row: (answer.who, answer.when) for row, (_, _, answer) in found.items()}
        tally.taken, tally.same = store.take_newer(decisions, origins)
    finally:
        store.close()
    tally.older = len(found) - tally.taken - tally.same
    say(
        console,
        f"{tally.sentences(file)}\n"
        f"Look at them: josrc review {shlex.quote(str(path))}\n"
        f"Write the corrected data set: josrc apply {shlex.quote(str(path))} --out cleaned.csv",
    )
    return tally


def _decisions(
    file: Path,
    tasks: Sequence[Mapping[str, Any]],
    store: Store,
    classes: Sequence[str],
    tally: AnswerTally,
) -> dict[int, tuple[str, Decision, Answer]]:
    """Of each row the sample's id, the decision and where it comes from."""
    samples, nothing = Samples(store.samples()), no_class(classes)
    given: dict[int, list[Answer]] = defaultdict(list)
    copies: dict[int, list[int]] = {}
    for number, task in enumerate(tasks, start=1):
        found = [a for a in answers(task, f"{file}, task {number:,}") if not a.untouched]
        row = samples.row_of(task["data"])
        if row is None:
            tally.unmatched.append(_called(task["data"], number))
        elif found:
            given[row] += found
            copies[row] = samples.rows_named(task["data"].get(COPIES))
        else:
            tally.unanswered[_why_unanswered(task)] += 1
    decided: dict[int, tuple[str, Decision, Answer]] = {}
    for row, several in given.items():
        answer = max(several, key=lambda one: one.when or "")
        decision = _decision(answer, samples.labels[row], classes, nothing)
        if decision is None:
            tally.unknown.append(", ".join(answer.choices))
            continue
        tally.several += len(several) > 1
        if len({one.choices for one in several}) > 1:
            tally.disputed.append(samples.names[row])
        tally.people |= {one.who for one in several if one.who}
        tally.outcomes[decision[0]] += 1
        decided[row] = samples.names[row], decision, answer
    for row, (_, decision, answer) in list(decided.items()):
        for copy in copies[row]:
            if copy not in given:
                alike = same_decision(decision, samples.labels[row], samples.labels[copy])
                decided[copy] = samples.names[copy], alike, answer
                tally.copies += 1
    return decided


def _why_unanswered(task: Mapping[str, Any]) -> str:
    """Why a task has no answer: a key of ``WHY``. What somebody did last comes first."""
    annotations = [one for one in task.get("annotations") or [] if isinstance(one, dict)]
    if any(one.get("was_cancelled") for one in annotations):
        return "skipped"
    if task.get("drafts"):
        return "draft"
    if any(not is_untouched(one) for one in annotations):
        return "empty"
    return "settled" if annotations else "open"


def _decision(answer: Answer, given: str, classes: Sequence[str], nothing: str) -> Decision | None:
    """What a choice means for an image; none if it is not one class of the run."""
    if answer.choices == (nothing,):
        return "remove", None
    if answer.choices == (given,):
        return "keep", None
    (first, *more) = answer.choices
    return None if more or first not in classes else ("relabel", first)


def _called(data: Mapping[str, Any], number: int) -> str:
    key = image_key(data)
    return str(data.get("id") or (file_of(data[key]) if key else f"task {number}"))


class Samples:
    """The samples of a run, to be found again by id and by file."""

    def __init__(self, samples: Sequence[tuple[int, str, str, str]]) -> None:
        self.names = {row: name for row, name, _, _ in samples}
        self.paths = {row: path for row, _, path, _ in samples}
        self.labels = {row: given for row, _, _, given in samples}
        self.by_id = {name: row for row, name in self.names.items()}
        self.by_file: dict[str, list[int]] = defaultdict(list)
        for row, path in self.paths.items():
            self.by_file[PurePosixPath(path).name].append(row)

    def rows_named(self, names: object) -> list[int]:
        """The samples that a task names as copies; whatever else stands there is none."""
        listed = names if isinstance(names, list) else []
        return [self.by_id[name] for name in listed if isinstance(name, str) and name in self.by_id]

    def row_of(self, data: Mapping[str, Any]) -> int | None:
        """The sample that a task is of: that of its id if the file is called the same, too.

        Without an id it is the only one whose path ends as that of the file does.
        """
        key, name = image_key(data), data.get("id")
        file = PurePosixPath(file_of(data[key])) if key else None
        if name is not None and str(name) in self.by_id:
            row = self.by_id[str(name)]
            same = file is None or file.name == PurePosixPath(self.paths[row]).name
            return row if same else None
        if file is None or not file.name:
            return None
        found = [row for row in self.by_file[file.name] if _ends_with(self.paths[row], file)]
        return found[0] if len(found) == 1 else None


def _ends_with(path: str, file: PurePosixPath) -> bool:
    wanted = [part for part in file.parts if part not in ("/", ".", "..")]
    return list(PurePosixPath(path).parts[-len(wanted) :]) == wanted
