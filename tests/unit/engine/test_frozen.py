"""Features of a frozen backbone, and the head that learns from them."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import josrc as package
from commands import josrc
from heads import FAST, LITE, answer, config_of, draw
from josrc.engine.interruption import StopRequest
from josrc.methods import get_method, method_names
from josrc.methods.base import SmallLossSettings
from josrc.models import create_model
from josrc.verdicts.evidence import Evidence
from josrc.verdicts.predictions import predict_labels
from josrc.verdicts.rule import FROZEN_FEATURE_WEIGHT


def test_weights_hold_the_whole_network_and_its_backbone_is_the_published_one(run: Path) -> None:
    weights = load_file(run / "weights" / "last.safetensors")
    published = create_model(LITE, 3, pretrained=True).backbone.state_dict()
    for key, value in published.items():
        assert torch.equal(weights[f"network.backbone.{key}"], value), key
    assert (run / "audit" / "verdicts.csv").is_file()
    assert (run / "plots" / "views.png").is_file()


def test_a_head_learns_what_the_features_show(run: Path) -> None:
    summary = package.Run.load(run).summary
    assert summary["final"] > 60  # a third by chance


def test_a_resumed_head_has_the_same_bits(
    photos: Path, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped, asked = tmp_path / "stopped", []

    def granted(request: StopRequest) -> bool:
        asked.append(None)
        if len(asked) < 18:  # in the second epoch
            return False
        request.signal = 15
        return True

    arguments = [photos, *FAST, "--epochs", "3", "--test", photos]
    with monkeypatch.context() as patch:
        patch.setattr(StopRequest, "is_granted", granted)
        assert josrc("train", *arguments, "--out", stopped) != 0
    assert not (stopped / "summary.json").exists()
    features = (stopped / "checkpoint" / "features.safetensors").read_bytes()
    assert josrc("resume", stopped, "--quiet") == 0
    assert (stopped / "checkpoint" / "features.safetensors").read_bytes() == features
    whole, again = (load_file(folder / "weights" / "last.safetensors") for folder in (run, stopped))
    assert whole.keys() == again.keys()
    assert all(torch.equal(whole[key], again[key]) for key in whole)
    assert (run / "audit" / "verdicts.csv").read_text() == (
        stopped / "audit" / "verdicts.csv"
    ).read_text()


def test_a_head_whose_features_were_lost_computes_them_again(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped, asked = tmp_path / "stopped", []

    def granted(request: StopRequest) -> bool:
        asked.append(None)
        request.signal = 15
        return len(asked) == 2  # while features are computed

    with monkeypatch.context() as patch:
        patch.setattr(StopRequest, "is_granted", granted)
        assert josrc("train", photos, *FAST, "--epochs", "1", "--out", stopped) != 0
    assert not (stopped / "checkpoint" / "features.safetensors").exists()
    assert josrc("resume", stopped, "--quiet") == 0
    tiles = load_file(stopped / "checkpoint" / "features.safetensors")["train"]
    assert tiles.shape == (36, 2, 1280)
    assert tiles[:, 0].float().std() > 0.05


def test_predict_and_run_take_pictures(run: Path, photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "predictions.csv"
    assert josrc("predict", run, photos, "--out", out) == 0
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 36
    right = np.mean([Path(row["path"]).parent.name == row["predicted_label"] for row in rows])
    assert 100 * right == pytest.approx(package.Run.load(run).summary["final"], abs=6)
    named = package.Run.load(run).predict([rows[0]["path"]])
    assert list(named) == [rows[0]["predicted_label"]]


@pytest.mark.parametrize("kind", ["torch", pytest.param("onnx", marks=pytest.mark.slow)])
def test_an_export_is_the_whole_network(kind: str, run: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    assert josrc("export", run, "--format", kind, "--out", out) == 0
    assert out.stat().st_size > 12e6  # the backbone has 3.4 million weights
    assert (tmp_path / "model.json").is_file()


def test_held_out_images_and_planted_errors_serve_a_head(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    more = [*FAST[:-1], "0.1", "--val", "0.25", "--epochs", "3"]
    assert josrc("train", photos, *more, "--train", "head", "--out", out, "--quiet") == 0
    assert (out / "planted.npz").is_file()
    assert package.Run.load(out).summary["agreement"] is not None
    assert josrc("audit", out, "--noise-rate", "0.1") == 0
    # What the features say is what a scan would: neighbours and a probe, over all views.
    evidence, tensors = Evidence.read(out / "evidence.npz"), load_file(
        out / "checkpoint" / "features.safetensors"
    )  # fmt: skip
    assert evidence.features_weight == FROZEN_FEATURE_WEIGHT
    with np.load(out / "noise.npz") as noise:
        trained = evidence.trained(noise["given"])
    points = tensors["train"].float().mean(dim=1).numpy()
    said = predict_labels(points, trained, 3, torch.device("cpu"))
    said = said[np.arange(len(trained)), trained]
    np.testing.assert_allclose(evidence.features, said, rtol=1e-5)


def test_features_of_held_out_images_that_are_gone_are_kept(tmp_path: Path) -> None:
    photos, out = draw(tmp_path / "photos", 8), tmp_path / "run"
    more = ["--val", "0.25", "--epochs", "1", "--train", "head", "--quiet"]
    assert josrc("train", photos, *FAST, *more, "--out", out) == 0
    features = out / "checkpoint" / "features.safetensors"
    before = features.read_bytes()
    with (out / "audit" / "verdicts.csv").open() as file:
        *_, held = csv.DictReader(file)
    (photos / held["id"]).unlink()
    assert josrc("audit", out) == 0
    assert features.read_bytes() == before
    with (out / "audit" / "verdicts.csv").open() as file:
        *_, held = csv.DictReader(file)
    assert "the image was missing" in held["reason"]


def test_all_trains_the_backbone_at_a_lower_rate(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    short = [*FAST, "--epochs", "1", "--method", "standard", "--quiet"]
    assert josrc("train", photos, *short, "--train", "all", "--out", out) == 0
    assert config_of(out)["optimizer"]["backbone_factor"] == 0.1
    weights = load_file(out / "weights" / "last.safetensors")
    published = create_model(LITE, 3, pretrained=True).backbone.conv_stem.weight
    moved = (weights["network.backbone.conv_stem.weight"] - published).abs().max().item()
    assert 0 < moved <= 1.01e-4 * 20  # a step of Adam moves a weight by its rate at most


@pytest.mark.parametrize(
    "method",
    [
        # The others in a longer run: they differ in what a step is, not in what it sees.
        pytest.param(name, marks=[] if name in ("josrc", "dividemix") else pytest.mark.slow)
        for name in method_names()
    ],
)
def test_every_method_trains_a_head(method: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    labels = np.arange(48) % 3
    images = (random.random((48, 8, 8, 3)) * 120 + 60 * labels[:, None, None, None]).astype("u1")
    torch.manual_seed(0)
    torch.save(create_model("cnn7", 3, image_size=(8, 8)).state_dict(), tmp_path / "w.pt")
    settings: dict[str, Any] = {"views.stored": 3, "data.workers": 0}
    if issubclass(get_method(method).Settings, SmallLossSettings):
        settings["method.forget_rate"] = 0.2
    if method == "cleannet":
        settings |= {"method.verified_share": 0.3, "data.noise": "symmetric", "data.rate": 0.2}
    run = package.train(
        (images, labels),
        out=tmp_path / "run",
        method=method,
        model="cnn7",
        weights=tmp_path / "w.pt",
        train="head",
        epochs=2,
        device="cpu",
        settings=settings,
    )
    assert len(run.metrics) == 2
    assert len(run.predict(images)) == 48


def test_a_corrupt_file_of_weights_is_named(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "w.safetensors").write_bytes(b"hello")
    more = ["--weights", tmp_path / "w.safetensors", "--model", "test_resnet", "--image-size", "64"]
    assert "w.safetensors can't be read as weights" in answer(capsys, photos, *more)
