"""``josrc doctor``: what is installed, and whether data is whole."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image
from torchvision.datasets import CIFAR100

from commands import josrc
from josrc import __version__
from josrc.cli._doctor import missing_packages


def test_it_says_what_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert josrc("doctor") == 0
    lines = capsys.readouterr().out.splitlines()
    found = dict(line.split(maxsplit=1) for line in lines)
    assert found["josrc"] == __version__
    assert found["torch"] == torch.__version__.partition("+")[0]
    for name in ("GPU", "memory", "disk", "compile", "Triton", "torchrun"):
        assert any(line.startswith(name) for line in lines)


def test_missing_parts_of_extras() -> None:
    required = [
        "torch>=2.11",
        "numpy>=2.0; extra == 'sound'",
        'josrc-no-such-part>=1; extra == "lacking"',
        "pandas>=2; python_version < '9' and extra == \"lacking\"",
        "josrc[sound,lacking]; extra == 'all'",
        "josrc-no-such-tool; extra == 'dev'",
    ]
    assert missing_packages(required) == {"lacking": ["josrc-no-such-part"], "sound": []}


def test_cifar_by_its_sums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert josrc("doctor", "data", "cifar80n-o", tmp_path) == 2
    assert "missing: train, test, meta" in capsys.readouterr().err
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    sums = {}
    for name in ("train", "test", "meta"):
        (folder / name).write_text(name)
        sums[name] = hashlib.md5(name.encode()).hexdigest()
    assert josrc("doctor", "data", "cifar100n-c", tmp_path) == 2
    assert "its md5 sums are not the published ones" in capsys.readouterr().err

    # With these sums in place of the published ones the files are right.
    monkeypatch.setattr(CIFAR100, "train_list", [["train", sums["train"]]])
    monkeypatch.setattr(CIFAR100, "test_list", [["test", sums["test"]]])
    monkeypatch.setattr(CIFAR100, "meta", CIFAR100.meta | {"md5": sums["meta"]})
    for place in (tmp_path, folder):
        assert josrc("doctor", "data", "cifar80n-o", place) == 0
        assert "cifar80n-o is ready to train on: josrc train cifar80n-o" in capsys.readouterr().out
    (folder / "meta").write_text("else")
    assert josrc("doctor", "data", "cifar80n-o", tmp_path) == 2


def test_own_images_are_all_decoded(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(pictures, copy)
    (copy / "one" / "broken.png").write_bytes(b"\x89PNG")
    assert josrc("doctor", "data", copy) == 0
    said = capsys.readouterr().out
    assert "120 images to train on, 0 held out, 0 to test on." in said
    assert f"Not an image: {copy / 'one' / 'broken.png'}: " in said
    for number in range(10):
        (copy / "one" / f"{number}.jpg").write_text("no picture")
    assert josrc("doctor", "data", copy) == 2
    assert "11 of 131 files could not be read" in capsys.readouterr().err


MANIFESTS = {
    "--path-column": ("where,label", "{name}", ["--path-column", "where"]),
    "--label-column": ("path,what", "{name}", ["--label-column", "what"]),
    "--allow-outside": ("path,label", "../{name}", ["--allow-outside"]),
}


@pytest.mark.parametrize("option", MANIFESTS)
def test_what_the_doctor_asks_for_to_read_a_manifest_it_takes(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    header, path, answer = MANIFESTS[option]
    folder = tmp_path / "lists" if option == "--allow-outside" else tmp_path
    folder.mkdir(exist_ok=True)
    lines = [header]
    for number in range(12):
        name = f"{number}.png"
        Image.new("RGB", (9, 9), (20 * number, 0, 0)).save(tmp_path / name)
        lines.append(f"{path.format(name=name)},{'ab'[number % 2]}")
    (folder / "all.csv").write_text("\n".join(lines))
    assert josrc("doctor", "data", folder / "all.csv") == 2
    assert option in capsys.readouterr().err
    assert josrc("doctor", "data", folder / "all.csv", *answer) == 0
    said = capsys.readouterr().out
    assert "12 images to train on" in said
    assert "ready to train on" in said


def test_a_mistake_is_one_clear_message(pictures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert josrc("doctor", "data", "cifar80") == 2
    assert (
        "no file, folder or data set 'cifar80'. Did you mean 'cifar80n-o'?"
        in capsys.readouterr().err
    )
    assert josrc("doctor", "data", pictures, pictures) == 2
    assert "is a path itself" in capsys.readouterr().err


def test_very_large_images_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for number in range(3):
            side = 120 if (name, number) == ("dog", 1) else 30
            picture = Image.new("RGB", (side, side), (90 * number, 50, len(name)))
            picture.save(tmp_path / name / f"{number}.png")
    monkeypatch.setattr("josrc.cli._doctor.VERY_LARGE", 120 * 120 - 1)
    assert josrc("doctor", "data", tmp_path) == 0
    said = capsys.readouterr().out
    assert f"Very large: {tmp_path / 'dog' / '1.png'}: 120 x 120 pixels" in said
    assert said.count("Very large") == 1
