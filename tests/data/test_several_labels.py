"""Cells with several labels are refused, and names that only look so are classes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import datasets
import pandas
import pytest
from PIL import Image

from commands import josrc
from josrc.data.readers.several_labels import check_single
from josrc.errors import UserError
from josrc.runs.start import plan

SENTENCE = "seem to have several labels, such as"


def counted(labels: Sequence[str]) -> dict[str, int]:
    return {name: labels.count(name) for name in labels}


@pytest.mark.parametrize(
    "labels",
    [
        ["cat", "dog", "cat;dog", "cat"],
        ["cat", "dog", "bird", "cat|dog", "dog|bird"],
        ["cat", "dog", "dog, cat"],
        ["cat", "dog", "cat | dog"],
        ["cat", "dog", "cat/dog", "bird"],
        ["cat", "dog", "cat & dog"],
        ["Cat", "Dog", "cat+dog"],
        ["cat;", "dog;", "cat;dog;"],
        ["cat;dog", "dog;bird", "cat;bird"],  # no image has one label alone
    ],
)
def test_joined_labels_are_refused(labels: list[str]) -> None:
    with pytest.raises(UserError, match=SENTENCE.replace("seem", "seems?")):
        check_single("all.csv", counted(labels))


@pytest.mark.parametrize(
    "labels",
    [
        ["Jackson, Michael", "Jackson, Janet", "Madonna"],
        ["tench, Tinca tinca", "goldfish, Carassius auratus", "crane", "crane, bird"],
        ["a|b", "c|d"],
        ["Smith, John", "Smith, Mary", "Jones, John", "Jones, Mary"],
        ["red/round", "red/square", "blue/round", "blue/square"],
        ["animal", "animal/cat", "animal/dog"],
        ["x;", ";y", ";"],
        ["cat", "dog"],
    ],
)
def test_names_with_commas_and_bars_are_classes(labels: list[str]) -> None:
    check_single("all.csv", counted(labels))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for number in range(4):
        Image.new("RGB", (16, 16), (50 * number, 0, 0)).save(tmp_path / f"{number}.png")
    return tmp_path


def written(place: Path, kind: str, labels: list[Any]) -> Path:
    """The four images with these labels, in a file of a kind."""
    rows = [{"path": f"{n}.png", "label": label} for n, label in enumerate(labels)]
    path = place / f"all.{kind}"
    if kind == "parquet":
        pandas.DataFrame(rows).to_parquet(path)
    elif kind == "jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    else:
        pandas.DataFrame(rows).to_csv(path, index=False)
    return path


SEVERAL: list[tuple[str, list[Any]]] = [
    ("csv", ["cat", "dog", "cat;dog", "cat"]),
    ("csv", ['["cat", "dog"]', '["cat"]', '["dog"]', "[]"]),
    ("csv", ["['cat', 'dog']", "['cat']", "['dog']", "['dog']"]),
    ("csv", [" [cat, dog]", "cat", "dog", "dog"]),
    ("csv", ["['cat' 'dog']", "['cat']", "['dog']", "['dog']"]),  # as numpy prints it
    ("csv", ["{'dog', 'cat'}", "{'cat'}", "{'dog'}", "{'dog'}"]),
    ("csv", ['{"cat": 1, "dog": 1}', "cat", "dog", "dog"]),
    ("jsonl", [["cat", "dog"], ["cat"], ["dog"], ["dog"]]),
    ("jsonl", [{"cat": 1, "dog": 1}, "cat", "dog", "dog"]),
    ("parquet", [["cat", "dog"], ["cat"], ["dog"], ["dog"]]),
]


@pytest.mark.parametrize(("kind", "labels"), SEVERAL)
def test_a_manifest_with_several_labels_is_refused(
    place: Path, kind: str, labels: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(place, kind, labels)
    for command in ("train", "scan"):
        assert josrc(command, path, "--out", place / "run") == 2
        said = capsys.readouterr().err
        assert f"{path}: 1 image seems to have several labels, such as" in said
        assert "one label per image" in said
        assert "--whole-labels" in said
    assert not (place / "run").exists()


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_lists_of_one_label_are_that_label(place: Path, kind: str) -> None:
    _, source = plan(str(written(place, kind, [["cat"], ["dog"], ["cat"], ["dog"]])))
    assert source is not None
    assert source.class_names == ["cat", "dog"]


def test_annotators_may_not_give_several_labels(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = place / "all.csv"
    path.write_text('path,ann,bob\n0.png,cat,"[""cat"", ""dog""]"\n1.png,dog,dog\n')
    assert josrc("train", path, "--annotator-columns", "ann,bob", "--out", place / "run") == 2
    assert f"{path}: 1 image seems to have several labels" in capsys.readouterr().err


def test_names_may_be_meant_as_they_are(place: Path) -> None:
    path = written(place, "csv", ["black", "white", "black|white", "black"])
    _, source = plan(str(path), whole_labels=True)
    assert source is not None
    assert source.class_names == ["black", "black|white", "white"]


def test_doctor_and_eval_take_names_as_they_are_if_told(
    place: Path, finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(place, "csv", ["one", "two", "one|two", "one"])
    assert josrc("doctor", "data", path) == 2
    assert "--whole-labels" in capsys.readouterr().err
    assert josrc("doctor", "data", path, "--whole-labels") == 0
    assert f"josrc train {path} --whole-labels" in " ".join(capsys.readouterr().out.split())
    for run, option, sentence in (
        (finished, (), "1 image seems to have several labels"),
        (finished, ("--whole-labels",), "class 'one|two', which the network does not know"),
    ):
        assert josrc("eval", run, path, *option, "--out", place / "out") == 2
        assert sentence in " ".join(capsys.readouterr().err.split())
    # Of a run that was trained on such names they are names in what it is measured on, too.
    same = place / "run"
    shutil.copytree(finished, same)
    config = (same / "config.yaml").read_text()
    assert "whole_labels: false" in config
    (same / "config.yaml").write_text(config.replace("whole_labels: false", "whole_labels: true"))
    for command in (("eval", same, path), ("audit", same, "--new", path)):
        assert josrc(*command) == 2
        assert "does not know" in capsys.readouterr().err


def test_several_categories_of_coco_are_refused(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = [(0, 1), (0, 2), (1, 1), (2, 2), (2, 2)]  # two boxes of one category are one label
    content = {
        "images": [{"id": n, "file_name": f"{n}.png"} for n in range(3)],
        "annotations": [
            {"id": n, "image_id": image, "category_id": category}
            for n, (image, category) in enumerate(pairs)
        ],
        "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
    }
    path = place / "all.json"
    path.write_text(json.dumps(content))
    assert josrc("scan", path, "--out", place / "run") == 2
    assert "1 image seems to have several labels, such as ['cat', 'dog']" in capsys.readouterr().err
    content["annotations"] = content["annotations"][1:]
    path.write_text(json.dumps(content))
    _, source = plan(str(path))
    assert source is not None
    assert [source.class_names[label] for label in source.given] == ["dog", "cat", "dog"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"images": []}', "is not COCO: it has no 'annotations'"),
        ('{"images"', "can't be read as COCO"),
        (
            '{"images": [{"id": 1}], "categories": [], "annotations": []}',
            "is not COCO: images.0.file_name: Field required",
        ),
        (
            '{"images": [{"id": 1, "file_name": "0.png"}], "categories": [], '
            '"annotations": [{"image_id": 1, "category_id": 3}]}',
            "an annotation is of category 3, which is not in the file",
        ),
    ],
)
def test_what_is_not_coco_is_refused(
    place: Path, content: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = place / "all.json"
    path.write_text(content)
    assert josrc("train", path) == 2
    assert message in capsys.readouterr().err


def test_lists_in_a_hub_data_set_are_refused(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {"image": [str(place / f"{n}.png") for n in range(2)], "label": [[0, 1], [1]]}
    data = datasets.Dataset.from_dict(rows).cast_column("image", datasets.Image())
    data.save_to_disk(str(place / "saved"))
    assert josrc("train", place / "saved") == 2
    assert "1 image seems to have several labels, such as [0, 1]" in capsys.readouterr().err
