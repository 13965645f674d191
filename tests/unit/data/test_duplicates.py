"""Exact copies: which images are there more than once, under which labels, in which part."""

from __future__ import annotations

import csv
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import josrc as library
from commands import josrc
from josrc.data.duplicates import find_duplicates, marks_of, tally
from josrc.data.images import ArrayImages
from josrc.data.readers.arrays import source_of
from josrc.runs.start import plan
from josrc.verdicts.duplicates import read_duplicates

FAST = ["--epochs", "1", "--device", "cpu", "--method", "standard", "--batch-size", "32"]


def pixels(count: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, 6, 6, 3), dtype=np.uint8)


@pytest.fixture
def copied(pictures: Path, tmp_path: Path) -> Path:
    """The pictures in ``train`` and some in ``test``; one has two labels, one is in both parts."""
    root = tmp_path / "copied"
    shutil.copytree(pictures, root / "train")
    for name in ("one", "two"):
        (root / "test" / name).mkdir(parents=True)
        new = root / "test" / name / "new.png"
        Image.new("RGB", (20, 24), "red" if name == "one" else "blue").save(new)
    first, second = sorted((root / "train" / "one").iterdir())[:2]
    shutil.copy(first, root / "train" / "zero" / "again.png")
    shutil.copy(second, root / "train" / "one" / "twice.png")
    shutil.copy(second, root / "test" / "one" / "leak.png")
    # The same bytes in a file that gives no image: nobody's copy.
    for name in ("b1", "b2"):
        (root / "train" / "one" / f"{name}.png").write_bytes(b"\x89PNG")
    return root


@pytest.mark.parametrize("where", ["data.resident=true", "data.resident=false"])
def test_a_run_lists_copies_and_warns_of_those_in_the_test_images(
    where: str, copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert josrc("train", copied, *FAST, where, "--workers", "2", "--out", run) == 0
    said = capsys.readouterr().out
    assert "2 pictures are there more than once, as 5 images; under different labels: 1." in said
    assert "1 of them are among both the training and the test images" in said
    with (run / "audit" / "duplicates.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    first, second = (sorted(copied.glob("train/one/0*.png"))[k] for k in (0, 1))
    assert [(row["group"], row["part"], row["path"], row["given_label"]) for row in rows] == [
        ("1", "training", str(first), "one"),
        ("1", "training", str(copied / "train" / "zero" / "again.png"), "zero"),
        ("2", "training", str(second), "one"),
        ("2", "training", str(copied / "train" / "one" / "twice.png"), "one"),
        ("2", "test", str(copied / "test" / "one" / "leak.png"), "one"),
    ]
    verdicts = library.Run.load(run).verdicts()
    for row in rows[:4]:
        judged = verdicts.iloc[int(row["row"])]
        assert (judged["path"], judged["verdict"]) == (row["path"], row["verdict"])
    assert rows[4]["verdict"] == ""
    report = (run / "audit" / "report.html").read_text()
    assert "different labels" in report
    assert "again.png" in report
    assert "leak.png" in report
    assert {(row["kind"], row["similarity"]) for row in rows} == {("exact", "1.0")}


def test_an_audit_keeps_the_list(copied: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert josrc("train", copied, *FAST, "--quiet", "--val", "0.3", "--out", run) == 0
    before = (run / "audit" / "duplicates.csv").read_text()
    assert josrc("audit", run) == 0
    assert (run / "audit" / "duplicates.csv").read_text() == before
    verdicts = library.Run.load(run).verdicts()
    known = [
        copy for copy in read_duplicates(run / "audit" / "duplicates.csv") if copy.part != "test"
    ]
    assert [copy.verdict for copy in known] == [verdicts.iloc[c.row]["verdict"] for c in known]
    assert [copy.path for copy in known] == [verdicts.iloc[c.row]["path"] for c in known]


def test_the_doctor_names_pictures_under_two_labels(
    copied: Path, pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert josrc("doctor", "data", copied) == 0
    said = capsys.readouterr().out
    assert "under different labels: 1" in said
    assert "One picture, different labels: " in said
    assert "again.png ('zero')" in said
    assert josrc("doctor", "data", pictures) == 0
    assert "No file is an exact copy of another." in capsys.readouterr().out


def test_images_in_memory_are_compared_too() -> None:
    images = pixels(12)
    images[7] = images[2]
    labels, test = np.arange(12) % 3, (images[:3].copy(), np.array([0, 1, 2]))
    _, source = plan((images, labels), test=test, val=0.3)
    assert source is not None
    found = list(source.listed_duplicates())
    assert {copy.part for copy in found} >= {"training", "test"}
    assert source.val is not None
    parts = {"training": source.images, "test": source.test_images, "held-out": source.val.images}
    seen = {}
    for copy in found:
        place = copy.row - len(source) if copy.part == "held-out" else copy.row
        seen.setdefault(copy.group, set()).add(parts[copy.part].pixels[place].tobytes())
    assert all(len(contents) == 1 for contents in seen.values())
    assert len(found) == 7  # 0 and 1 twice, 2 three times
    conflicts = {copy.group for copy in found if copy.given_label != found[0].given_label}
    assert 1 in conflicts or found[0].given_label != found[1].given_label


def test_labels_with_noise_on_purpose_are_those_of_the_run() -> None:
    images = pixels(40)
    images[20:] = images[:20]
    labels = np.arange(40) % 2
    labels[20:] = labels[:20]
    _, plain = plan((images, labels))
    _, noisy = plan((images, labels), inject="symmetric:0.5")
    assert plain is not None
    assert noisy is not None
    assert tally(plain.listed_duplicates()).conflicts == 0
    different = int((noisy.given[:20] != noisy.given[20:]).sum())
    assert tally(noisy.listed_duplicates()).conflicts == different > 0


def test_copies_are_found_among_many_by_16_bytes_each() -> None:
    count = 200_000
    marks = np.random.default_rng(0).integers(0, 2**63, (count, 2), dtype=np.uint64)
    marks[5], marks[70_000], marks[9] = marks[100_000], marks[100_000], marks[199_999]
    assert marks_of(marks.tobytes()).tolist()[:3] == marks[:3].tolist()
    blank = ArrayImages(np.zeros((count, 1, 1, 1), dtype=np.uint8))
    found = find_duplicates([(blank, marks), None, None])
    groups = {}
    for group, place in zip(found.group.tolist(), found.place.tolist(), strict=True):
        groups.setdefault(group, []).append(place)
    assert (
        len(
            find_duplicates([(np.zeros((0, 1, 1, 1), dtype=np.uint8), marks[:0]), None, None]).group
        )
        == 0
    )
    assert sorted(groups.values()) == [[5, 70_000, 100_000], [9, 199_999]]


def test_no_copy_is_no_news() -> None:
    source = source_of((pixels(6), [0, 1, 0, 1, 0, 1]), plan("digits-o")[0].data, "cnn7")
    assert list(source.listed_duplicates()) == []
    assert list(replace(source, duplicates=None).listed_duplicates()) == []
    assert tally(source.listed_duplicates()).sentences() == []
