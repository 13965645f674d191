"""What is held out, tested on and left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from josrc.errors import UserError
from manifests import files, opened


def test_test_images_may_come_from_elsewhere(tmp_path: Path) -> None:
    files(tmp_path / "a", ["cat/0.png", "dog/1.png", "emu/2.png"])
    files(tmp_path / "b", ["emu/0.png", "cat/1.png"])
    source = opened(tmp_path / "a", test=tmp_path / "b")
    assert source.test_labels is not None
    assert source.test_labels.tolist() == [0, 2]
    assert len(source) == 3


def test_a_share_of_every_class_is_held_out(tmp_path: Path) -> None:
    labels = ["cat"] * 40 + ["dog"] * 10 + ["emu"]
    rows = [f"{number},{label}" for number, label in enumerate(labels)]
    (tmp_path / "m.csv").write_text("path,label\n" + "\n".join(rows))
    source = opened(tmp_path / "m.csv", val=0.2)
    assert source.val is not None
    assert np.bincount(source.val.given, minlength=3).tolist() == [8, 2, 0]
    assert np.bincount(source.given).tolist() == [32, 8, 1]
    assert set(source.ids) | set(source.val.ids) == {str(number) for number in range(51)}
    again = opened(tmp_path / "m.csv", val=0.2)
    assert again.val is not None
    assert list(again.val.ids) == list(source.val.ids)


def test_a_group_is_held_out_as_a_whole(tmp_path: Path) -> None:
    names = [f"{number:03}.png" for number in range(120)]
    files(tmp_path, names)
    rows = [f"{name},{n % 2},p{n // 5}" for n, name in enumerate(names[:-10])]
    rows += [f"{name},{n % 2}," for n, name in enumerate(names[-10:])]  # each by itself
    (tmp_path / "m.csv").write_text("\n".join(["path,label,patient", *rows]))
    source = opened(tmp_path / "m.csv", group_column="patient", val=0.25)
    assert source.val is not None
    held, kept = ({int(i[:3]) // 5 for i in part.ids if i < "110"} for part in (source.val, source))
    assert held
    assert not held & kept
    assert 24 <= len(source.val) <= 36
    assert 10 <= (source.val.given == 0).sum() <= 20
    again = opened(tmp_path / "m.csv", group_column="patient", val=0.25)
    assert again.val is not None
    assert list(again.val.ids) == list(source.val.ids)


def test_a_folder_has_no_group_column(tmp_path: Path) -> None:
    files(tmp_path, ["a/1.png", "b/1.png"])
    with pytest.raises(UserError, match="only a manifest has columns"):
        opened(tmp_path, group_column="patient", val=0.5)


def test_test_images_that_are_not_there_are_told(tmp_path: Path) -> None:
    files(tmp_path / "train", ["cat/1.png", "dog/1.png"])
    with pytest.raises(UserError, match="typo does not exist"):
        opened(tmp_path / "train", test=str(tmp_path / "typo"))
