"""Labels of several annotators: how manifests tell them, and what most of them say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from josrc.config import DataKind
from josrc.data.annotations import Annotations
from josrc.data.readers import read_table
from josrc.data.registry import describe_data, open_source
from josrc.errors import UserError

LONG = """path,label,who
a.png,cat,ann
a.png,cat,bob
a.png,dog,cid
b.png,dog,ann
b.png,dog,bob
c.png,cat,ann
c.png,cat,cid
d.png,cat,ann
d.png,dog,cid
e.png,,ann
"""
WIDE = """path,ann,bob,cid
a.png,cat,cat,dog
b.png,dog,dog,
c.png,cat,,cat
d.png,cat,,dog
e.png,,,
"""


def annotations(*votes: tuple[int, int, int], people: int = 3) -> Annotations:
    """From sample, annotator and label."""
    sample, annotator, label = np.array(votes).T
    return Annotations([f"p{k}" for k in range(people)], sample, annotator, label)


def manifest(folder: Path, text: str) -> str:
    path = folder / "labels.csv"
    path.write_text(text)
    return str(path)


# --- manifests ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (LONG, {"annotator_column": "who"}),
        (WIDE, {"annotator_columns": ["ann", "bob", "cid"]}),
        (WIDE, {"annotator_columns": "ann, bob,cid"}),
    ],
)
def test_rows_or_columns_tell_the_same_labels(
    tmp_path: Path, text: str, options: dict[str, object]
) -> None:
    table = read_table(describe_data(manifest(tmp_path, text), **options))
    assert list(table.ids) == ["a.png", "b.png", "c.png", "d.png", "e.png"]
    assert table.class_names == ["cat", "dog"]
    # d is a tie: ann has agreed with the majority three times, cid once of two times.
    assert table.labels.tolist() == [0, 1, 0, 0, -1]
    found = table.annotations
    assert found is not None
    assert list(found.annotators) == ["ann", "bob", "cid"]
    nobody = np.nan
    expected = [[0, 0, 1], [1, 1, nobody], [0, nobody, 0], [0, nobody, 1], [nobody] * 3]
    assert np.array_equal(found.matrix(5), np.array(expected), equal_nan=True)


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".tsv"])
def test_other_manifests_have_annotators_too(tmp_path: Path, suffix: str) -> None:
    import io

    import pandas

    frame = pandas.read_csv(io.StringIO(LONG))
    path = tmp_path / f"labels{suffix}"
    if suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    elif suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, sep="\t", index=False)
    table = read_table(describe_data(str(path), annotator_column="who"))
    assert table.labels.tolist() == [0, 1, 0, 0, -1]


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (LONG + "a.png,cat,ann\n", {"annotator_column": "who"}, "'ann' labels a.png twice"),
        (LONG, {"annotator_columns": ["who", "who"]}, "--annotator-columns names 'who' twice"),
        (LONG, {"annotator_column": "whom"}, "no column 'whom'. Did you mean 'who'"),
        (WIDE, {"annotator_columns": ["ann", "bop"]}, "no column 'bop'. Did you mean 'bob'"),
        ("path,label,who\na,x,ann\nb,y,ann\n", {"annotator_column": "who"}, "one annotator, 'ann'"),
        (WIDE, {"annotator_columns": ["bob"]}, "only one annotator, 'bob'"),
        ("path,label,who\na,x,ann\nb,y,bob\n", {"annotator_column": "who"}, "labels of two"),
        (LONG + "a.png,cat,\n", {"annotator_column": "who"}, "row 11: a label without an annot"),
        ("id,path,label,who\n1,a,x,ann\n1,b,x,bob\n", {"annotator_column": "who"}, "two files"),
        (
            "path,label,who,patient\na,x,ann,1\na,x,bob,2\n",
            {"annotator_column": "who", "group_column": "patient"},
            "two groups",
        ),
    ],
)
def test_a_mistake_is_named(
    tmp_path: Path, text: str, options: dict[str, object], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        read_table(describe_data(manifest(tmp_path, text), **options))


def test_groups_of_annotated_images_are_held_out_together(tmp_path: Path) -> None:
    rows = [
        f"{number:02}.png,{'cat' if number % 2 else 'dog'},{who},p{number // 4}"
        for who in ("ann", "bob")
        for number in range(40)
    ]
    text = "\n".join(["path,label,who,patient", *rows])
    columns = {"annotator_column": "who", "group_column": "patient"}
    source = open_source(describe_data(manifest(tmp_path, text), val=0.25, **columns))
    assert source.val is not None
    held, kept = ({int(name[:2]) // 4 for name in part.ids} for part in (source.val, source))
    assert held
    assert not held & kept
    assert len(source.val) + len(source) == 40


def test_only_a_manifest_has_columns_of_annotators(pictures: Path) -> None:
    with pytest.raises(UserError, match="not a manifest"):
        read_table(describe_data(str(pictures), annotator_column="who"))


def test_one_way_of_telling_annotators_is_enough(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not both"):
        describe_data(manifest(tmp_path, LONG), annotator_column="who", annotator_columns=["bob"])


def test_a_class_that_no_image_has_in_the_end_is_left_out(tmp_path: Path) -> None:
    for name in "abcd":
        Image.new("RGB", (8, 8)).save(tmp_path / f"{name}.png")
    # `bird` sorts before the others, and is what one annotator said once.
    text = LONG.replace("a.png,dog,cid", "a.png,bird,cid").replace("e.png,,ann\n", "")
    source = open_source(describe_data(manifest(tmp_path, text), annotator_column="who"))
    assert source.data_kind is DataKind.MANIFEST
    assert source.class_names == ["cat", "dog"]
    found = source.all_annotations()
    assert found is not None
    assert len(found) == 8
    assert found.matrix(4)[0].tolist()[:2] == [0, 0]
    held = open_source(describe_data(manifest(tmp_path, text), annotator_column="who", val=0.4))
    rows = [*held.ids, *held.val.ids] if held.val else []
    again = held.all_annotations()
    assert again is not None
    assert sorted(rows) == ["a.png", "b.png", "c.png", "d.png"]
    order = [list(source.ids).index(name) for name in rows]
    assert np.array_equal(again.matrix(4), found.matrix(4)[order], equal_nan=True)


# --- the majority ---------------------------------------------------------------------------------


def test_most_annotators_decide() -> None:
    found = annotations((0, 0, 1), (0, 1, 1), (0, 2, 0), (2, 1, 2))
    assert found.majority(4, 3).tolist() == [1, -1, 2, -1]
    assert found.counts(4).tolist() == [3, 0, 1, 0]


def test_of_two_labels_that_of_the_better_annotator_counts() -> None:
    # p2 errs wherever all three have a say.
    clear = [(k, who, 1 if who == 2 else 0) for k in range(5) for who in range(3)]
    found = annotations(*clear, (5, 2, 0), (5, 1, 1), (6, 1, 0), (6, 2, 1))
    assert found.majority(7, 2).tolist() == [0, 0, 0, 0, 0, 1, 0]
    # Where nobody is known to be better it is the first class.
    assert annotations((0, 0, 2), (0, 1, 1)).majority(1, 3).tolist() == [1]


def test_some_samples_are_taken_with_their_labels(tmp_path: Path) -> None:
    found = annotations((0, 0, 1), (1, 1, 0), (2, 2, 1), (2, 0, 0))
    some = found.take(np.array([2, 0]))
    assert some.sample.tolist() == [1, 0, 0]
    assert some.label.tolist() == [1, 1, 0]
    some.write(tmp_path / "annotations.npz")
    again = Annotations.read(tmp_path / "annotations.npz")
    assert list(again.annotators) == ["p0", "p1", "p2"]
    assert np.array_equal(again.matrix(2), some.matrix(2), equal_nan=True)
