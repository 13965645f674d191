"""Data sets of the Hugging Face hub."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from josrc.errors import UserError
from manifests import opened


def test_a_hugging_face_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=["dog", "cat"])}
    )
    pictures = [Image.new("RGB", (9, 9), (number, 0, 0)) for number in range(6)]
    whole = datasets.Dataset.from_dict(
        {"image": pictures, "label": [0, 1, 0, 1, 0, 1]}, features=features
    )
    parts = {"train": whole.select(range(4)), "test": whole.select(range(4, 6))}
    datasets.DatasetDict(parts).save_to_disk(tmp_path / "saved")
    source = opened(tmp_path / "saved")
    assert source.class_names == ["cat", "dog"]
    assert source.given.tolist() == [1, 0, 1, 0]
    assert source.test_labels is not None
    assert source.test_labels.tolist() == [1, 0]
    assert source.images.picture(3).getpixel((0, 0)) == (3, 0, 0)
    assert source.ids[3] == "train/3"
    files_of_test = source.test_images
    assert files_of_test is not None
    assert files_of_test.with_tile(4).tiles(np.array([1]))[0, 0, 0, 0] == 5  # type: ignore[union-attr]

    numbers = datasets.Dataset.from_dict({"image": pictures, "label": [3.0, None, 10, 3, 10, 3]})
    numbers.save_to_disk(tmp_path / "numbers")
    assert opened(tmp_path / "numbers").class_names == ["3", "10"]


def saved(folder: Path, *, image: str = "png", label: str = "number", other: bool = False) -> Path:
    """A Hugging Face data set saved to disk, with something wrong about it."""
    datasets = pytest.importorskip("datasets")
    content = io.BytesIO()
    Image.new("RGB", (9, 9)).save(content, "PNG")
    images = {"png": {"bytes": content.getvalue(), "path": None}, "text": "a.png", "number": 1.5}
    kinds = {"png": datasets.Image(), "text": datasets.Value("string")}
    labels = {"number": 1, "beyond": 7, "negative": -3, "list": [0, 1]}
    classes = datasets.ClassLabel(names=["dog", "cat"])
    if label == "list":
        classes = datasets.Sequence(datasets.Value("int64"))
    features = {"image": kinds.get(image, datasets.Value("float64")), "label": classes}
    rows = {"image": [images[image]] * 4, "label": [labels[label]] * 4}
    if label in ("beyond", "negative"):  # the library refuses them itself, but reads them
        features["label"] = datasets.Value("int64")
    whole = datasets.Dataset.from_dict(rows, features=datasets.Features(features))
    if label in ("beyond", "negative"):
        whole.info.features["label"] = classes
    parts = {"train": whole}
    if other:
        parts["test"] = whole.rename_column("label", "class")
    datasets.DatasetDict(parts).save_to_disk(folder)
    return folder


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"image": "text"}, "column 'image' holds Value"),
        ({"image": "number"}, "column 'image' holds Value"),
        ({"label": "beyond"}, "has the label 7, and there are 2 classes"),
        ({"label": "negative"}, "has the label -3, and there are 2 classes"),
        ({"label": "list"}, "to have several labels, such as [0, 1]"),
        ({"other": True}, "split 'test' has no column 'label', but image, class"),
    ],
)
def test_a_data_set_of_the_hub_that_is_not_one_of_labelled_images(
    wrong: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = str(saved(tmp_path / "saved", **wrong))
    with pytest.raises(UserError) as error:
        opened(path)
    assert message in str(error.value)
    assert path in str(error.value)
