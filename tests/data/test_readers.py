"""Folders, manifests and hub data sets: what is found in them, and what is said of mistakes."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from josrc.data.readers.folder import describe_left_out
from josrc.data.registry import describe_data, open_source
from josrc.data.source import Source
from josrc.errors import UserError

ROWS = [("a/1.png", "cat"), ("a/2.png", "dog"), ("b/3.png", "cat"), ("b/ü 4.png", "dog")]


def opened(path: Path | str, **settings: Any) -> Source:
    return open_source(describe_data(str(path), **settings))


def files(root: Path, names: list[str]) -> None:
    for number, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (number, 0, 0)).save(root / name)


def write_csv(path: Path, comma: str = ",", header: str = "path,label") -> None:
    lines = [header.replace(",", comma), *(comma.join(row) for row in ROWS)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_jsonl(path: Path) -> None:
    rows = (json.dumps({"file_name": name, "label": label}) for name, label in ROWS)
    path.write_text("\n".join(rows), encoding="utf-8")


def write_parquet(path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    names, labels = zip(*ROWS, strict=True)
    parquet.write_table(arrow.table({"image": names, "class": labels, "other": [1] * 4}), path)


MANIFESTS: dict[str, Callable[[Path], None]] = {
    "m.csv": write_csv,
    "semicolons.csv": lambda path: write_csv(path, ";"),
    "tabs.csv": lambda path: write_csv(path, "\t"),
    "m.tsv": lambda path: write_csv(path, "\t", "Filename,Category"),
    "m.jsonl": write_jsonl,
    "m.parquet": write_parquet,
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_of_each_kind(tmp_path: Path, name: str) -> None:
    files(tmp_path, [path for path, _ in ROWS])
    MANIFESTS[name](tmp_path / name)
    source = opened(tmp_path / name)
    assert source.class_names == ["cat", "dog"]
    assert source.given.tolist() == [0, 1, 0, 1]
    assert list(source.ids) == [path for path, _ in ROWS]
    assert list(source.paths) == [str(tmp_path / path) for path, _ in ROWS]
    assert source.true is None
    assert source.kind is None
    assert [source.images.picture(index).getpixel((0, 0))[0] for index in range(4)] == [0, 1, 2, 3]


def test_the_first_object_decides_which_columns_there_are(tmp_path: Path) -> None:
    first, *others = ({"path": path, "label": label} for path, label in ROWS)
    richer = ({**row, "id": "x", "file": "y", "split": "exam"} for row in others)
    text = "\n".join(json.dumps(row) for row in (first, *richer))
    (tmp_path / "m.jsonl").write_text(text)
    assert list(opened(tmp_path / "m.jsonl").ids) == [path for path, _ in ROWS]


def test_columns_may_be_named(tmp_path: Path) -> None:
    write_csv(tmp_path / "m.csv", header="where,truth?")
    source = opened(tmp_path / "m.csv", path_column="where", label_column="truth?")
    assert source.given.tolist() == [0, 1, 0, 1]


def test_ids_and_splits_are_taken_from_their_columns(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text(
        "id,path,label,split\n7,a,cat,train\n8,b,dog,\n9,c,cat,test\n10,d,dog,validation\n"
    )
    source = opened(tmp_path / "m.csv")
    assert list(source.ids) == ["7", "8"]
    assert source.test_labels is not None
    assert source.test_labels.tolist() == [0]
    assert source.val is not None
    assert (list(source.val.ids), source.val.given.tolist()) == (["10"], [1])


def test_numbers_are_classes_in_the_order_of_numbers(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("path,label\na,10\nb,2\nc,10\nd,0\n")
    source = opened(tmp_path / "m.csv")
    assert source.class_names == ["0", "2", "10"]
    assert source.given.tolist() == [2, 1, 2, 0]


def test_rows_without_a_label_are_skipped_and_told(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("path,label\na,cat\nb,\nc,dog\nd\n,dog\n,cat\n")
    source = opened(tmp_path / "m.csv")
    assert list(source.ids) == ["a", "c"]
    assert source.skipped == (
        (str(tmp_path / "b"), "it has no label"),
        (str(tmp_path / "d"), "it has no label"),
        (f"{tmp_path}/", "its row names no file"),
        (f"{tmp_path}/", "its row names no file"),
    )


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
    assert sentence == "Left out, as they are not in a class folder: 1."
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


def test_many_rows_cost_little(tmp_path: Path) -> None:
    """Paths are bytes in one block: about as much memory as the manifest itself."""
    count = 20_000
    with (tmp_path / "m.csv").open("w") as file:
        file.write("path,label\n")
        file.writelines(f"images/{number:07}.jpg,{number % 7}\n" for number in range(count))
    source = opened(tmp_path / "m.csv")
    assert len(source) == count
    assert source.ids[12_345] == "images/0012345.jpg"
    assert source.given[12_345] == 12_345 % 7
    assert len(source.images.names.block) == 18 * count  # type: ignore[attr-defined]


# --- mistakes ------------------------------------------------------------------------------------


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


MISTAKES: dict[str, tuple[str, dict[str, Any], str]] = {
    "no label column": ("path,lable\na,1\n", {}, "no column for the label.*Did you mean 'lable'"),
    "no path column": ("pth,label\na,1\n", {}, "no column for the path.*--path-column"),
    "named column": ("path,lable\na,1\n", {"label_column": "label"}, "Did you mean 'lable'"),
    "group column": (
        "path,label,patient\na,1,x\nb,2,y\n",
        {"group_column": "patent", "val": 0.5},
        "no column 'patent'.*Did you mean 'patient'",
    ),
    "one group": (
        "path,label,patient\na,1,x\nb,2,x\n",
        {"group_column": "patient", "val": 0.5},
        "No group is small enough",
    ),
    "no header": ("a.png,cat\nb.png,dog\n", {}, r"its columns: a\.png, cat"),
    "one class": ("path,label\na,cat\nb,cat\n", {}, "one class, 'cat'"),
    "same id": ("id,path,label\n1,a,cat\n2,b,dog\n1,c,cat\n", {}, "images 1 and 3.*same id '1'"),
    "same path": ("path,label\na,cat\na,dog\n", {}, "images 1 and 2"),
    "outside": ("path,label\na,cat\n../b,dog\n", {}, "image 2: ../b lies outside.*--allow-outside"),
    "absolute": ("path,label\n/etc/passwd,cat\nb,dog\n", {}, "/etc/passwd lies outside"),
    "split": ("path,label,split\na,cat,trian\n", {}, "split 'trian'"),
    "empty": ("", {}, "is empty"),
    "header alone": ("path,label\n", {}, "holds no image"),
    "no label at all": ("path,label\na,\nb,\n", {}, "no labelled image"),
    "class of test only": ("path,label,split\na,cat,\nb,dog,\nc,emu,test\n", {}, "class 'emu'"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_a_manifest_is_told(tmp_path: Path, name: str) -> None:
    text, settings, message = MISTAKES[name]
    (tmp_path / "m.csv").write_text(text)
    with pytest.raises(UserError, match=message):
        opened(tmp_path / "m.csv", **settings)


def test_class_numbers_beside_an_empty_cell_stay_whole(tmp_path: Path) -> None:
    # pandas has no whole numbers in a column with an empty cell, and writes 3.0.
    frame = pd.DataFrame({"path": list("abcd"), "label": [3, None, 10, 3], "id": [7, 8, 9, 10]})
    frame.to_json(tmp_path / "m.jsonl", orient="records", lines=True)
    manifests = ["m.jsonl"]
    if find_spec("pyarrow"):
        frame.to_parquet(tmp_path / "m.parquet")
        manifests.append("m.parquet")
    for name in manifests:
        source = opened(tmp_path / name)
        assert source.class_names == ["3", "10"]
        assert list(source.ids) == ["7", "9", "10"]


def test_paths_may_leave_the_folder_when_asked_to(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text(f"path,label\n../a,cat\n{tmp_path}/b,dog\n/c,cat\n")
    source = opened(tmp_path / "m.csv", allow_outside=True)
    assert list(source.paths) == [f"{tmp_path}/../a", f"{tmp_path}/b", "/c"]


def test_a_path_that_comes_back_into_the_folder_is_fine(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text(f"path,label\nx/../a..b,cat\n{tmp_path}/b,dog\n")
    assert len(opened(tmp_path / "m.csv")) == 2


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("bad.jsonl", b'{"path": "a", "label": 1}\nnot json\n', "as a manifest: line 2: "),
        ("list.jsonl", b"[1, 2]\n", "not an object"),
        ("bad.csv", b"path,label\n\xff\xfe,1\n", "not UTF-8 text: save it as UTF-8"),
        ("bad.parquet", b"PAR0", "can't be read as a manifest"),
        ("notes.txt", b"hello", "neither a folder of class folders nor a manifest"),
    ],
)
def test_a_file_that_is_no_manifest_is_told(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        opened(tmp_path / name)


def test_what_is_wrong_with_a_row_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("path,label,split\na.png,cat,exam\n")
    with pytest.raises(ValueError, match=r"^[^:]*, image 1: split 'exam' is not train") as told:
        opened(tmp_path / "m.csv")
    assert "can't be read as a manifest" not in str(told.value)


def test_test_images_that_are_not_there_are_told(tmp_path: Path) -> None:
    files(tmp_path / "train", ["cat/1.png", "dog/1.png"])
    with pytest.raises(UserError, match="typo does not exist"):
        opened(tmp_path / "train", test=str(tmp_path / "typo"))


def test_folders_without_images_are_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no image in class folders"):
        opened(tmp_path)
    files(tmp_path, ["loose.png"])
    with pytest.raises(UserError, match="holds no image in class folders"):
        opened(tmp_path)


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
