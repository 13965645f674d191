"""Folders of class folders."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from josrc.data.readers.folder import describe_left_out
from josrc.errors import UserError
from manifests import files, opened


def test_a_folder_of_class_folders(tmp_path: Path) -> None:
    files(tmp_path, ["dog/2.png", "cat/deep/1.png", "cat/0.png", "cat/.hidden.png"])
    (tmp_path / "empty").mkdir()
    source = opened(tmp_path)
    assert source.class_names == ["cat", "dog"]
    assert list(source.ids) == ["cat/0.png", "cat/deep/1.png", "dog/2.png"]
    assert source.given.tolist() == [0, 0, 1]
    assert source.test_images is None


def test_annotations_beside_images_are_no_broken_images(tmp_path: Path) -> None:
    files(tmp_path, ["cat/1.png", "cat/2.png", "dog/1.png", "dog/2.png"])
    beside = ["cat/1.json", "cat/2.json", "dog/1.json", "dog/2.JSON", "dog/Thumbs.db"]
    for name in (*beside, "dog/odd.xyz", "dog/none", "dog/1.heic"):
        (tmp_path / name).write_text("beside")
    source = opened(tmp_path)
    odd = ["dog/1.heic", "dog/1.png", "dog/2.png", "dog/none", "dog/odd.xyz"]
    assert list(source.ids) == ["cat/1.png", "cat/2.png", *odd]
    assert source.left_out == {"json": 4, "db": 1}
    (sentence,) = describe_left_out(source.left_out)
    assert sentence.endswith("not pictures: 4 .json, 1 .db.")
    for name in ("loose.png", "notes.txt", ".hidden.png"):
        (tmp_path / name).write_text("beside the classes")
    *_, sentence = describe_left_out(opened(tmp_path).left_out)
    assert sentence == "Ignored, as they are not in a class folder: 1."
    (tmp_path / "m.csv").write_text("path,label\ncat/1.json,cat\ndog/1.png,dog\n")
    assert list(opened(tmp_path / "m.csv").ids) == ["cat/1.json", "dog/1.png"], "named itself"


def test_runs_of_josrc_beside_the_classes_are_no_class(tmp_path: Path) -> None:
    files(tmp_path, ["cat/0.png", "dog/1.png", "runs/first/plots/views.png"])
    for name in ("config.yaml", "environment.json", "noise.npz"):
        (tmp_path / "runs" / "first" / name).touch()
    assert opened(tmp_path).class_names == ["cat", "dog"]


def test_a_class_folder_that_can_not_be_listed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(tmp_path, ["cat/0.png", "dog/1.png"])
    listed = os.scandir

    def refused(path: str) -> Any:  # for the superuser no permission is lacking
        if str(path).endswith("dog"):
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(UserError, match="dog can't be read: Permission denied"):
        opened(tmp_path)


def test_a_folder_that_is_already_split(tmp_path: Path) -> None:
    files(tmp_path, ["train/cat/0.png", "train/dog/1.png", "test/dog/2.png", "val/cat/3.png"])
    source = opened(tmp_path)
    assert list(source.ids) == ["train/cat/0.png", "train/dog/1.png"]
    assert source.test_labels is not None
    assert source.test_labels.tolist() == [1]
    assert source.val is not None
    assert source.val.given.tolist() == [0]


def test_folders_without_images_are_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="contains no images in class folders"):
        opened(tmp_path)
    files(tmp_path, ["loose.png"])
    with pytest.raises(UserError, match="contains no images in class folders"):
        opened(tmp_path)
