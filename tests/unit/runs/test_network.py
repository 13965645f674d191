"""Which network learns from own images."""

from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub import constants

from commands import josrc
from heads import FAST, LITE, answer, config_of


def test_auto_chooses_a_learned_network_and_says_why(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert josrc("train", photos, *FAST, "--epochs", "1", "--train", "auto", "--out", out) == 0
    said = capsys.readouterr().out
    assert f"Network: {LITE} with ImageNet weights, as the images are large enough to be" in said
    assert "Training only the head, on features that are computed once: a CPU takes" in said
    assert "The features of 2 views of each image stay in memory" in said
    model = config_of(out)["model"]
    assert (model["name"], model["train"], model["head"]) == (LITE, "head", "linear")


def test_without_weights_and_network_the_answer_comes_soon(
    photos: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "empty"))
    said = answer(capsys, photos, "--model", "resnet18", "--pretrained", "--train", "head")
    assert "https://huggingface.co/timm/resnet18.a1_in1k/resolve/main/model.safetensors" in said
    assert "--weights FILE" in said


def test_a_network_that_has_learned_nothing_gets_no_frozen_features(
    photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = answer(capsys, photos, "--model", "cnn7", "--train", "head")
    assert "Add --pretrained or --weights FILE, or leave out --model." in said


def test_another_word_is_answered_with_those_there_are(
    photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "model.train='heads' is not valid" in answer(capsys, photos, "--train", "heads")
