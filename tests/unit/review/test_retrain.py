"""The command that trains on corrected data."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import timm
import torch

from applied import command_of, sections
from commands import josrc
from josrc.data.registry import open_source
from josrc.review.retrain import train_again
from josrc.runs.data import with_noise_rate
from josrc.runs.start import plan
from reviewing import decide

# What a run was given beside SHORT, and what of it the next one needs, in the order of the options.
SHORT = ["--epochs", "1", "--device", "cpu", "--workers", "0"]


TRAINED = {
    "network and method": (
        ["optimizer.lr=1e-5", "optimizer.rates=[0.01, 0.001]", "--image-size", "32",
         "--model", "test_resnet.r160_in1k", "method.forget_rate=0.2", "--method", "coteaching"],
        ["--method", "coteaching", "--model", "test_resnet.r160_in1k", "--image-size", "32",
         *SHORT, "method.forget_rate=0.2", "optimizer.lr=1.0e-05", "optimizer.rates=[0.01, 0.001]"],
    ),
    "weights": (
        ["--model", "test_resnet", "--image-size", "32", "--weights", "{home}/of you.pt"],
        ["--model", "test_resnet", "--weights", "{home}/of you.pt", "--image-size", "32", *SHORT],
    ),
    "labels and splits are written": (
        ["--inject", "symmetric:0.3", "--val", "0.2", "--method", "standard"],
        ["--method", "standard", *SHORT],
    ),
    "what josrc chooses by itself": (
        ["--model", "cnn7", "--image-size", "32", "--batch-size", "8", "--method", "josrc"], SHORT,
    ),
    "tests": (
        ["views.flip=false", "--seed", "3", "--test", "{home}/photos"],
        ["--epochs", "1", "--seed", "3", "--device", "cpu", "--test", "{home}/photos",
         "--workers", "0", "views.flip=false"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TRAINED)
def test_the_printed_command_trains_as_the_run_was_trained(
    name: str,
    reviewed: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(reviewed.parent)
    torch.save(timm.create_model("test_resnet").state_dict(), "of you.pt")
    given, needed = ([word.format(home=Path.cwd()) for word in words] for words in TRAINED[name])
    assert josrc("train", "photos", *given, *SHORT, "--out", "first") == 0
    decide(Path("first"), ([0], "remove"))
    out = Path("else where") / "clean.csv"
    capsys.readouterr()
    assert josrc("apply", "first", "--out", out) == 0
    command = command_of(capsys.readouterr().out)
    assert command == ["train", str(out), *needed]
    assert josrc(*command) == 0
    (again,) = Path("runs").iterdir()
    assert sections(again) == sections(Path("first"))


def test_the_printed_command_asks_for_pretrained_weights_again(reviewed: Path) -> None:
    photos = reviewed.parent / "photos"
    for options, words in (
        ({}, ""),
        ({"model": "resnet18", "pretrained": True}, " --model resnet18 --pretrained"),
        ({"image_size": 224}, " --image-size 224"),
        ({"image_size": 32}, ""),  # what josrc chooses by itself
    ):
        config, source = plan(str(photos), **options)
        assert source is not None
        assert train_again(config, source, ["a b.csv"], new=True) == f"josrc train 'a b.csv'{words}"


def test_the_printed_command_finds_named_data_and_its_recipe_again(
    small_cifar: None, tmp_path: Path
) -> None:
    options = {"noise": "symmetric", "rate": 0.2, "method": "jocor", "data_root": tmp_path}
    config, _ = plan("cifar80n-o", recipe="plain", **options)
    source = open_source(config.data)
    config = with_noise_rate(config, source)
    words = ["cifar80n-o", "--noise-file", "new.csv"]
    # The forget rate is the data's, and corrected data has another.
    assert train_again(config, source, words, new=False) == (
        "josrc train cifar80n-o --noise-file new.csv --recipe plain "
        f"--data-root {tmp_path} --method jocor"
    )
    # A folder of its images has no truth to take it from, and no recipe.
    words = shlex.split(train_again(config, source, ["folder"], new=True))
    assert f"method.forget_rate={(source.given != source.true).mean()}" in words
    assert not {"--recipe", "--data-root", "--noise"} & set(words)
