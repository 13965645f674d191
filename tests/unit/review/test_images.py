"""Pictures of a review."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from commands import josrc
from josrc.data.registry import open_source
from josrc.runs.start import configure
from reviewing import Client

Serving = Callable[[Path], tuple[Any, str]]


def fingerprint(folder: Path) -> dict[str, tuple[str, int]]:
    return {
        str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_data_known_by_name_has_pictures_too(tmp_path: Path, serving: Serving) -> None:
    noise = ["--noise", "symmetric", "--rate", "0.3", "--method", "standard", "--epochs", "1"]
    assert josrc("train", "digits-o", *noise, "--quiet", "--out", tmp_path / "run") == 0
    client = Client(serving(tmp_path / "run")[1])
    status, _, content = client.ask("GET", "/thumbnail/0")
    assert status == 200
    grey = np.asarray(Image.open(io.BytesIO(content)).convert("L"))
    given = open_source(configure("digits-o", noise="symmetric", rate=0.3).data)
    np.testing.assert_array_equal(grey, given.images.pixels[0, :, :, 0])


def test_pictures_come_by_row_are_kept_and_leave_the_originals_alone(
    reviewed: Path, serving: Serving
) -> None:
    photos = reviewed.parent / "photos"
    before = fingerprint(photos)
    client = Client(serving(reviewed)[1])
    for row, colour in ((0, (200, 40, 40)), (8, (40, 200, 40)), (23, (40, 40, 200))):
        for kind in ("thumbnail", "image"):
            status, headers, content = client.ask("GET", f"/{kind}/{row}")
            assert (status, headers["content-type"]) == (200, "image/webp")
            picture = Image.open(io.BytesIO(content)).convert("RGB")
            assert picture.size == (40, 30)
            assert picture.getpixel((20, 15)) == colour
    assert len(list((reviewed / "audit" / "thumbnails").rglob("*.webp"))) == 3
    assert fingerprint(photos) == before
    (photos / "cat" / "1.png").unlink()
    (photos / "cat" / "2.png").write_bytes(b"junk")
    (photos / "cat" / "0 'q\" <b>.png").unlink()
    assert client.ask("GET", "/thumbnail/9")[::2] == (404, b"No picture: the file does not exist")
    assert client.ask("GET", "/image/10")[0] == 404
    assert client.ask("GET", "/thumbnail/8")[0] == 200, "from the cache"
