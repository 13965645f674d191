"""Lists of classes that look like a mistake."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from commands import josrc
from josrc.data.class_checks import warn_of_odd_classes
from josrc.runs.start import plan


def warnings(labels: list[str]) -> list[str]:
    images = np.random.default_rng(0).integers(0, 256, (len(labels), 6, 6), dtype=np.uint8)
    _, source = plan((images, labels))
    assert source is not None
    return warn_of_odd_classes(source)


def test_names_that_differ_in_case_or_blanks_are_told() -> None:
    names = ["Orange", "orange", "sea", "sea ", "Caf\u00e9", "Cafe\u0301", "lime", "limes"]
    (alike,) = warnings(names * 10)
    for group in ("'Orange' and 'orange'", "'sea' and 'sea '", "and 'Caf\u00e9'"):
        assert group in alike
    assert "lime" not in alike
    assert warnings(["cat", "dog"] * 10) == []


def test_small_classes_are_named_with_their_numbers() -> None:
    (small,) = warnings(["cat"] * 10 + ["dog"] * 9 + ["owl"] * 2)
    assert "fewer than 10 images: owl 2, dog 9." in small
    (many,) = warnings([f"c{number}" for number in range(30)])
    assert " and 22 more." in many


def test_training_and_doctor_warn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(24):
        path = tmp_path / "data" / ("Orange", "orange", "lime")[number % 3] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (9, 9), (10 * number, 0, 0)).save(path)
    short = ["--epochs", "1", "--device", "cpu", "--method", "standard", "--out", tmp_path / "run"]
    for words in (["train", tmp_path / "data", *short], ["doctor", "data", tmp_path / "data"]):
        assert josrc(*words) == 0
        said = capsys.readouterr().out
        assert "differ only in case or spaces: 'Orange' and 'orange'." in said
        assert "fewer than 10 images: Orange 8, lime 8, orange 8." in said
