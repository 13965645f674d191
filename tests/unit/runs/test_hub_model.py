"""``josrc export --format hf``: what timm reads from the folder, and what it is told of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from PIL import Image

import josrc as library
from commands import josrc


@pytest.fixture(scope="module")
def trained(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> library.Run:
    """A network of timm's with one layer on top. Nobody may change it."""
    options: dict[str, Any] = {"model": "test_resnet", "image_size": 28, "val": 0.2}
    return library.train(
        str(pictures), out=tmp_path_factory.mktemp("hub") / "run", epochs=1, method="standard",
        batch_size=32, device="cpu", settings={"model.head": "linear"}, **options,
    )  # fmt: skip


def test_timm_gives_the_same_probabilities(
    trained: library.Run, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "model"
    assert josrc("export", trained.path, "--format", "hf", "--out", folder) == 0
    assert "Checked with timm" in capsys.readouterr().out
    model: Any = timm.create_model(f"local-dir:{folder}", pretrained=True).eval()
    settings = timm.data.resolve_model_data_config(model)
    transform = timm.data.create_transform(**settings)
    paths = sorted(pictures.glob("*/00*.png"))
    images = torch.stack([transform(Image.open(path).convert("RGB")) for path in paths])
    with torch.no_grad():
        found = model(images).softmax(dim=1).numpy()
    expected = trained.predictor().probabilities([str(path) for path in paths])
    assert images.shape[2:] == (28, 28)
    # Sizes are rounded before the middle is cut out here, and after it there.
    np.testing.assert_allclose(found, expected, atol=0.02)
    assert model.pretrained_cfg["label_names"] == trained.predictor().class_names


def test_the_card_says_what_it_was_trained_on_and_how_good_it_is(
    trained: library.Run, tmp_path: Path
) -> None:
    assert josrc("export", trained.path, "--format", "hf", "--out", tmp_path / "model") == 0
    card = (tmp_path / "model" / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: timm\n")
    for name in ("zero", "one", "two", "three"):
        assert f"`{name}`" in card
    audit = trained.audit
    assert audit is not None
    assert f"{audit['noise_rate']:.1%} of the {audit['samples']:,} labels are wrong" in card
    assert f"agrees with {trained.summary['agreement']:.2f} %" in card
    assert "no accuracy is known" in card
    settings = json.loads((tmp_path / "model" / "config.json").read_text())
    assert settings["architecture"] == "test_resnet"
    assert settings["num_classes"] == 4


def test_what_timm_has_not_is_refused(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert josrc("export", finished, "--format", "hf", "--out", tmp_path / "model") == 2
    said = capsys.readouterr().err
    assert "timm does not know cnn7" in said
    assert "Use --format onnx or torch" in said
    assert not (tmp_path / "model").exists()


def test_other_files_are_left_alone(
    trained: library.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    assert josrc("export", trained.path, "--format", "hf", "--out", tmp_path) == 2
    assert "holds thesis.txt, which is not part of a model" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
