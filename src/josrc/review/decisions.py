"""What people decided, on disk before anybody is told that it is.

``audit/decisions.sqlite`` holds the decision on each sample that has one, and every change that led
there, so that steps can be undone and other tabs hear of them.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from josrc.data.noise import CLEAN, ID
from josrc.errors import UserError
from josrc.review.index import IN_DOUBT, folded, indexed, origin_of, version_of
from josrc.verdicts.table import VERDICT_TITLES

Action = Literal["accept", "keep", "label", "remove"]
# Outcome and label: ("keep", None), ("relabel", "cat"), ("remove", None); none: undecided.
Decision = tuple[str, str | None]
# Of every decided row the sample's id and the decision.
Decisions = dict[int, tuple[str, Decision]]
Entry = dict[str, Any]

SCHEMA = """
CREATE TABLE IF NOT EXISTS decision (row INTEGER PRIMARY KEY, id TEXT, outcome TEXT, label TEXT);
CREATE TABLE IF NOT EXISTS step (
    number INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT, undone INTEGER DEFAULT 0);
CREATE TABLE IF NOT EXISTS change (
    number INTEGER PRIMARY KEY AUTOINCREMENT, step INTEGER, row INTEGER, outcome TEXT, label TEXT,
    old_outcome TEXT, old_label TEXT);
CREATE INDEX IF NOT EXISTS by_step ON change (step);
"""
SHOWN = (
    "row", "id", "path", "given", "verdict", "suggested", "p_clean", "p_ood", "confidence",
    "reason", "place", "outcome", "label",
)  # fmt: skip
# Changes that are told at once.
MOST_CHANGES = 5000
# Bytes of the index that may be read without copying them.
MAPPED = 2**30


class RefusedError(Exception):
    """A decision that can't be taken; its text says why."""


@dataclass(frozen=True)
class Filter:
    """Which samples are looked at; empty strings are no condition.

    Attributes:
        verdict: ``clean``, ``mislabelled``, ``out_of_distribution``, ``flagged`` (the latter two),
            ``borderline``, or ``spot_check`` (some that were drawn at random).
        given: a given label.
        state: ``open`` or ``decided``.
        search: part of an id, a path or a label.
    """

    verdict: str = ""
    given: str = ""
    state: str = ""
    search: str = ""

    @property
    def drawn(self) -> bool:
        """Whether it is the spot check: samples and their order come from the draw."""
        return self.verdict == "spot_check"

    def conditions(self) -> tuple[str, list[Any]]:
        """For a WHERE."""
        found: list[tuple[str, list[Any]]] = [("1", [])]
        if self.verdict == "borderline":
            found.append((IN_DOUBT, []))
        elif self.verdict == "flagged":
            found.append(("verdict != ?", [VERDICT_TITLES[CLEAN]]))
        elif self.verdict and not self.drawn:
            found.append(("verdict = ?", [self.verdict]))
        if self.given:
            found.append(("given = ?", [self.given]))
        if self.state:
            found.append(("outcome IS " + ("NULL" if self.state == "open" else "NOT NULL"), []))
        if self.search:
            # In the order of the file: one walk over it is faster than a million jumps.
            found_rows = "row IN (SELECT row FROM sample WHERE instr(words, ?))"
            found.append((found_rows, [folded(self.search)]))
        return " AND ".join(sql for sql, _ in found), [v for _, values in found for v in values]


class Store:
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
            self._writer = _connect(self.path, index)
            self._reader = _connect(self.path, index)
        except sqlite3.DatabaseError as error:
            raise UserError(f"{self.path} can't be opened: {error}.") from None
        self._check()

    def refresh(self) -> int:
        """Take up verdicts that ``josrc audit`` has written meanwhile; returns ``verdicts``."""
        verdicts = self.path.with_name("verdicts.csv")
        with self._writing, self._reading:
            if verdicts.is_file() and version_of(verdicts) != self._origin:
                index = indexed(self.path.parent)
                self.close()
                self._open(index)
                self.verdicts += 1
            return self.verdicts

    def _check(self) -> None:
        """Decisions and verdicts must speak of the same samples."""
        strange = self._read(
            "SELECT count(*) FROM decision LEFT JOIN sample USING (row) "
            "WHERE decision.id IS NOT sample.id",
            [],
        )[0][0]
        if strange:
            self.close()
            raise UserError(
                f"{self.path} holds {strange:,} decisions on other samples than those of "
                "verdicts.csv: it is of another run. Move it away to begin anew."
            )

    def close(self) -> None:
        """Let go of the files."""
        self._reader.close()
        self._writer.close()

    def page(self, chosen: Filter, after: int = -1, limit: int = 60) -> list[Entry]:
        """The next samples of the queue behind a place."""
        where, values = chosen.conditions()
        place, drawn = ("drawn", "JOIN spot_check USING (row)") if chosen.drawn else ("place", "")
        rows = self._read(
            f"SELECT {_shown(place)} FROM sample {drawn} LEFT JOIN decision USING (row) "
            f"WHERE {place} > ? AND {where} ORDER BY {place} LIMIT ?",
            [after, *values, limit],
        )
        return [dict(zip(SHOWN, row, strict=True)) for row in rows]

    def progress(self, given: str = "") -> dict[str, dict[str, int]]:
        """Of every verdict how many samples there are, and how many of them are decided."""
        found = {title: {"samples": 0, "decided": 0} for title in VERDICT_TITLES.values()}
        where, values = ("WHERE given = ?", [given]) if given else ("", [])
        for key, source in (
            ("samples", "sum(samples) FROM census"),
            ("decided", "count(*) FROM decision CROSS JOIN sample USING (row)"),
        ):
            sql = f"SELECT verdict, {source} {where} GROUP BY verdict"
            for verdict, count in self._read(sql, values):
                found[verdict][key] = count
        return found

    def spot_check(self) -> dict[str, float]:
        """Of the samples drawn at random how many are decided, and found wrong or foreign.

        ``low`` and ``high``: between which shares that of all samples lies.
        """
        sql = (
            "SELECT count(*), count(outcome), coalesce(sum(outcome != 'keep'), 0) "
            "FROM spot_check LEFT JOIN decision USING (row)"
        )
        samples, decided, wrong = self._read(sql, [])[0]
        low, high = wilson_interval(wrong, decided)
        return {"samples": samples, "decided": decided, "wrong": wrong, "low": low, "high": high}

    def classes(self) -> list[tuple[str, int]]:
        """Given labels and how many samples of each are not clean."""
        return self._read(
            "SELECT given, sum(samples * (verdict != ?)) FROM census GROUP BY given ORDER BY given",
            [VERDICT_TITLES[CLEAN]],
        )

    def latest(self) -> int:
        """Number of the latest change; 0 before the first."""
        number: int = self._read("SELECT coalesce(max(number), 0) FROM change", [])[0][0]
        return number

    def changes(self, since: int) -> list[tuple[int, int, str | None, str | None]]:
        """Number, row, outcome and label of every change after a number."""
        return self._read(
            "SELECT number, row, outcome, label FROM change WHERE number > ? ORDER BY number "
            "LIMIT ?",
            [since, MOST_CHANGES],
        )

    def decisions(self) -> Decisions:
        """All that hold."""
        found = self._read("SELECT row, id, outcome, label FROM decision", [])
        return {row: (sample_id, (outcome, label)) for row, sample_id, outcome, label in found}

    def samples(self) -> list[tuple[int, str, str, str]]:
        """Row, id, path and given label of every sample."""
        return self._read("SELECT row, id, path, given FROM sample ORDER BY row", [])

    def take_over(self, decisions: Decisions) -> int:
        """Decide as others did, in one step, where nothing is decided yet; returns how often."""
        with self._writing, self._writer:
            self._writer.execute("BEGIN IMMEDIATE")
            after = [
                (row, name, decision)
                for row, (name, decision) in decisions.items()
                if self._decision(row) is None
            ]
            if after:
                self._write(after)
        return len(after)

    def decide(
        self,
        rows: Sequence[int],
        action: Action,
        label: str | None = None,
        verdicts: int | None = None,
    ) -> list[Entry]:
        """Decide on some samples in one step; when this returns, it is on disk.

        Among several those that are decided already stay as they are, by whomever and whenever.
        Who decides in sight of verdicts that are gone by now is refused.
        """
        rows = list(dict.fromkeys(rows))
        with self._writing, self._writer:
            if verdicts not in (None, self.verdicts):
                raise RefusedError("There are new verdicts. Look at them first.")
            self._writer.execute("BEGIN IMMEDIATE")
            if len(rows) > 1:
                rows = [row for row in rows if self._decision(row) is None]
            after = [(row, *self._resolve(row, action, label)) for row in rows]
            if after:
                self._write(after)
        return [_entry(row, decision) for row, _, decision in after]

    def undo(self) -> list[Entry]:
        """Take the latest step back that is not taken back yet; returns what holds now."""
        with self._writing, self._writer:
            self._writer.execute("BEGIN IMMEDIATE")
            step = self._writer.execute(
                "SELECT max(number) FROM step WHERE NOT undone"
            ).fetchone()[0]  # fmt: skip
            if step is None:
                return []
            before = self._writer.execute(
                "SELECT row, sample.id, old_outcome, old_label FROM change JOIN sample USING (row) "
                "WHERE step = ? ORDER BY change.number",
                [step],
            ).fetchall()
            after = [(row, name, (old, label) if old else None) for row, name, old, label in before]
            self._writer.execute("UPDATE step SET undone = 1 WHERE number = ?", [step])
            self._write(after, undoing=True)
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
            action, label = accepted(verdict, suggested)
            if action == "label" and not label:
                raise RefusedError(f"There is no suggestion for sample {row}: choose a label.")
        if action == "label" and label != given:
            return name, ("relabel", label)
        return name, ("remove" if action == "remove" else "keep", None)

    def _decision(self, row: int) -> Decision | None:
        """What holds for a sample."""
        found: Decision | None = self._writer.execute(
            "SELECT outcome, label FROM decision WHERE row = ?", [row]
        ).fetchone()
        return found

    def _write(
        self, after: Sequence[tuple[int, str, Decision | None]], undoing: bool = False
    ) -> None:
        """Put decisions down, and note what they replace."""
        database = self._writer
        now = datetime.now(UTC).isoformat(timespec="seconds")
        step = database.execute(
            "INSERT INTO step (time, undone) VALUES (?, ?)", [now, undoing]
        ).lastrowid
        for row, name, decision in after:
            old = self._decision(row) or (None, None)
            database.execute(
                "INSERT INTO change (step, row, outcome, label, old_outcome, old_label) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                [step, row, *(decision or (None, None)), *old],
            )
            if decision is None:
                database.execute("DELETE FROM decision WHERE row = ?", [row])
            else:
                database.execute(
                    "INSERT OR REPLACE INTO decision VALUES (?, ?, ?, ?)", [row, name, *decision]
                )

    def _read(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        with self._reading:
            return self._reader.execute(sql, values).fetchall()


def wilson_interval(hits: int, draws: int) -> tuple[float, float]:
    """Between which values the share of all samples lies, nineteen times in twenty.

    Args:
        hits: how many of the samples drawn at random were found to be so.
        draws: how many were drawn.
    """
    from scipy.stats import binomtest

    if not draws:
        return 0.0, 1.0
    found = binomtest(hits, draws).proportion_ci(confidence_level=0.95, method="wilson")
    return float(found.low), float(found.high)


def accepted(verdict: str, suggested: str) -> tuple[Action, str | None]:
    """What it means to accept a verdict: its label, the label there is, or none at all."""
    if verdict == VERDICT_TITLES[CLEAN]:
        return "keep", None
    return ("label", suggested) if verdict == VERDICT_TITLES[ID] else ("remove", None)


def _connect(path: Path, index: Path) -> sqlite3.Connection:
    database = sqlite3.connect(
        path.absolute().as_uri(), uri=True, timeout=30, isolation_level=None,
        check_same_thread=False,
    )  # fmt: skip
    try:
        # FULL: a commit returns when the disk has it, and not when the system has heard of it.
        database.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;" + SCHEMA)
        database.execute("ATTACH ? AS verdicts", [f"{index.absolute().as_uri()}?mode=ro"])
        database.execute(f"PRAGMA verdicts.mmap_size={MAPPED}")
    except sqlite3.DatabaseError:
        database.close()
        raise
    return database


def _shown(place: str) -> str:
    other = {"row": "sample.row", "id": "sample.id", "place": place}
    return ", ".join(other.get(name, name) for name in SHOWN)


def _entry(row: int, decision: Decision | None) -> Entry:
    outcome, label = decision or (None, None)
    return {"row": row, "outcome": outcome, "label": label}
