"""Labels of several annotators in manifests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from annotated import LONG, manifest
from josrc.data.readers import read_table
from josrc.data.registry import describe_data
from josrc.errors import UserError

WIDE = """path,ann,bob,cid
a.png,cat,cat,dog
b.png,dog,dog,
c.png,cat,,cat
d.png,cat,,dog
e.png,,,
"""


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


def test_only_a_manifest_has_columns_of_annotators(pictures: Path) -> None:
    with pytest.raises(UserError, match="not a manifest"):
        read_table(describe_data(str(pictures), annotator_column="who"))


def test_one_way_of_telling_annotators_is_enough(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not both"):
        describe_data(manifest(tmp_path, LONG), annotator_column="who", annotator_columns=["bob"])
