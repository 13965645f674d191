"""``josrc export --format hf``: what timm reads from the folder, and what it is told of it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import timm
import torch
from PIL import Image

import josrc as library
from commands import josrc
from josrc.runs.model_card import model_card


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
    assert f"{audit['noise_rate']:.1%} of the {audit['samples']:,} labels" in card
    assert f"agree with {trained.metrics[-1]['agreement']:.2f} %" in card
    assert "no accuracy is known" in card
    assert "begun with random weights" in card
    assert "\nlicense:" not in card
    assert "None is stated." in card
    settings = json.loads((tmp_path / "model" / "config.json").read_text())
    assert settings["architecture"] == "test_resnet"
    assert settings["num_classes"] == 4


def test_every_claim_of_the_card_is_of_this_run(trained: library.Run, tmp_path: Path) -> None:
    """Runs that differ from the trained one in what the card tells of."""
    rows = [
        {**trained.metrics[0], "epoch": epoch, "test_accuracy": accuracy}
        for epoch, accuracy in ((1, 71.0), (2, 64.0))
    ]
    tested = {"best": 71.0, "best_epoch": 1, "final": 64.0, "last10_mean": 67.5, "epochs": 2}

    def card(
        last: bool = False, summary: Any = None, audit: Any = None, plant: float = 0, **data: Any
    ) -> str:
        config = trained.config.model_copy(
            update={"plant": plant, "data": trained.config.data.model_copy(update=data)}
        )
        run = SimpleNamespace(
            config=config, metrics=rows, audit=audit, summary=trained.summary | (summary or tested)
        )
        predictor = SimpleNamespace(epoch=1 + last, class_names=["a`b", "c"])
        settings = {"architecture": "resnet18", "num_classes": 2}
        text: str = model_card(run, predictor, settings, last=last)  # type: ignore[arg-type]
        return " ".join(text.split())

    best = card()
    assert "those of epoch 1, the best on the test images: these chose it" in best
    assert "| these weights | 71.00 % | | mean of the last epochs (10 at most) | 67.50 %" in best
    assert "The labels are those that the data came with. ##" in best
    assert "set wrong" not in best
    assert "came with. 3.0% of them were set wrong during the training" in card(plant=0.03)
    assert "epoch 2, the last one." in card(last=True)
    assert "| these weights | 64.00 %" in card(last=True)
    assert "test images in `mine.csv`" in card(test="/home/me/mine.csv")
    assert "/home/me" not in card(test="/home/me/mine.csv")
    checked = tested | {"val_chosen": 71.0, "test_best": 72.0}
    assert "labels for validation that were checked" in card(summary=checked)
    assert "people gave, the set `worst`" in card(noise="worst")
    assert "on purpose: symmetric, rate 0.2." in card(noise="symmetric", rate=0.2)
    assert "of the file `labels.csv`" in card(noise_file=Path("/home/me/labels.csv"))
    audit = trained.audit | {"planted": None, "known_noise_rate": 0.25}  # type: ignore[operator]
    assert "By what josrc was given, 25.0% of the" in card(audit=audit)
    audit |= {"known_noise_rate": None, "noise_rate_low": 0.01}
    assert "look wrong, and at the least 1.0% are; nothing could measure" in card(audit=audit)
    measured = {"planted": {"count": 9}, "noise_rate_low": 0.01, "noise_rate_high": 0.3}
    assert "(90 % interval: 1.0% to 30.0%), measured by" in card(audit=audit | measured)


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
    assert "contains thesis.txt, which is not part of a model" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
