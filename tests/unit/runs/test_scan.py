"""Scans: verdicts without training, from features of a pretrained network or a user's own."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
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


@pytest.mark.slow
def test_a_scan_that_was_killed_ends_as_one_that_was_not(tmp_path: Path) -> None:
    folder, runs = drawn(tmp_path / "pictures", 24), (tmp_path / "WHOLE", tmp_path / "KILLED")
    options = ["--image-size", "64", "--workers", "0", "--out"]
    program = Path(__file__).parents[2] / "support" / "killed_scan.py"
    killed = subprocess.run([sys.executable, program, folder, *options, runs[1]], check=False)
    assert killed.returncode == -signal.SIGKILL
    noted = json.loads((runs[1] / "features.safetensors.progress.json").read_text())
    assert 0 < noted["done"] < 72
    for run in runs:
        assert josrc("scan", folder, *options, run) == 0
    for name in ("features.safetensors", "audit/verdicts.csv", "audit/summary.json"):
        assert (runs[0] / name).read_bytes() == (runs[1] / name).read_bytes()


def test_what_a_scan_has_not_judged_is_told_and_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, run, cleaned = tmp_path / "data", tmp_path / "RUN", tmp_path / "cleaned.csv"
    for part, count in (("train", 24), ("val", 3), ("test", 2)):
        drawn(data / part, count, seed=count)
    (data / "train" / "red" / "broken.png").write_bytes(b"no picture")
    assert josrc("scan", data, "--image-size", "64", "--out", run, "--quiet") == 0
    said = capsys.readouterr().out
    assert "Not judged: 1 file that gave no image" in said
    only = "Only training images were judged, and not the 9 held-out and 6 test images."
    assert f"{only} To judge them: josrc scan {data / 'val'}, and josrc scan" in said
    assert len(pandas.read_csv(run / "audit" / "verdicts.csv")) == 72
    assert josrc("report", run) == 0
    page = (run / "audit" / "report.html").read_text()
    assert only in page
    assert "1 file could not be read" in page
    # What was not judged is in the corrected data as it was.
    assert josrc("apply", run, "--auto", "0.5", "--out", cleaned) == 0
    parts = pandas.read_csv(cleaned)["split"].value_counts()
    assert parts.to_dict() == {"train": 72, "val": 9, "test": 6}


def test_without_a_network_the_file_to_fetch_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    folder = drawn(tmp_path / "pictures", 4)
    assert (
        josrc("scan", folder, "--model", "vit_small_patch14_dinov2", "--out", tmp_path / "R") == 2
    )
    told = capsys.readouterr().err
    assert "Fetch https://huggingface.co/timm/vit_small_patch14_dinov2" in told
    assert "--weights FILE" in told
