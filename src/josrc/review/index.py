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

import numpy as np
from filelock import FileLock

from josrc._io import atomic_write, drop_link
from josrc._reading import regular
from josrc.errors import UserError
from josrc.verdicts.consensus import CONSENSUS_NAME, disagreement_order
from josrc.verdicts.table import BORDERLINE, read_verdicts, verdicts_of

VERSION = 6
# So many samples drawn at random tell how many labels are wrong, whatever the verdicts say.
SPOT_CHECK = 100
# Which verdicts are borderline. As text: a partial index serves no other wording than its own.
IN_DOUBT = f"confidence > 0 AND confidence < {BORDERLINE}"

SCHEMA = """
CREATE TABLE sample (
    row INTEGER PRIMARY KEY, id TEXT, path TEXT, given TEXT, verdict TEXT, suggested TEXT,
    p_clean REAL, p_ood REAL, confidence REAL, score REAL, reason TEXT, place INTEGER, words TEXT);
CREATE TABLE spot_check (row INTEGER PRIMARY KEY, drawn INTEGER);
CREATE TABLE disagreement (row INTEGER PRIMARY KEY, drawn INTEGER);
CREATE TABLE census (verdict TEXT, given TEXT, samples INTEGER);
CREATE TABLE origin (version INTEGER, bytes INTEGER, changed INTEGER);
"""
# What is read of each table.
COLUMNS = {
    "sample": "row, id, path, given, verdict, suggested, p_clean, p_ood, confidence, score, "
    "reason, place, words",
    "spot_check": "row, drawn",
    "disagreement": "row, drawn",
    "census": "verdict, given, samples",
}
INDEXES = f"""
CREATE INDEX by_place ON sample (place);
CREATE INDEX by_verdict ON sample (verdict, place);
CREATE INDEX by_given ON sample (given, place);
CREATE INDEX in_doubt ON sample (place) WHERE {IN_DOUBT};
"""

Sample = tuple[int | str | float | None, ...]


def indexed(audit: Path) -> Path:
    """The index of the verdicts in an audit folder, made anew if they have changed."""
    verdicts, path = verdicts_of(audit), audit / "index.sqlite"
    if not verdicts.exists():
        raise UserError(
            f"{verdicts} is missing. Write it: josrc audit {shlex.quote(str(audit.parent))}"
        )
    now = version_of(verdicts)
    if origin_of(path) != now:
        try:
            drop_link(audit / ".index.lock")
            with FileLock(audit / ".index.lock"):  # of two reviews one builds it for both
                if origin_of(path) != now:
                    _build(path, verdicts, now)
        except (sqlite3.OperationalError, PermissionError) as error:
            raise UserError(
                f"The review keeps its index and decisions in {audit}, and can't write there "
                f"({error}). Copy the run to a folder that you can write to."
            ) from None
    return path


def version_of(verdicts: Path) -> tuple[int, ...]:
    """What tells these verdicts from others."""
    files = [*verdicts.iterdir()] if verdicts.is_dir() else [regular(verdicts)]
    found = [file.stat() for file in files]
    return VERSION, sum(one.st_size for one in found), max(one.st_mtime_ns for one in found)


def origin_of(path: Path) -> tuple[int, ...] | None:
    """Of which verdicts an index was made; none of a file that is no index, or damaged."""
    if not path.is_file():
        return None
    try:
        with closing(sqlite3.connect(regular(path))) as database:
            found: tuple[int, ...] | None = database.execute("SELECT * FROM origin").fetchone()
            for table, names in COLUMNS.items():
                database.execute(f"SELECT {names} FROM {table} LIMIT 1").fetchall()
            return found
    except sqlite3.DatabaseError:
        return None


def _build(path: Path, verdicts: Path, origin: tuple[int, ...]) -> None:
    with atomic_write(path) as partial:
        partial.unlink(missing_ok=True)
        with closing(sqlite3.connect(regular(partial), isolation_level=None)) as database:
            # Nothing to protect: it is either complete and takes its place, or thrown away.
            database.executescript("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN;")
            for statement in SCHEMA.split(";"):
                database.execute(statement)
            census: Counter[tuple[str, str]] = Counter()
            try:
                database.executemany(
                    f"INSERT INTO sample VALUES ({', '.join('?' * 13)})", _samples(verdicts, census)
                )
            except UnicodeEncodeError:
                raise UserError(
                    f"{verdicts}: a class has a name that is not valid UTF-8."
                ) from None
            _queue(database, sum(census.values()))
            samples = sum(census.values())
            for table, rows in (
                ("spot_check", spot_check(samples)),
                ("disagreement", _disagreement(verdicts.with_name(CONSENSUS_NAME), samples)),
            ):
                database.executemany(
                    f"INSERT INTO {table} VALUES (?, ?)",
                    [(row, place) for place, row in enumerate(rows)],
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
            row, name, path, given, verdict, suggested, *numbers, reason = cells
            census[verdict, given] += 1
            name, path = shown(name), shown(path)
            words = folded("\n".join((name, path, given, suggested)))
            yield (
                row, name, path, given, verdict, suggested, *map(float, numbers), reason, None,
                words,
            )  # fmt: skip


def _queue(database: sqlite3.Connection, samples: int) -> None:
    """Give every sample its place: the most suspicious first, those of equal scores in data order.

    Whoever stops early has then seen what matters most. No two samples share a place.
    """
    found = database.execute("SELECT score FROM sample ORDER BY row")
    scores = np.fromiter((score for (score,) in found), dtype=np.float64, count=samples)
    places = np.empty(samples, dtype=np.int64)
    places[np.argsort(scores, kind="stable")] = np.arange(samples)
    # In the order of the table: jumping about in it would take three times as long.
    ordered = zip(places.tolist(), range(samples), strict=True)
    database.executemany("UPDATE sample SET place = ? WHERE row = ?", ordered)


def spot_check(samples: int) -> list[int]:
    """Rows in the order they are drawn at random, always the same; all of them where they are few.

    In any other order whoever stops early has seen samples of one kind.
    """
    return random.Random(0).sample(range(samples), min(SPOT_CHECK, samples))


def _disagreement(path: Path, samples: int) -> list[int]:
    """Rows on which annotators disagree, the most divided first; none of a run without any."""
    return [row for row in disagreement_order(path) if row < samples] if path.is_file() else []


def shown(name: str) -> str:
    """A name as text that can be shown: that of a file may be no UTF-8."""
    return os.fsencode(name).decode("utf-8", "replace")


def folded(text: str) -> str:
    """Text in which great and small letters are alike, and letters with accents however spelled."""
    return unicodedata.normalize("NFC", text).casefold()
