"""What people decided, on disk before anybody is told that it is.

``audit/decisions.sqlite`` holds the decision on each sample that has one, and every change that led
there, so that steps can be undone and other tabs hear of them.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from josrc.data.noise import CLEAN, ID
from josrc.errors import UserError
from josrc.review.index import indexed, origin_of, version_of
from josrc.review.queues import Entry, Queues
from josrc.review.store_schema import COLUMNS, SENSELESS, connect
from josrc.verdicts.table import VERDICT_TITLES, verdicts_of

Action = Literal["accept", "keep", "label", "remove"]
# Outcome and label: ("keep", None), ("relabel", "cat"), ("remove", None); none: undecided.
Decision = tuple[str, str | None]
# Of every decided row the sample's id and the decision.
Decisions = dict[int, tuple[str, Decision]]

# Who decided, and when (ISO 8601, UTC); none where nobody knows. The review does not know who.
Origin = tuple[str | None, str | None]

# Changes that are reported at once.
MAX_CHANGES = 5000


class RefusedError(Exception):
    """A decision that can't be taken; its text says why."""


class StorageError(UserError):
    """The files of a review can't be used, now or at all: nothing was saved."""


class Store(Queues):
    """The decisions on a run, beside the index of its verdicts.

    Attributes:
        path: where decisions are.
        verdicts: how often new verdicts have taken the place of those it was opened with.
    """

    def __init__(self, audit: Path) -> None:
        self.path, self.verdicts = audit / "decisions.sqlite", 0
        self._reading, self._writing = threading.RLock(), threading.RLock()
        self._open(indexed(audit))

    def _open(self, index: Path) -> None:
        self._origin = origin_of(index)
        try:
            self._writer = connect(self.path, index)
            self._reader = connect(self.path, index)
        except sqlite3.DatabaseError as error:
            raise StorageError(f"{self.path} can't be opened: {error}.") from None
        self._file = _identity(self.path)
        try:
            self._check()
        except UserError:
            self.close()
            raise

    def refresh(self) -> int:
        """Take up verdicts that ``josrc audit`` has written meanwhile; returns ``verdicts``."""
        verdicts = verdicts_of(self.path.parent)
        with self._writing, self._reading:
            if verdicts.exists() and version_of(verdicts) != self._origin:
                self._check_there()  # else an empty file would be begun in its place
                index = indexed(self.path.parent)
                self.close()
                self._open(index)
                self.verdicts += 1
            return self.verdicts

    def _check(self) -> None:
        """They must be josrc's own, and speak of the same samples as the verdicts."""
        for table, names in COLUMNS.items():
            found = [name for _, name, *_ in self.read(f"PRAGMA main.table_info({table})", [])]
            if found != names:
                raise UserError(
                    f"{self.path} is damaged: its table '{table}' has the columns "
                    f"{', '.join(found)}. Move it away to start over."
                )
        if senseless := self.read(f"SELECT count(*) FROM decision WHERE {SENSELESS}", [])[0][0]:
            raise UserError(
                f"{self.path} is damaged: {senseless:,} of its lines are not decisions. Move it "
                "away to start over."
            )
        strange = self.read(
            "SELECT count(*) FROM decision LEFT JOIN sample USING (row) "
            "WHERE decision.id IS NOT sample.id",
            [],
        )[0][0]
        if strange:
            raise UserError(
                f"{self.path} holds {strange:,} decisions on samples other than those of "
                "verdicts.csv: it belongs to another run. Move it away to start over."
            )

    def close(self) -> None:
        """Let go of the files."""
        self._reader.close()
        self._writer.close()

    def latest(self) -> int:
        """Number of the latest change; 0 before the first."""
        number: int = self.read("SELECT coalesce(max(number), 0) FROM change", [])[0][0]
        return number

    def changes(self, since: int) -> list[tuple[int, int, str | None, str | None]]:
        """Number, row, outcome and label of every change after a number."""
        return self.read(
            "SELECT number, row, outcome, label FROM change WHERE number > ? ORDER BY number "
            "LIMIT ?",
            [since, MAX_CHANGES],
        )

    def decisions(self) -> Decisions:
        """All that hold."""
        found = self.read("SELECT row, id, outcome, label FROM decision", [])
        return {row: (sample_id, (outcome, label)) for row, sample_id, outcome, label in found}

    def origins(self) -> dict[int, Origin]:
        """Who made the decision on a row, and when."""
        found = self.read("SELECT row, who, decided_at FROM decision", [])
        return {row: (who, when) for row, who, when in found}

    def samples(self) -> list[tuple[int, str, str, str]]:
        """Row, id, path and given label of every sample."""
        return self.read("SELECT row, id, path, given FROM sample ORDER BY row", [])

    def take_over(self, decisions: Decisions, origins: Mapping[int, Origin] | None = None) -> int:
        """Decide as others did, in one step, where nothing is decided yet; returns how often."""
        with self.transaction():
            after = [
                (row, name, decision)
                for row, (name, decision) in decisions.items()
                if self._decision(row) is None
            ]
            if after:
                self._write(after, origins or {})
        return len(after)

    def take_newer(self, decisions: Decisions, origins: Mapping[int, Origin]) -> tuple[int, int]:
        """Decide as others did, in one step, unless what holds here is as new, or without a time.

        Returns:
            How many were taken, and how many say what holds already.
        """
        with self.transaction():
            held, times = self.decisions(), self.origins()
            after, same = [], 0
            for row, (name, decision) in decisions.items():
                here = held.get(row)
                if here is not None and here[1] == decision:
                    same += 1
                elif here is None or _newer(origins[row][1], times[row][1]):
                    after.append((row, name, decision))
            if after:
                self._write(after, origins)
        return len(after), same

    def decide(
        self,
        rows: Sequence[int],
        action: Action,
        label: str | None = None,
        verdicts: int | None = None,
        copies: Sequence[int] = (),
    ) -> list[Entry]:
        """Decide on some samples in one step; when this returns, it is on disk.

        Among several those that are decided already stay as they are, by whomever and whenever.
        A decision made in sight of verdicts that have been replaced since is refused.

        Args:
            rows: the samples.
            action: what to do with each.
            label: the label of the action ``label``.
            verdicts: which verdicts were in sight.
            copies: samples that show the same as a single row, and get the label that it gets.
        """
        rows = list(dict.fromkeys(rows))
        with self.transaction():
            if verdicts not in (None, self.verdicts):
                raise RefusedError("There are new verdicts. Look at them first.")
            if len(rows) > 1:
                rows = [row for row in rows if self._decision(row) is None]
            after = [(row, *self._resolve(row, action, label)) for row in rows]
            if after and copies:
                after += self._alike(after[0][2], rows[0], copies)
            if after:
                self._write(after, {})
        return [_entry(row, decision) for row, _, decision in after]

    def undo(self) -> list[Entry]:
        """Take the latest step back that is not taken back yet; returns what holds now."""
        with self.transaction():
            step = self._writer.execute(
                "SELECT max(number) FROM step WHERE NOT undone"
            ).fetchone()[0]  # fmt: skip
            if step is None:
                return []
            before = self._writer.execute(
                "SELECT row, sample.id, old_outcome, old_label, old_who, old_decided_at "
                "FROM change JOIN sample USING (row) WHERE step = ? ORDER BY change.number",
                [step],
            ).fetchall()
            after = [
                (row, name, (old, label) if old else None) for row, name, old, label, *_ in before
            ]
            self._writer.execute("UPDATE step SET undone = 1 WHERE number = ?", [step])
            origins = {row: (who, when) for row, *_, who, when in before}
            self._write(after, origins, undoing=True)
        return [_entry(row, decision) for row, _, decision in after]

    def _resolve(self, row: int, action: Action, label: str | None) -> tuple[str, Decision]:
        """What an action means for a sample, and the sample's id."""
        found = self._writer.execute(
            "SELECT id, given, verdict, suggested FROM sample WHERE row = ?", [row]
        ).fetchone()
        if found is None:
            raise RefusedError(f"There is no sample {row}.")
        name, given, verdict, suggested = found
        if action == "accept":
            action, label = resolve_accept(verdict, suggested)
            if action == "label" and not label:
                raise RefusedError(f"There is no suggestion for sample {row}: choose a label.")
        if action == "label" and label != given:
            return name, ("relabel", label)
        return name, ("remove" if action == "remove" else "keep", None)

    def _alike(
        self, decision: Decision, row: int, copies: Sequence[int]
    ) -> list[tuple[int, str, Decision]]:
        """What a decision on a sample means for its copies without one, whatever their labels."""
        others = [copy for copy in copies if copy != row and self._decision(copy) is None]
        found = dict[int, tuple[str, str]]()
        for one in (row, *others):
            sample = self._writer.execute(
                "SELECT id, given FROM sample WHERE row = ?", [one]
            ).fetchone()
            if sample is None:
                raise RefusedError(f"There is no sample {one}.")
            found[one] = sample
        given = found[row][1]
        return [
            (other, found[other][0], same_decision(decision, given, found[other][1]))
            for other in others
        ]

    def _decision(self, row: int) -> Decision | None:
        """What holds for a sample."""
        found: Decision | None = self._writer.execute(
            "SELECT outcome, label FROM decision WHERE row = ?", [row]
        ).fetchone()
        return found

    def _write(
        self,
        after: Sequence[tuple[int, str, Decision | None]],
        origins: Mapping[int, Origin],
        undoing: bool = False,
    ) -> None:
        """Put decisions down, and note what they replace."""
        database = self._writer
        now = datetime.now(UTC).isoformat(timespec="seconds")
        step = database.execute(
            "INSERT INTO step (time, undone) VALUES (?, ?)", [now, undoing]
        ).lastrowid
        for row, name, decision in after:
            old = self._decision(row) or (None, None)
            origin = origins.get(row, (None, now))
            database.execute(
                "INSERT INTO change (step, row, outcome, label, old_outcome, old_label, old_who, "
                "old_decided_at) VALUES (?, ?, ?, ?, ?, ?, "
                "(SELECT who FROM decision WHERE row = ?), "
                "(SELECT decided_at FROM decision WHERE row = ?))",
                [step, row, *(decision or (None, None)), *old, row, row],
            )
            if decision is None:
                database.execute("DELETE FROM decision WHERE row = ?", [row])
            else:
                database.execute(
                    "INSERT OR REPLACE INTO decision (row, id, outcome, label, who, decided_at) "
                    "VALUES (?, ?, ?, ?, ?, ?)",
                    [row, name, *decision, *origin],
                )

    def read(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """What a query finds in the decisions and the index."""
        with self._reading:
            try:
                return self._reader.execute(sql, values).fetchall()
            except sqlite3.DatabaseError as error:
                raise StorageError(
                    f"{self.path} or index.sqlite beside it can't be read: {error}. The index "
                    "can be deleted: it will be rebuilt."
                ) from None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """What is written here is on disk when it ends without an error, all of it or nothing."""
        with self._writing:
            self._check_there()
            try:
                with self._writer:
                    self._writer.execute("BEGIN IMMEDIATE")
                    yield self._writer
            except sqlite3.DatabaseError as error:
                raise StorageError(f"{self.path}: {error}. Nothing was saved.") from None
            self._check_there()

    def _check_there(self) -> None:
        """Raise an error if the file is another one, or gone: what is written would be, too."""
        if _identity(self.path) != self._file:
            raise StorageError(
                f"{self.path} was moved or deleted while the review was running: nothing is "
                "saved. Put it back, or end the review and start it again."
            )


def _newer(one: str | None, other: str | None) -> bool:
    """Whether one of two times is the later one; an unknown one never is."""
    if one is None or other is None:
        return False
    return datetime.fromisoformat(one) > datetime.fromisoformat(other)


def same_decision(decision: Decision, given: str, other: str) -> Decision:
    """What a decision on an image means for an exact copy of it, whose label may be another."""
    outcome, label = decision
    if outcome == "remove":
        return decision
    right = given if outcome == "keep" else label
    return ("keep", None) if right == other else ("relabel", right)


def resolve_accept(verdict: str, suggested: str) -> tuple[Action, str | None]:
    """What it means to accept a verdict: its label, the label there is, or none at all."""
    if verdict == VERDICT_TITLES[CLEAN]:
        return "keep", None
    return ("label", suggested) if verdict == VERDICT_TITLES[ID] else ("remove", None)


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells a file from another one of its name; none if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _entry(row: int, decision: Decision | None) -> Entry:
    outcome, label = decision or (None, None)
    return {"row": row, "outcome": outcome, "label": label}
