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
from PIL import Image
from safetensors import safe_open
from sklearn.datasets import load_digits

import josrc as package
from commands import josrc
from josrc.data import prepare, workers
from josrc.data.feature_file import FeatureWriter, open_features
from josrc.engine import stopwatch
from josrc.runs import features as feature_runs
from josrc.runs.features import FeatureExtractor
from josrc.verdicts import neighbours
from josrc.verdicts.neighbours import count_voters, nearest_neighbours, vote
from josrc.verdicts.predictions import judge_predictions

CLASSES = 10


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, given labels of which some are wrong, and true ones."""
    found = load_digits()
    true = found.target.astype(np.int64)
    generator = np.random.default_rng(0)
    wrong = generator.random(len(true)) < 0.1
    given = np.where(wrong, (true + generator.integers(1, CLASSES, len(true))) % CLASSES, true)
    return found.data.astype(np.float32), given, true


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


def drawn(folder: Path, count: int = 30, size: int = 40, seed: int = 1) -> Path:
    """Class folders of pictures that differ in colour and form; the first two are swapped."""
    generator = np.random.default_rng(seed)
    colours = {"red": (200, 40, 40), "green": (40, 180, 60), "blue": (50, 60, 210)}
    for label, colour in colours.items():
        for number in range(count):
            pixels = generator.integers(0, 60, (size, size, 3))
            left = int(generator.integers(2, 12))
            pixels[left : left + 20, left : left + 22] = colour
            path = folder / label / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels.astype(np.uint8)).save(path)
    first, second = folder / "red" / "0.png", folder / "blue" / "0.png"
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)
    return folder


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


def test_no_prediction_depends_on_the_label_of_its_own_image(
    digits: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    features, given, _ = digits
    neighbours = nearest_neighbours(features, count_voters(len(given), CLASSES))
    assert not (neighbours.index == np.arange(len(given))[:, None]).any()
    before = vote(neighbours, given, CLASSES)
    other = given.copy()
    other[7] = (other[7] + 1) % CLASSES
    assert np.array_equal(vote(neighbours, other, CLASSES)[7], before[7])
    assert before.sum(axis=1) == pytest.approx(1, abs=1e-5)


def test_an_index_finds_nearly_the_same_neighbours(
    digits: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    features, _, _ = digits
    exact = nearest_neighbours(features, 10, exact=True)
    fast = nearest_neighbours(features, 10, exact=False)
    shared = [
        len(set(one) & set(other)) / 10
        for one, other in zip(exact.index.tolist(), fast.index.tolist(), strict=True)
    ]
    assert np.mean(shared) > 0.95
    # By hand: the nearest one has the largest cosine of all.
    vectors = features - features.mean(axis=0)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosine = vectors[3] @ vectors.T
    cosine[3] = -2
    assert exact.index[3, 0] == cosine.argmax()
    assert exact.similarity[3, 0] == pytest.approx(cosine.max(), abs=1e-5)


def test_neighbours_are_found_in_the_cells_of_images_like_it(
    digits: tuple[np.ndarray, np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    features, given, _ = digits
    exact = nearest_neighbours(features, 10)
    monkeypatch.setattr(neighbours, "CELL_SIZE", 60)
    monkeypatch.setattr(neighbours, "PROBED_CELLS", 8)  # of 29 cells
    found = nearest_neighbours(features, 10, exact=False)
    shared = [
        len(set(one) & set(other)) / 10
        for one, other in zip(exact.index.tolist(), found.index.tolist(), strict=True)
    ]
    assert 0.9 < np.mean(shared) < 1  # it does not look at all of them
    assert (np.diff(found.similarity, axis=1) <= 0).all()
    assert not (found.index == np.arange(len(given))[:, None]).any()
    assert all(len(set(row)) == 10 for row in found.index.tolist())
    vectors = neighbours.directions(features)
    near = (vectors[5] * vectors[found.index[5]]).sum(axis=1)
    assert found.similarity[5] == pytest.approx(near, abs=1e-5)


def test_cells_that_hold_next_to_nothing_are_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    apart = np.zeros((60, 3), dtype=np.float32)
    apart[:, 0], apart[0] = 1, (-5, 1, 0)  # one image like no other, in a cell of its own
    apart += np.random.default_rng(0).normal(0, 0.01, apart.shape)
    monkeypatch.setattr(neighbours, "CELL_SIZE", 20)
    monkeypatch.setattr(neighbours, "PROBED_CELLS", 1)
    found = nearest_neighbours(apart, 5, exact=False)
    assert (found.index >= 0).all()
    assert np.isfinite(found.similarity).all()
    assert 0 not in found.index[0]


def test_files_that_do_not_fit_in_memory_are_decoded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = drawn(tmp_path / "pictures", 24)
    (folder / "red" / "3.png").write_bytes(b"no picture")
    options = {"image_size": 64, "workers": 0}
    package.scan(folder, out=tmp_path / "RESIDENT", **options)
    read: list[str] = []
    whole = workers.read_tile_and_thumbnail

    def counted(content: object, *sizes: int) -> object:
        read.append(str(content))
        return whole(content, *sizes)  # type: ignore[arg-type]

    monkeypatch.setattr(workers, "read_tile_and_thumbnail", counted)
    monkeypatch.setattr(workers, "read_tile", None)  # what a second look at a file would take
    monkeypatch.setattr(prepare, "RESIDENT_SHARE", 0)
    run = package.scan(folder, out=tmp_path / "RUN", **options)
    assert len(read) == len(set(read)) == 72
    assert len(run.verdicts()) == 71
    one, other = (
        open_features(tmp_path / name / "features.safetensors") for name in ("RESIDENT", "RUN")
    )
    assert one.shape == other.shape == (71, 1280)
    assert np.array_equal(one, other)


def test_a_scan_that_was_stopped_computes_no_features_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = drawn(tmp_path / "pictures", 24), tmp_path / "RUN"
    options = {"image_size": 64, "workers": 0, "out": out}
    monkeypatch.setattr(feature_runs, "SAVED_EVERY", 0.0)
    compute, asked = FeatureExtractor._compute, []

    def stopped(extractor: FeatureExtractor) -> None:
        asked.append(sum(len(rows) for rows, _ in extractor._waiting))
        if len(asked) == 2:
            raise KeyboardInterrupt
        compute(extractor)

    monkeypatch.setattr(FeatureExtractor, "_compute", stopped)
    with pytest.raises(KeyboardInterrupt):
        package.scan(folder, **options)
    before = sum(asked[:1])
    assert before > 0
    asked[:] = [0, 0, 0]  # no further stop
    package.scan(folder, **options)
    assert sum(asked) == 72 - before
    features = open_features(out / "features.safetensors")
    assert (features.astype(np.float32).std(axis=1) > 0).all()


@pytest.mark.slow
def test_a_scan_that_was_killed_ends_as_one_that_was_not(tmp_path: Path) -> None:
    folder, runs = drawn(tmp_path / "pictures", 24), (tmp_path / "WHOLE", tmp_path / "KILLED")
    options = ["--image-size", "64", "--workers", "0", "--out"]
    program = Path(__file__).parents[1] / "killed_scan.py"
    killed = subprocess.run([sys.executable, program, folder, *options, runs[1]], check=False)
    assert killed.returncode == -signal.SIGKILL
    noted = json.loads((runs[1] / "features.safetensors.progress.json").read_text())
    assert 0 < noted["done"] < 72
    for run in runs:
        assert josrc("scan", folder, *options, run) == 0
    for name in ("features.safetensors", "audit/verdicts.csv", "audit/summary.json"):
        assert (runs[0] / name).read_bytes() == (runs[1] / name).read_bytes()


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


def test_the_features_of_a_scan_that_was_stopped_are_gone_on_with(tmp_path: Path) -> None:
    path, ids = tmp_path / "features.safetensors", [f"image {i}" for i in range(6)]
    begun = FeatureWriter(path, ids, 3, {"model": "a"})
    begun.rows[:4] = 7
    begun.save(4)
    again = FeatureWriter(path, ids, 3, {"model": "a"})
    assert again.done == 4
    assert (again.rows[:4] == 7).all()
    assert FeatureWriter(path, ids, 3, {"model": "b"}).done == 0
    assert FeatureWriter(path, [*ids, "more"], 3, {"model": "a"}).done == 0
    last = FeatureWriter(path, ids, 3, {"model": "a"})
    assert last.done == 0  # what was known of the first file is not there any more
    last.rows[:] = np.arange(6)[:, None]
    last.finish()
    last = FeatureWriter(path, ids, 3, {"model": "a"})  # stopped while labels were judged
    assert last.done == 6
    last.finish(np.array([0, 2, 5]))
    assert open_features(path)[:, 0].tolist() == [0, 2, 5]
    with safe_open(path, framework="np") as file:
        assert bytes(file.get_tensor("ids")).decode() == "image 0image 2image 5"
    assert [file.name for file in tmp_path.iterdir()] == ["features.safetensors"]


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


def test_images_without_a_prediction_are_clean_without_confidence() -> None:
    generator = np.random.default_rng(2)
    given = generator.integers(0, 3, 300)
    probabilities = np.full((300, 3), 0.1)
    probabilities[np.arange(300), given] = 0.8
    probabilities[5] = np.nan
    judged = judge_predictions(probabilities, given)
    assert judged.verdicts.group[5] == 0
    assert judged.verdicts.confidence[5] == 0
    assert json.dumps(judged.measured)
