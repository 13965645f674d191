"""The battery must be able to fail: each bad end is told from a good one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from battery import cases, record, watch
from battery.cases import Result
from battery.child import Ended
from battery.faults.compare import contents, differing
from battery.judge import name_outcome
from battery.serving.load import Acknowledged, replay

ENDS = {
    cases.ACCEPTED: Ended(0, 1, 0, None, "done", ""),
    cases.CLEAR: Ended(2, 1, 0, None, "", "josrc: no such file"),
    cases.TRACEBACK: Ended(2, 1, 0, None, "", "Traceback (most recent call last):\n"),
    cases.HANG: Ended(-9, 61, 0, "time", "", ""),
    cases.MEMORY: Ended(-9, 1, 3000, "memory", "", ""),
    cases.ESCAPE: Ended(0, 1, 0, None, "\x1b[2J", ""),
    cases.LONG: Ended(2, 1, 0, None, "", "x" * 9000),
    cases.CODE: Ended(2, 1, 0, None, "", ""),
}


@pytest.mark.parametrize("outcome", ENDS)
def test_an_end_has_its_name(outcome: str) -> None:
    assert name_outcome(ENDS[outcome], [], []) == outcome


def test_what_was_done_to_files_counts_before_all_else() -> None:
    good = ENDS[cases.ACCEPTED]
    assert name_outcome(good, ["a/victim"], []) == cases.OUTSIDE
    assert name_outcome(good, [], ["data/cat/0.png"]) == cases.LOST
    assert name_outcome(good, ["a/executed"], []) == cases.EXECUTED


def test_files_that_are_new_changed_or_gone_are_seen(tmp_path: Path) -> None:
    for name in ("kept", "changed", "gone", "out"):
        (tmp_path / name).write_text("before")
    before = watch.snapshot(tmp_path, ("out",))
    (tmp_path / "changed").write_text("behind")  # as long as before
    (tmp_path / "gone").unlink()
    (tmp_path / "new").symlink_to("nowhere")
    (tmp_path / "out").write_text("anything")
    after = watch.snapshot(tmp_path, ("out",))
    assert watch.written(before, after) == ["new"]
    assert watch.destroyed(before, after) == ["changed", "gone"]


def test_a_result_may_differ_in_times_alone(tmp_path: Path) -> None:
    for name, seconds, loss in (("one", 1.5, 0.25), ("slower", 9.0, 0.25), ("other", 1.5, 0.26)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.csv").write_text(f"epoch,loss,seconds\n1,{loss},{seconds}\n")
    one, slower, other = (contents(tmp_path / name) for name in ("one", "slower", "other"))
    assert differing(one, slower) == []
    assert differing(one, other) == ["metrics.csv"]


def test_a_decision_that_was_acknowledged_and_is_not_stored_is_found(tmp_path: Path) -> None:
    path, told = tmp_path / "decisions.sqlite", Acknowledged()
    changes = [(1, "keep", None, None, None), (1, "relabel", "cat", "keep", None)]
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE decision (row, outcome, label)")
        database.execute(
            "CREATE TABLE change (number INTEGER PRIMARY KEY, row, outcome, label, old_outcome, "
            "old_label)"
        )
        database.executemany(
            "INSERT INTO change (row, outcome, label, old_outcome, old_label) "
            "VALUES (?, ?, ?, ?, ?)",
            changes,
        )
        database.execute("INSERT INTO decision VALUES (1, 'relabel', 'cat')")
        database.commit()
    told.add([{"row": 1, "outcome": "keep", "label": None}])
    told.add([{"row": 1, "outcome": "relabel", "label": "cat"}])
    assert replay(path, told) == (0, 0)
    told.add([{"row": 1, "outcome": "keep", "label": None}])  # acknowledged after the other
    assert replay(path, told) == (1, 0)
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE decision SET label = 'dog'")
        database.commit()
    assert replay(path, told) == (1, 1)


def test_a_record_goes_on_and_may_forget_what_was_bad(tmp_path: Path) -> None:
    kept = record.Record(tmp_path / "results.jsonl")
    kept.add(Result("images", "a", cases.CLEAR))
    kept.add(Result("images", "b", cases.TRACEBACK))
    again = record.Record(kept.path)
    assert again.done == {("images", "a"), ("images", "b")}
    assert record.figures(again.results, {})["tracebacks"] == 1
    again.forget_bad()
    assert record.Record(kept.path).done == {("images", "a")}
