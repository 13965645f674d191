"""Runs that a review has opened."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from exports import CLASSES, HEADER
from josrc.review.decisions import Store
from josrc.runs.start import plan
from josrc.verdicts.table import VERDICT_COLUMNS
from reviewing import decide


@pytest.fixture
def store(reviewed: Path) -> Iterator[Store]:
    opened = Store(reviewed / "audit")
    yield opened
    opened.close()


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    """A run on a manifest with extra columns: 6 training, 2 held-out and 2 test images."""
    from josrc.data.registry import open_source
    from josrc.engine.run_folder import RunFolder
    from josrc.runs.snapshot import write_record

    rows = []
    for number in range(10):
        name = f"pictures/{number}.png"
        (tmp_path / "pictures").mkdir(exist_ok=True)
        Image.new("RGB", (20 + number, 16), (20 * number, 90, 10)).save(tmp_path / name)
        split = "train" if number < 6 else "val" if number < 8 else "test"
        note = "" if number == 3 else f'said "{number}", once'
        rows.append([name, f"0{number}", CLASSES[number % 2], f"im-{number}", split, note, "old"])
    with (tmp_path / "all.csv").open("w", newline="") as file:
        csv.writer(file).writerows([HEADER, *rows])
    config, source = plan(str(tmp_path / "all.csv"), label_column="class", method="standard")
    assert source is not None
    assert source.val is not None
    folder = RunFolder(tmp_path / "run")
    folder.audit.mkdir(parents=True)
    write_record(folder.samples, source)
    folder.config.write_text(config.to_yaml())
    folder.write_skipped([])
    lines = []
    for row, part in enumerate([source] * 6 + [source.val] * 2):
        index, given = row % 6, CLASSES[row % 2]
        wrong = row in (0, 1)
        verdict = ("mislabelled", CLASSES[1 - row % 2]) if wrong else ("clean", "")
        score = -3.0 + row if wrong else row / 10
        numbers = ["0.1", "0.0", "0.9", str(score)]
        lines.append([part.ids[index], part.paths[index], given, *verdict, *numbers, "Because."])
    with (folder.audit / "verdicts.csv").open("w", newline="") as file:
        csv.writer(file).writerows([VERDICT_COLUMNS, *lines])
    assert open_source(config.data).ids[0] == "im-0"
    decide(folder.path, ([0], "accept"), ([2], "remove"), ([6], "keep"))
    return folder.path
