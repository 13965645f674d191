"""Folders, manifests and hub data sets: what is found in them, and what is said of mistakes."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from josrc.config import DataConfig, DataKind
from josrc.data.readers.manifest import read_manifest
from josrc.errors import UserError
from manifests import files, opened
from properties import names, same, scalars, tried, written

ROWS = [("a/1.png", "cat"), ("a/2.png", "dog"), ("b/3.png", "cat"), ("b/ü 4.png", "dog")]


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
        (f"{tmp_path}/", "its row has no file name"),
        (f"{tmp_path}/", "its row has no file name"),
    )


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
    "outside": ("path,label\na,cat\n../b,dog\n", {}, "image 2: ../b is outside.*--allow-outside"),
    "absolute": ("path,label\n/etc/passwd,cat\nb,dog\n", {}, "/etc/passwd is outside"),
    "split": ("path,label,split\na,cat,trian\n", {}, "split 'trian'"),
    "empty": ("", {}, "is empty"),
    "header alone": ("path,label\n", {}, "contains no images"),
    "no label at all": ("path,label\na,\nb,\n", {}, "no labelled images"),
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


cells = scalars | st.lists(scalars, max_size=2) | st.dictionaries(names, scalars, max_size=2)


@same
@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=4))
@example([("a.png", "\ud800"), ("../../a.png", "cat")])
@example([("a\0.png", "cat")])
@example([("x" * 300, "cat")])
def test_a_manifest_gives_paths_below_its_folder_or_a_mistake(rows: list[tuple[Any, Any]]) -> None:
    lines = [json.dumps({"path": path, "label": label}) for path, label in rows]
    with tempfile.TemporaryDirectory() as folder:
        path = written("m.jsonl", "\n".join(lines), folder)
        config = DataConfig(name=str(path), kind=DataKind.MANIFEST)
        table = tried(lambda: read_manifest(path, config))
        if isinstance(table, UserError):
            assert "m.jsonl" in str(table)
        else:
            assert len(table.ids) == len(rows)
            for place in map(table.images.location, range(len(rows))):
                assert Path(os.path.abspath(place)).is_relative_to(folder)  # noqa: PTH100
