"""Images on a real S3-compatible server, moto's, on loopback."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from commands import josrc
from josrc.data.readers import read_table
from josrc.data.registry import describe_data
from josrc.review.images import ReviewImages
from josrc.runs.snapshot import open_run

s3fs = pytest.importorskip("s3fs")
pytest.importorskip("moto")
boto3 = pytest.importorskip("boto3")
pytestmark = pytest.mark.slow

COLOURS = {"rose": (200, 40, 40), "tulip": (40, 60, 200)}
SERVER = Path(__file__).parents[1] / "support" / "s3_server.py"
SMALL = ("--model", "cnn7", "--image-size", 8, "--method", "standard", "--epochs", 1, "--quiet")


def picture(number: int) -> bytes:
    """A small picture, of the colour of every other class in its turn."""
    pixels = np.random.default_rng(number).integers(0, 60, (40, 40, 3))
    pixels[number % 12 : number % 12 + 20, 5:25] = list(COLOURS.values())[number % 2]
    content = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(content, "PNG")
    return content.getvalue()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where the server answers."""
    server = subprocess.Popen([sys.executable, SERVER], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
    finally:
        server.kill()
        server.communicate()


@pytest.fixture
def service(address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The server as programs reach it by environment variables, with a bucket of 24 flowers."""
    variables = {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "ann",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_MAX_ATTEMPTS": "1",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3")
    client.create_bucket(Bucket="flowers")
    names = list(COLOURS)
    for number in range(24):
        client.put_object(Bucket="flowers", Key=f"images/{number}.png", Body=picture(number))
    rows = [f"images/{n}.png,{names[n % 2]}" for n in range(24)]
    listed = "\n".join(["path,label", *rows]).encode()
    client.put_object(Bucket="flowers", Key="list.csv", Body=listed)
    s3fs.S3FileSystem.clear_instance_cache()
    yield client
    s3fs.S3FileSystem.clear_instance_cache()
    reset = urllib.request.Request(f"{address}/moto-api/reset", method="POST")
    urllib.request.urlopen(reset).close()


def appended(client: Any, *paths: str) -> str:
    """A list with some more images."""
    content = client.get_object(Bucket="flowers", Key="list.csv")["Body"].read().decode()
    content += "".join(f"\n{path},rose" for path in paths)
    client.put_object(Bucket="flowers", Key="more.csv", Body=content.encode())
    return "s3://flowers/more.csv"


def test_from_a_bucket_to_the_corrected_data_set(service: Any, tmp_path: Path) -> None:
    """Two processes decode, each by connections of its own; one image is not there."""
    run, place = tmp_path / "run", appended(service, "images/gone.png")
    workers = ("--workers", 2, "data.resident=false")
    assert josrc("train", place, *SMALL, *workers, "--out", run) == 0
    skipped = (run / "skipped.csv").read_text()
    assert "s3://flowers/images/gone.png,there is no such object or bucket" in skipped
    secrets = [path for path in run.rglob("*") if path.is_file() and b"secret" in path.read_bytes()]
    assert secrets == []
    opened = open_run(run)
    assert not opened.changes
    assert ReviewImages(24, opened.source.images.picture, tmp_path / "cache").thumbnail(3)
    assert josrc("report", run) == 0
    auto = ("apply", run, "--auto", 0.999)
    assert josrc(*auto, "--out", tmp_path / "list.csv") == 0
    files = read_table(describe_data(str(tmp_path / "list.csv"))).files
    assert files.location(5) == "s3://flowers/images/5.png"
    assert [files.content(place) for place in range(24)] == [picture(n) for n in range(24)]
    assert josrc(*auto, "--copy", "--out", tmp_path / "folder") == 0
    copied = [path.read_bytes() for path in (tmp_path / "folder").rglob("*.png")]
    assert sorted(copied) == sorted(map(picture, range(24)))
    tasks = tmp_path / "tasks.json"
    assert josrc(*auto[:2], "--to", "label-studio", "--out", tasks) == 0
    assert '"image": "s3://flowers/images/5.png"' in tasks.read_text()


def test_a_tar_in_a_bucket_is_read_by_ranges(service: Any, tmp_path: Path) -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for number in range(24):
            member = tarfile.TarInfo(f"{list(COLOURS)[number % 2]}/{number}.png")
            member.size = len(picture(number))
            archive.addfile(member, io.BytesIO(picture(number)))
    service.put_object(Bucket="flowers", Key="shards/train-0.tar", Body=content.getvalue())
    for place in ("s3://flowers/shards/", "s3://flowers/shards/train-{0..0}.tar"):
        table = read_table(describe_data(place))
        assert [table.files.content(n) for n in range(24)] == [picture(n) for n in range(24)]
    assert table.ids[23] == "train-0.tar#tulip/23.png"


def refused(capsys: pytest.CaptureFixture[str], place: str) -> str:
    """What is told of data that can't be read."""
    assert josrc("doctor", "data", place) == 2
    return capsys.readouterr().err


def test_what_is_not_there_is_named(service: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for place in ("s3://flowers/other.csv", "s3://nowhere/list.csv", "s3://nowhere/a.tar"):
        told = refused(capsys, place)
        assert told.startswith(f"josrc: {place} can't be read: there is no such object or bucket")
    empty = appended(service, "images/empty.png")
    service.put_object(Bucket="flowers", Key="images/empty.png", Body=b"")
    josrc("doctor", "data", empty)
    assert "s3://flowers/images/empty.png: the file is empty" in capsys.readouterr().out


def check_from_now_on(address: str, free: int) -> None:
    """Have the server check who asks, after so many more requests."""
    plain = {"Content-Type": "text/plain"}
    told = urllib.request.Request(f"{address}/moto-api/reset-auth", str(free).encode(), plain)
    urllib.request.urlopen(told).close()


def test_wrong_credentials_are_told(
    service: Any,
    address: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check_from_now_on(address, 0)
    try:
        assert "permission denied, check your credentials" in refused(
            capsys, "s3://flowers/list.csv"
        )
        s3fs.S3FileSystem.clear_instance_cache()
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        told = refused(capsys, "s3://flowers/list.csv")
        assert "permission denied, check your credentials" in told
    finally:
        check_from_now_on(address, 1_000_000)


def test_slow_and_silent_servers_cost_bounded_time(
    service: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOSRC_REMOTE_SECONDS", "1")
    service.put_object(Bucket="flowers", Key="images/slow.png", Body=picture(0))
    place = appended(service, "images/slow.png")
    begun = time.monotonic()
    josrc("doctor", "data", place)
    assert time.monotonic() - begun < 50  # it answers after 60
    told = "s3://flowers/images/slow.png: no answer within 1 seconds"
    assert told in capsys.readouterr().out
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # nobody listens there
    s3fs.S3FileSystem.clear_instance_cache()
    assert "s3://flowers/more.csv can't be read: no answer" in refused(capsys, place)


def test_processes_that_are_spawned_open_connections_of_their_own(
    service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import multiprocessing

    images = read_table(describe_data("s3://flowers/list.csv")).files
    assert images.content(0) == picture(0)  # this process is connected already
    fetch: Callable[[int], Any] = images.content
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(fetch, range(24)) == [picture(n) for n in range(24)]
