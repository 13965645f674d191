"""Images behind addresses and inside of tar and parquet files: one way to their bytes."""

from __future__ import annotations

import csv
import io
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from PIL import Image
from pyarrow import parquet

from commands import josrc
from josrc._io import located, seen_from, split_member
from josrc.config import DataKind
from josrc.data import parquet_rows, remote
from josrc.data.decode import UnreadableImageError
from josrc.data.readers import list_images, read_table
from josrc.data.readers.other_columns import other_columns
from josrc.data.readers.places import check_inside, expand
from josrc.data.registry import describe_data, kind_of
from josrc.data.workers import DecodingPool
from josrc.errors import UserError
from josrc.review.images import ReviewImages
from josrc.runs.snapshot import open_run
from packed import COLOURS, picture, write_tar

fsspec = pytest.importorskip("fsspec")


def labelled(count: int = 24) -> list[tuple[str, bytes]]:
    """Labels and pictures; the first label is wrong."""
    found = [(list(COLOURS)[n % 2], picture(list(COLOURS)[n % 2], n)) for n in range(count)]
    return [("tulip", found[0][1]), *found[1:]]


def shards(folder: Path) -> Path:
    """Two tars as WebDataset writes them: pictures, their classes, and who took them."""
    samples = labelled()
    for shard in range(2):
        files = []
        for number, (label, content) in enumerate(samples[shard::2]):
            about = json.dumps({"by": "ann", "caption": None}).encode()
            files += [(f"{number}.png", content), (f"{number}.cls", label.encode())]
            files += [(f"{number}.json", about), (f"{number}.txt", b"a flower")]
        write_tar(folder / f"{shard:04d}.tar", files)
    return folder


def hugging_face(path: Path, rows: int = 24, **options: Any) -> Path:
    """A parquet file as the library ``datasets`` writes it: bytes, and numbers with names."""
    samples = labelled(rows)
    table = pyarrow.Table.from_pylist(
        [
            {"image": {"bytes": c, "path": "/etc/passwd"}, "label": int(x == "tulip"), "by": "ann"}
            for x, c in samples
        ]
    )
    names = {"names": list(COLOURS), "_type": "ClassLabel"}
    about = {"info": {"features": {"label": names}}}
    parquet.write_table(
        table.replace_schema_metadata({"huggingface": json.dumps(about)}), path, **options
    )
    return path


@pytest.fixture
def memory() -> Iterator[Callable[[str, bytes], str]]:
    """Puts files behind ``memory://``, which lives in this process alone."""
    files = fsspec.filesystem("memory")

    def put(name: str, content: bytes) -> str:
        files.pipe(f"/{name}", content)
        return f"memory://{name}"

    yield put
    files.store.clear()


def manifest_of(paths: list[str], labels: list[str]) -> bytes:
    """A CSV of paths and labels."""
    lines = [f"{path},{label}" for path, label in zip(paths, labels, strict=True)]
    return "\n".join(["path,label", *lines]).encode()


def flowers(memory: Callable[[str, bytes], str], gone: int = 0) -> str:
    """A manifest and its images behind an address; the last ones are not there."""
    samples = labelled()
    names = [f"images/{number}.png" for number in range(len(samples))]
    for name, (_, content) in list(zip(names, samples, strict=True))[: len(names) - gone]:
        memory(f"flowers/{name}", content)
    labels = [label for label, _ in samples]
    return memory("flowers/list.csv", manifest_of(names, labels))


# --- names ---------------------------------------------------------------------------------------


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


# --- tar -----------------------------------------------------------------------------------------


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


def test_a_tar_is_only_read(tmp_path: Path) -> None:
    """Links and devices in it lead nowhere, and names with dots stay names."""
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        link = tarfile.TarInfo("rose/link.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        for number, (label, content) in enumerate(labelled(4)):
            member = tarfile.TarInfo(f"../../{label}/{number}.png")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    before = sorted(tmp_path.rglob("*"))
    table = read_table(describe_data(str(path)))
    assert len(table.ids) == 4
    assert Image.open(io.BytesIO(table.files.content(0))).size == (40, 40)
    assert table.files.file_name(0) == "0.png"
    assert sorted(tmp_path.rglob("*")) == before


def test_a_tar_that_breaks_off_costs_what_is_missing(tmp_path: Path) -> None:
    files = [(f"{label}/{n}.png", content) for n, (label, content) in enumerate(labelled(8))]
    path = write_tar(tmp_path / "a.tar", files)
    config = describe_data(str(path))
    table = read_table(config)
    path.write_bytes(path.read_bytes()[: int(table.files.start[5]) + 10])
    with pytest.raises(UnreadableImageError, match=r"a\.tar ends before it"):
        table.files.content(5)
    assert table.files.content(4) == files[4][1]


@pytest.mark.parametrize("content", [b"", b"no tar at all" * 100, b"\x1f\x8b\x08" + b"x" * 600])
def test_what_is_no_tar_is_told(
    tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.tar").write_bytes(content)
    assert josrc("doctor", "data", tmp_path / "a.tar") == 2
    assert f"{tmp_path / 'a.tar'} can't be read as a tar file" in capsys.readouterr().err


def test_a_shard_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shards(tmp_path)
    assert josrc("doctor", "data", f"{tmp_path}/{{0000..0002}}.tar") == 2
    assert f"{tmp_path}/0002.tar does not exist" in capsys.readouterr().err


# --- parquet -------------------------------------------------------------------------------------


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


# --- manifests -----------------------------------------------------------------------------------


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
        with pytest.raises(UnreadableImageError, match="holds no"):
            files.content(place)
    assert files.missing().tolist() == [3, 4]


def test_a_local_list_reaches_no_network_without_leave(
    tmp_path: Path, memory: Callable[[str, bytes], str], capsys: pytest.CaptureFixture[str]
) -> None:
    place = memory("flowers/1.png", picture("rose", 1))
    other = memory("flowers/2.png", picture("tulip", 2))
    path = tmp_path / "list.csv"
    path.write_bytes(manifest_of([place, other], ["rose", "tulip"]))
    assert josrc("doctor", "data", path) == 2
    assert "lies outside of" in capsys.readouterr().err
    assert josrc("doctor", "data", path, "--allow-outside") == 0
    path.write_bytes(manifest_of(["http://169.254.169.254/secret", other], ["rose", "tulip"]))
    assert josrc("doctor", "data", path, "--allow-outside") == 2
    assert "josrc does not open http://" in capsys.readouterr().err


# --- addresses -----------------------------------------------------------------------------------


def test_images_behind_an_address_are_decoded_by_workers(
    memory: Callable[[str, bytes], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Forked ones have what is in memory; each opens a file system of its own."""
    place = flowers(memory, gone=1)
    images = read_table(describe_data(place)).files.with_tile(16)
    groups = [np.arange(0, 12), np.arange(12, 24)]
    parts = list(DecodingPool(images, 2, 12).decode(groups))
    faults = [fault for part in parts for fault in part.faults]
    assert list(map(tuple, faults)) == [(23, "there is no such object or bucket")]
    assert parts[0].tiles.float().std() > 10
    josrc("doctor", "data", place)
    told = capsys.readouterr()
    assert "memory://flowers/images/23.png" in told.out + told.err


def test_too_large_an_object_is_not_fetched(
    memory: Callable[[str, bytes], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "LARGEST_IMAGE", 1000)
    place = memory("flowers/1.png", bytes(2000))
    with pytest.raises(UnreadableImageError, match="larger than"):
        remote.fetch_image(place)


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("http://example.org/list.csv", "does not open http://"),
        ("s3://", "s3:// names no bucket: s3://BUCKET/PATH"),
        ("s3:///list.csv", "names no bucket"),
        ("s3://ann:secret@bucket/list.csv", "leave the password out"),
        ("memory://nowhere/list.csv", "there is no such object or bucket"),
        ("memory://nowhere/list.txt", "behind an address josrc reads manifests"),
        ("gs://bucket/list.csv", "pip install gcsfs"),
    ],
)
def test_addresses_that_lead_nowhere_say_what_to_do(
    place: str, told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "gcsfs", None)
    assert josrc("doctor", "data", place) == 2
    error = capsys.readouterr().err
    assert told in error
    assert "secret" not in error


# --- the whole way -------------------------------------------------------------------------------


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
