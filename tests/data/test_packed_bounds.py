"""Tar and parquet files that promise more than they are: told before it is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from josrc.data.readers import read_table
from josrc.data.registry import describe_data
from josrc.data.tars import tar_members
from josrc.errors import UserError
from packed import picture, write_tar

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.mark.parametrize(
    ("place", "text", "message"),
    [
        (124, b"\xff" * 10 + b"\xfc\x00", "tar"),
        (156, b"L", "a header of 8,589,93"),
        (156, b"x", "a header of 8,589,93"),
    ],
)
def test_a_tar_that_lies_is_told_at_once(
    place: int, text: bytes, message: str, tmp_path: Path
) -> None:
    """A size below zero leads back to where it stands; a header of gigabytes is read as a whole."""
    path = write_tar(tmp_path / "a.tar", [("0.png", picture("rose", 0))])
    header = bytearray(path.read_bytes()[:512])
    header[124:136] = b"77777777777\0"
    header[place : place + len(text)] = text
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    with path.open("r+b") as file:
        file.write(header)
        file.truncate(2**33 + 4096)  # takes no place
    with pytest.raises(UserError, match=message):
        tar_members(str(path))


def test_a_label_of_a_megabyte_in_every_row_is_told(tmp_path: Path) -> None:
    """Read at once, these rows would take 50 GB."""
    path, rows = tmp_path / "bomb.parquet", np.zeros(50_000, np.int32)
    columns = {"path": [f"{n}.png" for n in range(len(rows))]}
    columns["label"] = pyarrow.DictionaryArray.from_arrays(rows, ["x" * 1_000_000])
    parquet.write_table(pyarrow.table(columns), path, store_schema=False)
    with pytest.raises(UserError, match="its label has 1,000,000 characters"):
        read_table(describe_data(str(path)))


def test_rows_that_take_no_byte_are_told(tmp_path: Path) -> None:
    path, rows = tmp_path / "rows.parquet", 2_000_000
    table = pyarrow.table({"path": np.zeros(rows), "label": np.zeros(rows)})
    parquet.write_table(table, path)
    with pytest.raises(UserError, match="says that it has 2,000,000 rows"):
        read_table(describe_data(str(path)))
