"""Shards: tar files with the images of many classes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import josrc
from josrc.config import DataKind
from josrc.data.readers import read_table
from josrc.data.readers.other_columns import other_columns
from josrc.data.registry import describe_data
from packed_pictures import labelled, shards, write_tar


def test_shards_have_the_classes_that_stand_beside_their_images(tmp_path: Path) -> None:
    place = f"{shards(tmp_path)}/{{0000..0001}}.tar"
    for name in (place, str(tmp_path)):
        config = describe_data(name)
        assert config.kind is DataKind.SHARDS
        table = read_table(config)
        assert table.class_names == ["rose", "tulip"]
        assert table.ids[0] == "0000.tar#0.png"
        given = [table.class_names[label] for label in table.labels]
        samples = labelled()[0::2] + labelled()[1::2]
        assert given == [label for label, _ in samples]
        contents = [table.files.content(place) for place in range(len(table.ids))]
        assert contents == [content for _, content in samples]
        assert dict(table.left_out) == {"txt": 24}
    assert other_columns(config).of("0001.tar#3.png") == {"by": "ann", "caption": None}


def test_classes_come_from_json_or_from_folders_and_parts_from_the_names_of_shards(
    tmp_path: Path,
) -> None:
    samples = labelled(4)
    told = [(f"{n}.json", json.dumps({"class": label}).encode()) for n, (label, _) in
            enumerate(samples)]  # fmt: skip
    pictures = [(f"{n}.png", content) for n, (_, content) in enumerate(samples)]
    write_tar(tmp_path / "train-0.tar", pictures + told)
    write_tar(tmp_path / "val-0.tar", [(f"x/{x}/{n}.png", c) for n, (x, c) in enumerate(samples)])
    table = read_table(describe_data(str(tmp_path)))
    given = [table.class_names[label] for label in table.labels]
    assert given == [label for label, _ in samples] * 2
    assert table.split.tolist() == [0] * 4 + [1] * 4


def test_a_shard_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shards(tmp_path)
    assert josrc("doctor", "data", f"{tmp_path}/{{0000..0002}}.tar") == 2
    assert f"{tmp_path}/0002.tar does not exist" in capsys.readouterr().err
