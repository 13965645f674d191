"""``audit/verdicts.csv`` as a table that can be paged through, however long it is.

The index can be made anew at any time. What people decided lies in another file, see decisions.py.
"""

from __future__ import annotations

import os
import random
import shlex
import sqlite3
import unicodedata
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from josrc._io import atomic_write
from josrc.data.noise import CLEAN
from josrc.errors import UserError
from josrc.verdicts.table import BORDERLINE, VERDICT_TITLES, read_verdicts

VERSION = 4
# So many samples drawn at random tell how many labels are wrong, whatever the verdicts say.
SPOT_CHECK = 100
# Where a sample stands in the queue: steps of its certainty, and its row to tell equals apart.
STEPS, ROWS = 10_000, 2**32

SCHEMA = """
CREATE TABLE sample (
    row INTEGER PRIMARY KEY, id TEXT, path TEXT, given TEXT, verdict TEXT, suggested TEXT,
    p_clean REAL, p_ood REAL, confidence REAL, reason TEXT, place INTEGER, words TEXT);
CREATE TABLE spot_check (row INTEGER PRIMARY KEY, drawn INTEGER);
CREATE TABLE census (verdict TEXT, given TEXT, samples INTEGER);
CREATE TABLE origin (version INTEGER, bytes INTEGER, changed INTEGER);
"""
INDEXES = """
CREATE INDEX by_place ON sample (place);
CREATE INDEX by_verdict ON sample (verdict, place);
CREATE INDEX by_given ON sample (given, place);
"""

Sample = tuple[int, str, str, str, str, str, float, float, float, str, int, str]


def indexed(audit: Path) -> Path:
    """The index of the verdicts in an audit folder, made anew if they have changed."""
    verdicts, path = audit / "verdicts.csv", audit / "index.sqlite"
    if not verdicts.is_file():
        raise UserError(
            f"{verdicts} is missing. Write it: josrc audit {shlex.quote(str(audit.parent))}"
        )
    now = version_of(verdicts)
    if not path.is_file() or origin_of(path) != now:
        try:
            _build(path, verdicts, now)
        except sqlite3.OperationalError as error:
            raise UserError(
                f"The review keeps its index and decisions in {audit}, and can't write there "
                f"({error}). Copy the run to where you may write."
            ) from None
    return path


def version_of(verdicts: Path) -> tuple[int, ...]:
    """What tells these verdicts from others."""
    found = verdicts.stat()
    return VERSION, found.st_size, found.st_mtime_ns


def origin_of(path: Path) -> tuple[int, ...] | None:
    """Of which verdicts an index was made."""
    try:
        with closing(sqlite3.connect(path)) as database:
            found: tuple[int, ...] | None = database.execute("SELECT * FROM origin").fetchone()
            return found
    except sqlite3.DatabaseError:
        return None


def _build(path: Path, verdicts: Path, origin: tuple[int, ...]) -> None:
    with atomic_write(path) as partial:
        partial.unlink(missing_ok=True)
        with closing(sqlite3.connect(partial, isolation_level=None)) as database:
            # Nothing to protect: it is either complete and takes its place, or thrown away.
            database.executescript("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN;")
            for statement in SCHEMA.split(";"):
                database.execute(statement)
            census: Counter[tuple[str, str]] = Counter()
            try:
                database.executemany(
                    f"INSERT INTO sample VALUES ({', '.join('?' * 12)})", _samples(verdicts, census)
                )
            except UnicodeEncodeError:
                raise UserError(f"{verdicts}: a class has a name that is no UTF-8.") from None
            drawn = spot_check(sum(census.values()))
            database.executemany(
                "INSERT INTO spot_check VALUES (?, ?)",
                [(row, place) for place, row in enumerate(drawn)],
            )
            counts = [(*kind, count) for kind, count in census.items()]
            database.executemany("INSERT INTO census VALUES (?, ?, ?)", counts)
            database.execute("INSERT INTO origin VALUES (?, ?, ?)", origin)
            for statement in INDEXES.split(";"):
                database.execute(statement)
            database.execute("COMMIT")


def _samples(verdicts: Path, census: Counter[tuple[str, str]]) -> Iterator[Sample]:
    for frame in read_verdicts(verdicts):
        for cells in frame.itertuples():
            row, name, path, given, verdict, suggested, p_clean, p_ood, confidence, reason = cells
            census[verdict, given] += 1
            sure = float(confidence)
            place = queue_place(row, verdict, sure)
            name, path = shown(name), shown(path)
            words = folded("\n".join((name, path, given, suggested)))
            yield (
                row, name, path, given, verdict, suggested, float(p_clean), float(p_ood), sure,
                reason, place, words,
            )  # fmt: skip


def spot_check(samples: int) -> list[int]:
    """Rows in the order they are drawn at random, always the same; all of them where they are few.

    In any other order whoever stops early has seen samples of one kind.
    """
    return random.Random(0).sample(range(samples), min(SPOT_CHECK, samples))


def shown(name: str) -> str:
    """A name as text that can be shown: that of a file may be no UTF-8."""
    return os.fsencode(name).decode("utf-8", "replace")


def folded(text: str) -> str:
    """Text in which great and small letters are alike, and letters with accents however spelled."""
    return unicodedata.normalize("NFC", text).casefold()


def queue_place(row: int, verdict: str, confidence: float) -> int:
    """The place of a sample in the queue: surely wrong labels first, surely right ones last.

    One number from the most certain suspicion over the borderline cases to the most certain clean
    label, so that whoever stops early has seen what matters most. No two samples share one.
    """
    certainty = 1 - confidence if verdict == VERDICT_TITLES[CLEAN] else 1 + confidence
    return round((2 - certainty) * STEPS) * ROWS + row


def borderline_places() -> tuple[int, int]:
    """First and last place in the queue of verdicts below the confidence ``BORDERLINE``."""
    first, last = round((1 - BORDERLINE) * STEPS), round((1 + BORDERLINE) * STEPS)
    return (first + 1) * ROWS, last * ROWS - 1
