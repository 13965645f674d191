"""From a folder of pictures to verdicts: known wrong labels and foreign pictures are found."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

import josrc
from commands import josrc as command

# Digits 0 to 7 are the classes; 8 and 9 are foreign and lie in folders of others.
CLASSES = 8
NOISE = 0.2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    """Class folders, and the true digit of every file."""
    root, generator = tmp_path_factory.mktemp("digits"), np.random.default_rng(0)
    digits, true = load_digits(), {}
    for number, (image, digit) in enumerate(zip(digits.images, digits.target, strict=True)):
        given = int(digit)
        if digit >= CLASSES:
            if generator.random() < 0.5:
                continue
            given = int(generator.integers(CLASSES))
        elif generator.random() < NOISE:
            given = int((digit + generator.integers(1, CLASSES)) % CLASSES)
        path = root / str(given) / f"{number:04}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(np.round(image * 15.9).astype(np.uint8)).save(path)
        true[str(path)] = int(digit)
    return root, true


@pytest.mark.slow
def test_wrong_labels_and_foreign_pictures_are_found(
    folder: tuple[Path, dict[str, int]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, true = folder
    run = tmp_path / "run"
    # As in the demo: pictures of 8x8 pixels, half the channels, and a digit is no mirrored digit.
    settings = ["model.width=0.5", "views.flip=false", "views.pad=1"]
    arguments = ["train", root, *settings, "--image-size", "8", "--epochs", "14"]
    assert command(*arguments, "--val", "0.1", "--device", "cpu", "--out", run) == 0
    assert "Verdicts:" in capsys.readouterr().out

    with (run / "audit" / "verdicts.csv").open(newline="") as file:
        rows = {str(root / row["id"]): row for row in csv.DictReader(file)}
    assert rows.keys() == true.keys(), "every picture has a verdict, those held out too"
    kinds = {
        path: "out_of_distribution"
        if digit >= CLASSES
        else ("clean" if Path(path).parent.name == str(digit) else "mislabelled")
        for path, digit in true.items()
    }
    wrong = {path for path, kind in kinds.items() if kind != "clean"}
    accused = {path for path, row in rows.items() if row["verdict"] != "clean"}
    assert len(wrong & accused) / len(accused) > 0.9
    assert len(wrong & accused) / len(wrong) > 0.9
    suggested = [
        rows[path]["suggested_label"] == str(true[path])
        for path in wrong & accused
        if kinds[path] == "mislabelled" and rows[path]["verdict"] == "mislabelled"
    ]
    assert np.mean(suggested) > 0.9
    foreign = {path for path, kind in kinds.items() if kind == "out_of_distribution"}
    called = {path for path, row in rows.items() if row["verdict"] == "out_of_distribution"}
    # Only where there is evidence for it: rather called mislabelled than foreign without.
    assert len(foreign & called) / len(called) > 0.8
    assert len(foreign & called) / len(foreign) > 0.6
    held_out = [row for row in rows.values() if row["reason"].startswith("Held out from training")]
    assert len(held_out) == pytest.approx(0.1 * len(rows), rel=0.1)

    before = (run / "audit" / "verdicts.csv").read_text()
    assert command("audit", run) == 0
    assert (run / "audit" / "verdicts.csv").read_text() == before

    frame = josrc.Run.load(run).verdicts()
    assert len(frame) == len(true)
    assert frame["p_clean"].between(0, 1).all()
