"""Images in parquet files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from commands import josrc
from josrc.config import DataKind
from josrc.data import parquet_rows
from josrc.data.decode import UnreadableImageError
from josrc.data.readers import read_table
from josrc.data.readers.other_columns import other_columns
from josrc.data.registry import describe_data, kind_of
from packed_pictures import hugging_face, labelled, manifest_of, picture


def test_parquet_with_bytes_is_read_as_hugging_face_writes_it(tmp_path: Path) -> None:
    path = hugging_face(tmp_path / "flowers.parquet", row_group_size=5)
    config = describe_data(str(path))
    assert config.kind is DataKind.SHARDS
    table, samples = read_table(config), labelled()
    assert [table.class_names[label] for label in table.labels] == [x for x, _ in samples]
    order = np.random.default_rng(0).permutation(len(samples)).tolist()
    assert [table.files.content(place) for place in order] == [samples[p][1] for p in order]
    assert table.files.take(np.array([7])).file_name(0) == "flowers-7.png"
    assert other_columns(config).of("flowers.parquet#3") == {"by": "ann"}


def test_a_column_of_plain_bytes_is_found_by_any_name(tmp_path: Path) -> None:
    path = tmp_path / "scans.parquet"
    rows = [{"scan": content, "label": label} for label, content in labelled(6)]
    rows[2]["scan"] = None
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    table = read_table(describe_data(str(path)))
    assert table.files.content(1) == rows[1]["scan"]
    with pytest.raises(UnreadableImageError, match="no bytes"):
        table.files.content(2)


def test_another_column_of_images_is_named(tmp_path: Path) -> None:
    path = tmp_path / "scans.parquet"
    rows = [{"image": b"", "mask": content, "label": label} for label, content in labelled(6)]
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    table = read_table(describe_data(str(path), path_column="mask"))
    assert table.files.content(3) == rows[3]["mask"]
    assert table.files.file_name(3) == "scans-3.png"
    listed = tmp_path / "list.csv"
    listed.write_bytes(manifest_of([table.ids[3], "scans.parquet#3"], ["rose", "tulip"]))
    files = read_table(describe_data(str(listed))).files
    assert [files.content(place) for place in (0, 1)] == [rows[3]["mask"], b""]


def test_a_parquet_manifest_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "list.parquet"
    parquet.write_table(
        pyarrow.table({"path": ["a.png"], "label": ["rose"], "embedding": [b"1234"]}), path
    )
    assert kind_of(str(path)) is DataKind.MANIFEST


def test_one_value_in_a_million_rows_stays_one(tmp_path: Path) -> None:
    """Else a file of a megabyte would take a terabyte."""
    path, rows = tmp_path / "bomb.parquet", 20_000
    content = picture("rose", 0) + b" " * 100_000
    images = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * rows), [content])
    labels = pyarrow.array(["rose", "tulip"] * (rows // 2))
    table = pyarrow.table({"image": images, "label": labels})
    parquet.write_table(table, path, store_schema=False)
    assert path.stat().st_size < 2**20
    before = pyarrow.total_allocated_bytes()
    assert read_table(describe_data(str(path))).files.content(rows - 1) == content
    assert pyarrow.total_allocated_bytes() - before < 50 * 2**20


def test_row_groups_that_no_memory_holds_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(parquet_rows, "LARGEST_GROUP", 10_000)
    path = hugging_face(tmp_path / "flowers.parquet")
    assert josrc("doctor", "data", path) == 2
    assert "row_group_size=100" in capsys.readouterr().err


def test_a_damaged_parquet_file_costs_its_images(tmp_path: Path) -> None:
    path = hugging_face(tmp_path / "flowers.parquet", row_group_size=8)
    table = read_table(describe_data(str(path)))
    content = bytearray(path.read_bytes())
    content[4:9000] = bytes(8996)
    path.write_bytes(content)
    with pytest.raises(UnreadableImageError):
        table.files.content(0)
    assert table.files.content(23) == labelled()[23][1]
