"""The figure of calibration."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from audit_results import put, run_with, tenth
from josrc.bench.calibration_figure import tenths_of, write_calibration
from josrc.bench.results import load_results
from josrc.bench.tables import FOLDERS


def test_a_calibration_curve_counts_labels_and_not_runs() -> None:
    empty = {"calibration_0.2_share": 0.0, "calibration_0.2_promised": None}
    runs = [
        run_with(**tenth("0", 0.1, 0.02, 0.1), **tenth("0.9", 0.9, 0.96, 0.95), **empty),
        run_with(**tenth("0", 0.3, 0.06, 0.3), **tenth("0.9", 0.7, 0.98, 0.97)),
    ]
    low, high = tenths_of(runs)
    # One label in four of the lowest tenth is of the first run.
    assert tuple(low) == pytest.approx((0, 0.05, 0.25, 0.2))
    assert (high.begin, high.share) == pytest.approx((0.9, 0.8))


def test_the_picture_comes_with_its_numbers(tmp_path: Path) -> None:
    lowest, highest = tenth("0.1", 0.25, 0.15, 0.2), tenth("0.9", 0.75, 0.97, 0.9)
    put(tmp_path, "look-alikes-pairs-0.05", "josrc", **lowest, **highest)
    write_calibration(load_results(tmp_path, FOLDERS), tmp_path / "figures")
    assert (tmp_path / "figures/calibration.png").stat().st_size > 5000
    with (tmp_path / "figures/calibration.csv").open(newline="") as file:
        header, *lines = csv.reader(file)
    assert header == ["data", "cell", "from", "promised", "right", "share", "runs"]
    assert lines == [
        ["look-alikes", "pairs-0.05", "0.1", "0.1500", "0.2000", "0.2500", "1"],
        ["look-alikes", "pairs-0.05", "0.9", "0.9700", "0.9000", "0.7500", "1"],
    ]
