"""Decisions of an earlier josrc."""

from __future__ import annotations

from pathlib import Path


def test_an_older_store_gets_its_columns(listed: Path) -> None:
    import sqlite3
    from contextlib import closing

    from josrc.review.decisions import Store

    path = listed / "audit" / "decisions.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        for table, column in (
            ("decision", "who"), ("decision", "decided_at"),
            ("change", "old_who"), ("change", "old_decided_at"),
        ):  # fmt: skip
            database.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        database.execute("UPDATE step SET time = '2020-02-02T02:02:02+00:00' WHERE number = 1")
    store = Store(listed / "audit")
    assert set(store.decisions()) == {0, 2, 6}
    assert store.origins()[0] == (None, "2020-02-02T02:02:02+00:00")
    store.decide([0], "keep")
    store.undo()
    assert store.decisions()[0][1] == ("relabel", "dog")
    assert store.origins()[0] == (None, "2020-02-02T02:02:02+00:00")
    store.close()
