"""The map of all images: where features put them, and what a report draws of it."""

from __future__ import annotations

import base64
import csv
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from josrc.cli.main import main
from josrc.errors import UserError
from josrc.runs.start import report
from josrc.verdicts.feature_map import FeatureMap, make_map, read_map, write_map


def blobs(classes: int = 3, each: int = 40, channels: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Features of well separated classes, and the classes."""
    generator = np.random.default_rng(0)
    label = np.repeat(np.arange(classes), each)
    centre = 4 * generator.normal(size=(classes, channels))
    return (centre[label] + generator.normal(size=(len(label), channels))).astype(np.float32), label


def purity(position: np.ndarray, label: np.ndarray) -> float:
    """Share of points whose nearest neighbour is of their class."""
    away = np.linalg.norm(position[:, None] - position, axis=2)
    np.fill_diagonal(away, np.inf)
    return float(np.mean(label[away.argmin(axis=1)] == label))


def drawn(page: Path) -> dict[str, Any] | None:
    """What the script of a report draws as its map."""
    found = re.search(r'<script id="data"[^>]*>(.*?)</script>', page.read_text(), re.S)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data["map"]


def test_images_of_a_class_lie_together_whatever_the_scale_of_their_features() -> None:
    features, label = blobs()
    made = make_map(torch.from_numpy(features))
    assert made.position.shape == (120, 2)
    assert made.position.dtype == np.float32
    assert purity(made.position, label) > 0.95
    scaled = make_map(features * np.logspace(-3, 3, 8, dtype=np.float32))
    assert np.allclose(made.position, scaled.position, atol=1e-3)
    assert np.array_equal(make_map(features).position, made.position)


def test_parts_of_the_features_make_the_same_map(monkeypatch: pytest.MonkeyPatch) -> None:
    features, _ = blobs()
    whole = make_map(features)
    monkeypatch.setattr("josrc.verdicts.feature_map.NUMBERS_PER_CHUNK", 100)
    assert np.allclose(make_map(features).position, whole.position, atol=1e-5)


def test_an_outlier_squeezes_nobody() -> None:
    features, label = blobs()
    features[7] *= 1e4
    position = make_map(features).position
    assert np.abs(position).max() <= 2
    assert purity(position[label > 0], label[label > 0]) > 0.9


def test_images_without_features_have_no_place() -> None:
    features, _ = blobs()
    alone = make_map(np.delete(features, [3, 50], axis=0)).position
    features[3], features[50, 2] = np.nan, np.inf
    found = make_map(torch.from_numpy(features).half()).position
    assert np.flatnonzero(np.isnan(found[:, 0])).tolist() == [3, 50]
    assert np.allclose(np.delete(found, [3, 50], axis=0), alone, atol=1e-2)


@pytest.mark.parametrize("shape", [(0, 4), (1, 4), (2, 4), (9, 1)])
def test_few_images_and_a_single_channel_are_no_error(shape: tuple[int, int]) -> None:
    made = make_map(np.random.default_rng(0).normal(size=shape).astype(np.float32))
    assert made.position.shape == (shape[0], 2)
    assert np.isfinite(made.position).all()


def test_equal_features_lie_in_one_place() -> None:
    assert np.ptp(make_map(np.ones((30, 4), dtype=np.float32)).position) == 0


def test_features_of_a_network_that_has_diverged_are_no_error() -> None:
    features, _ = blobs()
    features[:60] *= 1e37
    assert np.isfinite(make_map(features).position).all()


@pytest.mark.slow
def test_umap_pulls_classes_apart_and_is_the_same_every_time() -> None:
    features, label = blobs(classes=12, each=25)
    made = make_map(features, "umap")
    assert purity(made.position, label) > 0.95
    assert np.array_equal(make_map(features, "umap").position, made.position)
    with pytest.raises(UserError, match="at least 20 images"):
        make_map(features[:5], "umap")


def test_without_its_library_umap_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(UserError, match=r"install josrc\[umap\]"):
        make_map(blobs()[0], "umap")
    with pytest.raises(UserError, match="no map 'tsne'"):
        make_map(blobs()[0], "tsne")  # type: ignore[arg-type]


def test_a_map_of_other_samples_is_none(tmp_path: Path) -> None:
    assert read_map(tmp_path, 5) is None
    write_map(tmp_path, FeatureMap(np.zeros((5, 2), dtype=np.float32), "umap"))
    made = read_map(tmp_path, 5)
    assert made is not None
    assert made.kind == "umap"
    assert read_map(tmp_path, 6) is None
    (tmp_path / "map.npz").write_bytes(b"no archive")
    with pytest.raises(UserError, match=r"map\.npz is damaged"):
        read_map(tmp_path, 5)


def test_a_training_leaves_a_map_of_its_training_and_held_out_images(finished: Path) -> None:
    with (finished / "audit" / "verdicts.csv").open() as file:
        rows = len(list(csv.DictReader(file)))
    assert rows == 120
    made = read_map(finished / "audit", rows)
    assert made is not None
    assert made.kind == "pca"
    assert np.isfinite(made.position).all()
    found = drawn(finished / "audit" / "report.html")
    assert found is not None
    place = np.frombuffer(base64.b64decode(found["x"]), "<u2")
    assert len(place) == 120
    span = made.position.max(axis=0) - made.position.min(axis=0)
    step = span.max() / 65_535
    assert np.allclose(np.diff(place.astype(float)) * step, np.diff(made.position[:, 0]), atol=1e-4)


def test_a_report_can_draw_its_map_anew_or_leave_it_out(finished: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    before = read_map(run / "audit", 120)
    assert before is not None
    assert drawn(report(run, map_kind="none")) is None
    (run / "audit" / "map.npz").unlink()
    assert drawn(report(run)) is None  # as of a run of an earlier josrc
    with pytest.raises(SystemExit, match="0"):
        main(["report", str(run), "--map", "pca"])
    after = read_map(run / "audit", 120)
    assert after is not None
    assert np.allclose(after.position, before.position, atol=1e-3)
    assert drawn(report(run)) is not None

    # The features that a scan keeps are used as they are.
    features = np.random.default_rng(0).normal(size=(120, 5)).astype(np.float16)
    save_file({"features": features}, run / "features.safetensors")
    report(run, map_kind="pca")
    kept = read_map(run / "audit", 120)
    assert kept is not None
    assert np.allclose(kept.position, make_map(features).position)
    (run / "features.safetensors").write_bytes(b"damaged")
    with pytest.raises(UserError, match=r"features\.safetensors is damaged"):
        report(run, map_kind="pca")
