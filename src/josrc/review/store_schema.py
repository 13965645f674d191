"""The tables of ``decisions.sqlite``, and how those of an earlier josrc get their columns."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from josrc._reading import regular

SCHEMA = """
CREATE TABLE IF NOT EXISTS decision (
    row INTEGER PRIMARY KEY, id TEXT, outcome TEXT, label TEXT, who TEXT, decided_at TEXT);
CREATE TABLE IF NOT EXISTS step (
    number INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT, undone INTEGER DEFAULT 0);
CREATE TABLE IF NOT EXISTS change (
    number INTEGER PRIMARY KEY AUTOINCREMENT, step INTEGER, row INTEGER, outcome TEXT, label TEXT,
    old_outcome TEXT, old_label TEXT, old_who TEXT, old_decided_at TEXT);
CREATE INDEX IF NOT EXISTS by_step ON change (step);
CREATE TABLE IF NOT EXISTS budget (row INTEGER PRIMARY KEY, drawn INTEGER, copies TEXT);
CREATE TABLE IF NOT EXISTS budget_of (version TEXT, looks INTEGER, expected REAL);
"""
# What josrc has in the file; whatever else is there was put there by somebody else.
COLUMNS = {
    "decision": ["row", "id", "outcome", "label", "who", "decided_at"],
    "step": ["number", "time", "undone"],
    "change": [
        "number", "step", "row", "outcome", "label", "old_outcome", "old_label", "old_who",
        "old_decided_at",
    ],
}  # fmt: skip
SENSELESS = """
    typeof(row) != 'integer' OR typeof(id) != 'text' OR outcome IS NULL
    OR outcome NOT IN ('keep', 'relabel', 'remove')
    OR typeof(label) != CASE outcome WHEN 'relabel' THEN 'text' ELSE 'null' END
"""
# Columns that came later, and what fills them: an earlier josrc noted the time of the step alone.
ADDED = {
    "decision": ("who", "decided_at"),
    "change": ("old_who", "old_decided_at"),
}
WHEN = """
UPDATE decision SET decided_at = (
    SELECT step.time FROM change JOIN step ON step.number = change.step
    WHERE change.row = decision.row ORDER BY change.number DESC LIMIT 1)
"""
# Bytes of the index that may be read without copying them.
MAX_MAPPED_BYTES = 2**30
# Seconds that a decision waits for others to let go of the file.
LOCK_TIMEOUT_SECONDS = 10


def connect(path: Path, index: Path) -> sqlite3.Connection:
    """The decisions, with the index of their verdicts beside them."""
    database = sqlite3.connect(
        regular(path).absolute().as_uri(), uri=True, timeout=LOCK_TIMEOUT_SECONDS,
        isolation_level=None, check_same_thread=False,
    )  # fmt: skip
    try:
        # FULL: a commit returns when the disk has it, and not when the system has heard of it.
        database.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;" + SCHEMA)
        _add_columns(database)
        database.execute("ATTACH ? AS verdicts", [f"{index.absolute().as_uri()}?mode=ro"])
        database.execute(f"PRAGMA verdicts.mmap_size={MAX_MAPPED_BYTES}")
    except sqlite3.DatabaseError:
        database.close()
        raise
    return database


def _add_columns(database: sqlite3.Connection) -> None:
    """Bring the tables of an earlier josrc up to date, in one step; what they hold stays."""
    if not _missing(database):
        return
    database.execute("BEGIN IMMEDIATE")
    missing = _missing(database)  # another process may have been quicker
    for table, column in missing:
        database.execute(f"ALTER TABLE {table} ADD COLUMN {column} TEXT")
    if ("decision", "decided_at") in missing:
        database.execute(WHEN)
    database.execute("COMMIT")


def _missing(database: sqlite3.Connection) -> list[tuple[str, str]]:
    found = []
    for table, columns in ADDED.items():
        known = {row[1] for row in database.execute(f"PRAGMA table_info({table})")}
        found += [(table, column) for column in columns if column not in known]
    return found
