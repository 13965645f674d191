"""Scans: verdicts without training, from features of a pretrained network or a user's own."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import numpy as np
import pandas
import pytest
from safetensors import safe_open

import josrc as package
from commands import josrc
from drawn_digits import drawn
from josrc.engine import stopwatch


class LeapingClock:
    """A clock that leaps a year ahead each time it is asked but for the first."""

    def __init__(self) -> None:
        self.asked = -1

    def monotonic(self) -> float:
        """Seconds."""
        self.asked += 1
        return time.monotonic() + 3e7 * self.asked

    def process_time(self) -> float:
        """Seconds of work."""
        return time.process_time()


def test_the_seconds_of_a_scan_leave_out_leaps_of_the_clock(
    digits: tuple[np.ndarray, np.ndarray, np.ndarray],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    features, given, _ = digits
    clock = LeapingClock()
    monkeypatch.setattr(stopwatch, "time", clock)
    run = package.scan(given[:60], features=features[:60], out=tmp_path / "RUN")
    assert clock.asked > 1, "features and verdicts are laps of their own"
    assert 0 < run.summary["seconds_total"] < 3600


def test_wrong_labels_are_found_by_features_alone(
    digits: tuple[np.ndarray, np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    features, given, true = digits
    run = package.scan(given, features=features, out=tmp_path / "RUN")
    verdicts, wrong = run.verdicts(), given != true
    accused = (verdicts["verdict"] != "clean").to_numpy()
    assert wrong[accused].mean() > 0.9
    assert accused[wrong].mean() > 0.8
    audit = run.audit
    assert audit is not None
    assert audit["noise_rate_low"] <= wrong.mean() <= audit["noise_rate_high"]
    assert audit["planted"]["count"] > 1000
    suggested = verdicts["suggested_label"].to_numpy()[accused & wrong]
    assert np.mean(suggested == true[accused & wrong].astype(str)) > 0.9


def test_clean_labels_are_called_clean(
    digits: tuple[np.ndarray, np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    features, _, true = digits
    run = package.scan(true, features=features, out=tmp_path / "RUN")
    assert run.audit is not None
    assert run.audit["counts"]["clean"] >= 0.98 * len(true)


def test_a_folder_of_pictures_is_scanned_reported_and_corrected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, run = drawn(tmp_path / "pictures"), tmp_path / "RUN"
    assert josrc("scan", folder, "--out", run, "--image-size", "64") == 0
    assert "Scanned in" in capsys.readouterr().out
    lines = pandas.read_csv(run / "audit" / "verdicts.csv").set_index("id").sort_values("score")
    assert set(lines.index[:2]) == {"red/0.png", "blue/0.png"}
    assert (run / "audit" / "report.html").stat().st_size > 10_000
    page = (run / "audit" / "report.html").read_text()
    assert "without training" in page
    assert 'href="#training"' not in page  # there is nothing to go to
    assert not (run / "weights").exists()
    with safe_open(run / "features.safetensors", framework="np") as file:
        features = file.get_tensor("features")
        assert features.dtype == np.float16
        assert len(features) == 90
        ends = file.get_tensor("id_ends")
        first = bytes(file.get_tensor("ids")[: ends[0]]).decode()
    assert first in lines.index
    assert josrc("report", run) == 0
    capsys.readouterr()
    assert josrc("audit", run, "--new", drawn(tmp_path / "new", 3, seed=2)) == 0
    assert "9 new images, judged by features of tf_efficientnet_lite0" in capsys.readouterr().out
    judged = pandas.read_csv(run / "audit" / "new-verdicts.csv")
    worst = judged.sort_values("score")["path"].tolist()[:2]
    assert sorted(Path(path).relative_to(tmp_path).as_posix() for path in worst) == [
        "new/blue/0.png",
        "new/red/0.png",
    ]
    assert judged.columns.tolist() == [lines.index.name, *lines.columns]
    assert josrc("audit", run, "--noise-rate", "0.5") == 0
    told = json.loads((run / "audit" / "summary.json").read_text())
    assert told["known_noise_rate"] == 0.5
    assert told["counts"]["clean"] == pytest.approx(45, abs=3)
    assert josrc("audit", run, "--ood-rate", "0") == 0
    capsys.readouterr()
    assert josrc("audit", folder) == 2
    assert f"josrc scan {folder}" in capsys.readouterr().err
    cleaned = tmp_path / "cleaned.csv"
    assert josrc("apply", run, "--auto", "0", "--out", cleaned) == 0
    assert f"Train again: josrc train {cleaned}\n" in capsys.readouterr().out
    labels = pandas.read_csv(cleaned)
    assert len(labels) >= 88
    loaded = package.Run.load(run)
    assert loaded.summary["method"] == "scan"
    assert josrc("predict", run, folder, "--out", tmp_path / "p.csv") == 2
    assert "has no network of its own" in capsys.readouterr().err


def test_weights_that_are_damaged_are_named_before_images_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, weights = drawn(tmp_path / "pictures", 4), tmp_path / "w.safetensors"
    weights.write_bytes(b"no weights")
    out = tmp_path / "RUN"
    assert josrc("scan", folder, "--weights", weights, "--out", out) == 2
    told = capsys.readouterr().err
    assert "w.safetensors" in told
    assert "Traceback" not in told
    assert not (out / "config.yaml").exists()


@pytest.mark.parametrize("count", [1, 5])
def test_a_single_class_or_image_is_told(
    count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = drawn(tmp_path / "pictures", count)
    for name in ("green", "blue"):
        shutil.rmtree(folder / name)
    assert josrc("scan", folder, "--image-size", "64", "--out", tmp_path / "RUN") == 2
    said = capsys.readouterr().err
    assert "red" in said
    assert "class" in said
    assert "Traceback" not in said
