"""Trackio."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import josrc as library


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of its own libraries
def test_trackio_holds_the_numbers_of_the_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    pytest.importorskip("trackio", reason="Trackio asks for an older Pillow than constraints.txt")
    options = {"method": "standard", "batch_size": 256, "device": "cpu", "log": ["trackio"]}
    run = library.train("digits-o", out=tmp_path / "run", epochs=2, **options)
    with closing(sqlite3.connect(tmp_path / "trackio" / "josrc.db")) as database:
        found = database.execute("SELECT step, metrics FROM metrics ORDER BY step").fetchall()
    heard = [(step, json.loads(metrics)["loss"]) for step, metrics in found]
    expected = [(row["epoch"], pytest.approx(row["loss"], rel=1e-4)) for row in run.metrics]
    assert heard == expected
