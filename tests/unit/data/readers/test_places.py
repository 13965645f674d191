"""Images behind addresses and inside of tar and parquet files: one way to their bytes."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from commands import josrc
from josrc._io import located, seen_from, split_member
from josrc.data.readers import list_images, read_table
from josrc.data.readers.places import check_inside, expand
from josrc.data.registry import describe_data
from josrc.errors import UserError
from josrc.review.images import ReviewImages
from josrc.runs.snapshot import open_run
from packed_pictures import flowers, hugging_face, labelled, manifest_of, shards

fsspec = pytest.importorskip("fsspec")


def test_a_pattern_stands_for_files_in_their_order() -> None:
    assert expand("a/{08..11}.tar") == ["a/08.tar", "a/09.tar", "a/10.tar", "a/11.tar"]
    assert expand("{a,b}/{0..1}.tar") == ["a/0.tar", "a/1.tar", "b/0.tar", "b/1.tar"]
    with pytest.raises(UserError, match="more than 100,000 files"):
        expand("{0..999}{0..999}.tar")


def test_names_lead_where_they_begin() -> None:
    assert split_member("s3://b/1.tar#a#b.jpg") == ("s3://b/1.tar", "a#b.jpg")
    assert split_member("photos/a#b.jpg") == ("photos/a#b.jpg", "")
    assert located("s3://b/list", "a/1.jpg") == "s3://b/list/a/1.jpg"
    assert located("/photos", "s3://b/1.jpg") == "s3://b/1.jpg"
    assert located("/photos", "file:///other/1.jpg") == "/other/1.jpg"
    assert seen_from(Path("/photos"), "/photos/1.tar#x/../1.jpg") == "1.tar#x/../1.jpg"
    assert seen_from(Path("/photos"), "s3://b/1.jpg") == "s3://b/1.jpg"


@pytest.mark.parametrize(
    ("root", "name"),
    [
        ("/photos", "s3://bucket/1.jpg"),
        ("/photos", "file:///etc/passwd"),
        ("/photos", "../x/1.tar#1.jpg"),
        ("s3://bucket/list", "s3://other/1.jpg"),
        ("s3://bucket/list", "s3://bucket/../other/1.jpg"),
        ("s3://bucket/list", "../../other/1.jpg"),
        ("s3://bucket/list", "gs://bucket/1.jpg"),
        ("s3://bucket/list", "/etc/passwd"),
        ("hf://datasets/ann/flowers", "hf://datasets/bob/private/1.jpg"),
    ],
)
def test_a_list_names_nothing_outside_of_its_folder_or_bucket(root: str, name: str) -> None:
    with pytest.raises(UserError, match="--allow-outside"):
        check_inside(root, name, "list.csv, image 1")


@pytest.mark.parametrize(
    ("root", "name"),
    [
        ("/photos", "a/../1.jpg"),
        ("s3://bucket/list", "../images/1.jpg"),
        ("s3://bucket/list", "s3://bucket/images/1.jpg"),
        ("hf://datasets/ann/flowers/x", "hf://datasets/ann/flowers/1.jpg"),
    ],
)
def test_a_list_names_what_lies_beside_it(root: str, name: str) -> None:
    check_inside(root, name, "list.csv, image 1")


def judged(place: str, out: Path) -> None:
    """A run whose verdicts mean nothing, with a report."""
    small = ("--model", "cnn7", "--image-size", 8, "--method", "standard", "--workers", 0)
    assert josrc("train", place, "--epochs", 1, *small, "--out", out, "--quiet") == 0


def check_applied(run: Path, out: Path, contents: list[bytes]) -> None:
    """What can be done with a run whose images are no files of this machine."""
    opened = open_run(run)
    assert opened.changes is not None
    assert not opened.changes
    find = lambda row: opened.source.images.picture(row)  # noqa: E731
    assert ReviewImages(len(contents), find, out / "cache").thumbnail(3)
    assert (run / "audit" / "report.html").stat().st_size > 10_000
    assert josrc("report", run) == 0
    auto = ("apply", run, "--auto", 0.999)
    for name in ("list.csv", "list.parquet", "list.json"):
        to = {"list.csv": "csv", "list.parquet": "parquet", "list.json": "coco"}[name]
        assert josrc(*auto, "--to", to, "--out", out / name) == 0
        files = read_table(describe_data(str(out / name))).files
        assert [files.content(place) for place in range(len(files))] == contents
    assert josrc(*auto, "--copy", "--out", out / "folder") == 0
    copied = [path.read_bytes() for path in (out / "folder").rglob("*.png")]
    assert sorted(copied) == sorted(contents)
    assert josrc(*auto, "--link", "sym", "--out", out / "links") == 2
    with (out / "list.csv").open() as file:
        assert set(next(csv.DictReader(file))) >= {"path", "label", "id"}


@pytest.mark.parametrize("kind", ["tar", "parquet", "memory"])
def test_from_shards_and_addresses_to_the_corrected_data_set(
    kind: str, tmp_path: Path, memory: Callable[[str, bytes], str]
) -> None:
    contents = [content for _, content in labelled()]
    if kind == "tar":
        place = f"{shards(tmp_path / 'data')}/{{0000..0001}}.tar"
        contents = contents[0::2] + contents[1::2]
    elif kind == "parquet":
        place = str(hugging_face(tmp_path / "flowers.parquet"))
    else:
        place = flowers(memory)
    judged(place, tmp_path / "run")
    check_applied(tmp_path / "run", tmp_path, contents)
    originals = tmp_path / "flowers.parquet"
    if kind == "parquet":
        auto = ("apply", tmp_path / "run", "--auto", 0.9, "--to", "parquet")
        assert josrc(*auto, "--out", originals, "--overwrite") == 2
    if kind != "memory":
        return
    # All of it has come to this machine.
    local = tmp_path / "local"
    fsspec.filesystem("memory").get("/flowers", str(local), recursive=True)
    fsspec.filesystem("memory").store.clear()
    assert josrc("report", tmp_path / "run") == 2
    assert josrc("report", tmp_path / "run", "--data-root", local) == 0
    assert not open_run(tmp_path / "run", data_root=local).changes


@pytest.mark.slow
def test_predict_reads_what_lies_in_tar_and_parquet_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards(tmp_path / "tars")
    hugging_face(tmp_path / "flowers.parquet")
    monkeypatch.chdir(tmp_path)
    for place, first in (("tars", "tars/0000.tar#0.png"), ("flowers.parquet", "flowers.parquet#0")):
        images, left_out = list_images([Path(place)])
        assert not left_out
        assert len(images) == 24
        assert images.names[0] == first
        assert images.content(0) == labelled()[0][1]
    listed = tmp_path / "list.csv"
    listed.write_bytes(manifest_of(["tars/0000.tar#0.png"], ["rose"]))
    assert list_images([listed])[0].content(0) == labelled()[0][1]
