"""Images inside other files."""

from __future__ import annotations

from pathlib import Path

import pytest

from josrc.data.decode import UnreadableImageError
from josrc.data.readers import read_table
from josrc.data.registry import describe_data
from packed_pictures import hugging_face, labelled, manifest_of, picture, shards


def test_a_manifest_names_members_of_tar_and_parquet_files(tmp_path: Path) -> None:
    shards(tmp_path / "tars")
    hugging_face(tmp_path / "flowers.parquet")
    (tmp_path / "plain.png").write_bytes(picture("rose", 90))
    names = ["tars/0001.tar#2.png", "flowers.parquet#23", "plain.png", "tars/0001.tar#99.png"]
    path = tmp_path / "list.csv"
    path.write_bytes(manifest_of([*names, "flowers.parquet#-1"], ["rose", "tulip"] * 2 + ["rose"]))
    files = read_table(describe_data(str(path))).files
    assert files.content(0) == labelled()[5][1]
    assert files.content(1) == labelled()[23][1]
    assert files.content(2) == str(tmp_path / "plain.png")
    for place in (3, 4):
        with pytest.raises(UnreadableImageError, match="does not contain"):
            files.content(place)
    assert files.missing().tolist() == [3, 4]
