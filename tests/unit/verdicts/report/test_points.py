"""The points of a map."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from josrc.verdicts.report import points
from josrc.verdicts.report.gallery import Scores


def test_what_is_accused_is_drawn_before_what_is_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(points, "MAX_POINTS", 30)
    verdict = np.repeat([0, 1], [80, 20])
    zero = np.zeros(100)
    scores = Scores(np.arange(100), verdict, np.full(100, -1), zero, zero)
    known = np.ones(100, dtype=bool)
    known[99] = False
    rows = points.choose_points(scores, known, [4, 5])
    assert len(rows) == 30
    assert {4, 5, *range(80, 99)} < set(rows.tolist())
    assert rows.tolist() == sorted(rows.tolist())
    assert rows.tolist() == points.choose_points(scores, known, [4, 5]).tolist()


def test_names_that_begin_alike_are_told_once(tmp_path: Path) -> None:
    from josrc.verdicts.table import VERDICT_COLUMNS

    names = ["a/b/1.png", "a/b/2.png", "a/ä\U0001f600x", "a/ä\U0001f600y", "c"]
    path = tmp_path / "verdicts.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(VERDICT_COLUMNS)
        for name in names:
            writer.writerow([name, "", "cat", "clean", "", 1, 0, 1, 0, "Reason."])
    found = points._ids(path, np.array([0, 1, 2, 3, 4]))
    assert found == [
        (0, "a/b/1.png"),
        (4, "2.png"),
        (2, "ä\U0001f600x"),
        (3, "\U0001f600y"),
        (0, "c"),
    ]
