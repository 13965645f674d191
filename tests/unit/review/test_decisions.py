"""The queue and the decisions on disk."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from josrc.errors import UserError
from josrc.review.decisions import RefusedError, Store


def test_accepting_means_what_the_verdict_says(store: Store) -> None:
    store.decide([0, 4, 5], "accept")
    found = {row: decision for row, (_, decision) in store.decisions().items()}
    assert found == {0: ("relabel", "cat"), 4: ("remove", None), 5: ("keep", None)}


def test_a_label_that_is_the_given_one_keeps_it(store: Store) -> None:
    store.decide([0, 8], "label", "cat")
    found = {row: decision for row, (_, decision) in store.decisions().items()}
    assert found == {0: ("relabel", "cat"), 8: ("keep", None)}


def test_undo_takes_whole_steps_back_to_what_was_before(store: Store) -> None:
    store.decide([1, 2, 3], "accept")
    store.decide([2], "remove")
    store.decide([7, 6], "remove")
    assert {entry["row"]: entry["outcome"] for entry in store.undo()} == {7: None, 6: None}
    assert {entry["row"]: entry["outcome"] for entry in store.undo()} == {2: "relabel"}
    assert set(store.decisions()) == {1, 2, 3}
    store.decide([9], "keep")
    assert [entry["row"] for entry in store.undo()] == [9], "an undo is not undone"
    assert len(store.undo()) == 3
    assert store.decisions() == {}
    assert store.undo() == []


def test_among_several_what_is_decided_stays(store: Store) -> None:
    store.decide([0], "keep")
    store.decide([1], "remove")
    assert [entry["row"] for entry in store.decide([0, 1, 2, 2], "accept")] == [2]
    assert store.decide([0, 1], "accept") == []
    found = {row: decision for row, (_, decision) in store.decisions().items()}
    assert found == {0: ("keep", None), 1: ("remove", None), 2: ("relabel", "cat")}
    assert [entry["row"] for entry in store.undo()] == [2], "a step without a change is none"
    store.decide([0, 0], "accept")
    assert store.decisions()[0][1] == ("relabel", "cat"), "alone it is changed"


def test_a_step_that_fails_changes_nothing(store: Store) -> None:
    with pytest.raises(RefusedError, match="There is no sample 99"):
        store.decide([1, 99], "keep")
    assert store.decisions() == {}
    assert store.latest() == 0
    store.decide([1], "keep")
    assert set(store.decisions()) == {1}


def test_another_process_sees_decisions_and_undoes_them(store: Store, reviewed: Path) -> None:
    other = Store(reviewed / "audit")
    before = other.latest()
    store.decide([3, 4], "accept")
    assert [(row, outcome) for _, row, outcome, _ in other.changes(before)] == [
        (3, "relabel"),
        (4, "remove"),
    ]
    assert other.progress()["mislabelled"] == {"samples": 12, "decided": 1}
    assert other.progress("dog")["mislabelled"] == {"samples": 4, "decided": 0}
    other.undo()
    other.close()
    assert store.decisions() == {}


def test_decisions_are_synchronised_to_the_disk(store: Store) -> None:
    assert store._writer.execute("PRAGMA main.synchronous").fetchone() == (2,)  # FULL
    assert store._writer.execute("PRAGMA main.journal_mode").fetchone() == ("wal",)


def test_decisions_on_other_samples_are_refused(reviewed: Path) -> None:
    audit = reviewed / "audit"
    store = Store(audit)
    store.decide([1], "keep")
    store.close()
    with sqlite3.connect(audit / "decisions.sqlite") as database:
        database.execute("UPDATE decision SET id = 'another.png'")
    database.close()
    with pytest.raises(UserError, match="1 decisions on samples that are not in"):
        Store(audit)


def test_damaged_decisions_are_told_and_left_alone(reviewed: Path) -> None:
    damaged = reviewed / "audit" / "decisions.sqlite"
    damaged.write_bytes(b"junk" * 1000)
    with pytest.raises(
        UserError, match=r"decisions.sqlite can't be opened: file is not a database"
    ):
        Store(reviewed / "audit")
    assert damaged.read_bytes() == b"junk" * 1000
