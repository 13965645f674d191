"""Predictions and features of a user's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas
import pytest
from PIL import Image
from sklearn.datasets import load_digits

import josrc as package
from commands import josrc
from drawn_digits import CLASSES, drawn
from josrc.errors import UserError


def test_own_predictions_come_as_a_file(
    digits: tuple[np.ndarray, np.ndarray, np.ndarray],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, given, true = digits
    folder, few = tmp_path / "images", 240
    for number in range(few):
        path = folder / f"c{given[number]}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(load_digits().images[number].astype(np.uint8) * 15).save(path)
    probabilities = np.full((few, CLASSES), 0.02)
    probabilities[np.arange(few), true[:few]] = 0.82
    frame = pandas.DataFrame(probabilities, columns=[f"c{k}" for k in range(CLASSES)])
    frame["id"] = [f"c{given[number]}/{number}.png" for number in range(few)]
    frame.sample(frac=1, random_state=0).to_parquet(tmp_path / "probs.parquet")
    run = tmp_path / "RUN"
    assert josrc("scan", folder, "--probs", tmp_path / "probs.parquet", "--out", run) == 0
    lines = pandas.read_csv(run / "audit" / "verdicts.csv")
    place = lines["id"].str.extract(r"/(\d+)\.png")[0].astype(int).to_numpy()
    accused = (lines["verdict"] != "clean").to_numpy()
    assert np.array_equal(accused, given[place] != true[place])
    frame.drop(index=3).to_parquet(tmp_path / "fewer.parquet")
    capsys.readouterr()
    fewer = ["--probs", tmp_path / "fewer.parquet", "--out", tmp_path / "R"]
    assert josrc("scan", folder, *fewer) == 2
    assert "no row for 1 of the images" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("probs", "told"),
    [
        (np.ones((10, 3)), "has 10 rows, but the data has 12 images"),
        (np.ones((12, 2)) / 2, "has 2 columns, but there are 3 classes"),
        (np.full((12, 3), np.nan), "NaN or infinite"),
        (np.full((12, 3), -1.0), "Apply a softmax first"),
        (np.full((12, 3), 0.5), "do not sum to 1"),
        (np.ones(12), "one row per image"),
        (np.ones((12, 0)), "one row per image"),
    ],
)
def test_predictions_that_do_not_fit_are_refused(
    probs: np.ndarray, told: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=told):
        package.scan(["a", "b", "c"] * 4, probs=probs, out=tmp_path / "RUN")
    assert not (tmp_path / "RUN" / "config.yaml").exists()


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (np.full((12, 4), np.nan), "has 12 rows with NaN or infinite values, the first for"),
        (np.ones((11, 4)), "has 11 rows, but the data has 12 images"),
        (np.ones(12), "one row per image"),
    ],
)
def test_features_that_do_not_fit_are_refused_on_the_command_line(
    rows: np.ndarray, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = drawn(tmp_path / "pictures", 4), tmp_path / "RUN"
    np.save(tmp_path / "features.npy", rows)
    assert josrc("scan", folder, "--features", tmp_path / "features.npy", "--out", out) == 2
    said = capsys.readouterr().err
    assert told in said
    assert "features.npy" in said
    assert "Traceback" not in said
