"""What a trial has reported."""

from __future__ import annotations

from pathlib import Path

from josrc.sweep.record import Record


def test_a_record_keeps_what_was_reported_before_an_epoch(tmp_path: Path) -> None:
    record = Record().with_report(1, 50.0).with_report(2, 60.0).with_report(3, 70.0)
    record.write(tmp_path / "record.json")
    found = Record.read(tmp_path / "record.json")
    assert found == record
    assert found.until(2).reports == [(1, 50.0), (2, 60.0)]
    assert found.with_report(2, 61.0).reports == [(1, 50.0), (2, 61.0)], "an epoch done again"
