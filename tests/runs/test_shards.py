"""Shards of a scan on Ray that hold something else than a worker writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from josrc.data.duplicates import MARK_BYTES
from josrc.data.near.sketches import SKETCH_BYTES
from josrc.errors import UserError
from josrc.runs.shards import read_features, read_findings

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def columns(**changes: Any) -> dict[str, Any]:
    """Those of a shard of two images, the second without a picture."""
    flat = pyarrow.array(np.arange(6, dtype=np.float16))
    made = {
        "fault": pyarrow.array([None, "the file is empty"], pyarrow.string()),
        "features": pyarrow.FixedSizeListArray.from_arrays(flat, 3),
        "mark": pyarrow.array([bytes(MARK_BYTES)] * 2, pyarrow.binary(MARK_BYTES)),
        "sketch": pyarrow.array([bytes(SKETCH_BYTES)] * 2, pyarrow.binary(SKETCH_BYTES)),
    }
    return {name: value for name, value in (made | changes).items() if value is not None}


def test_a_shard_gives_what_was_written(tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table(columns()), tmp_path / "s.parquet")
    assert read_features(tmp_path / "s.parquet", 3).tolist() == [[0, 1, 2]]
    marks, sketches, faults = read_findings([tmp_path / "s.parquet"])
    assert len(marks) == len(sketches) == 2
    assert faults == [(1, "the file is empty")]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": None}, "features"),
        ({"features": ["a", "b"]}, "features holds string"),
        ({"features": [[0.5] * 3] * 2}, "features holds list"),
        ({"mark": [b"short", b"s"]}, "mark holds binary"),
        (
            {"mark": pyarrow.array([None] * 2, pyarrow.binary(MARK_BYTES))},
            "mark is missing in some rows",
        ),
        ({"fault": [1, 2]}, "fault holds int64"),
    ],
)
def test_a_column_of_another_type_is_named(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "s.parquet"
    parquet.write_table(pyarrow.table(columns(**changes)), path)
    with pytest.raises(UserError, match=f"is damaged: .*{message}"):
        read_features(path, 3) if "features" in changes else read_findings([path])
