"""Images: mutated in every format, with headers that lie, and such as unpack to gigabytes."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ..cases import Case
from ..mutate import mutants
from ..world import SHORT, World, content, copy, in_child

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP")
BINARY = ("flip", "flip early", "cut", "drop", "insert", "zero", "repeat")
SIDE = 13_300  # below the limit of Pillow, whose square is 177 million


def cases(world: World) -> Iterator[Case]:
    """Mutants through predict; headers and modes too; then some of them within a training."""
    picture = Image.open(world.data / "cat" / "0.png").convert("RGB")
    for form in FORMATS:
        for title, changed in mutants(_saved(picture, form), 28, form, BINARY):
            yield _predict(world, f"{form} {title}", form.lower(), changed)
    for title, (extension, made) in _odd(picture).items():
        yield _predict(world, title, extension, made)
    for title, made in _training(picture).items():

        def prepare(folder: Path, made: bytes = made) -> None:
            copy(world.data, "in")(folder)
            content("in/cat/0.png", made)(folder)

        yield Case("images", f"train {title}", ("train", "in", *SHORT, "--out", "out/run"), prepare)
    yield from _bombs(world)


def _predict(world: World, title: str, extension: str, made: bytes) -> Case:
    name = f"in/x.{extension}"
    command = ("predict", str(world.run), name, "--workers", "0", "--out", "out/p.csv", "--quiet")
    return Case("images", title, command, content(name, made))


def _saved(picture: Image.Image, form: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, form, **options)
    return buffer.getvalue()


def _training(picture: Image.Image) -> dict[str, bytes]:
    good = _saved(picture, "PNG")
    made = {
        "empty": b"",
        "text": b"no image",
        "half": good[: len(good) // 2],
        "gif": _saved(picture, "GIF"),
    }
    return made | {f"png {title}": mutant for title, mutant in mutants(good, 8, "train", BINARY)}


def _odd(picture: Image.Image) -> dict[str, tuple[str, bytes]]:
    """Modes, frames, sizes and headers that few programs see."""
    odd: dict[str, tuple[str, bytes]] = {}
    for mode in ("1", "L", "LA", "P", "RGBA", "I;16"):
        odd[f"png mode {mode}"] = (
            "png",
            _saved(
                picture.convert("L").convert(mode) if mode == "I;16" else picture.convert(mode),
                "PNG",
            ),
        )
    for mode in ("CMYK", "F", "I", "LAB", "YCbCr", "I;16"):
        source = picture.convert("L") if mode in ("F", "I", "I;16") else picture
        odd[f"tiff mode {mode}"] = ("tif", _saved(source.convert(mode), "TIFF"))
    odd["jpeg cmyk"] = ("jpg", _saved(picture.convert("CMYK"), "JPEG"))
    for value in (np.nan, np.inf, -1e38, 1e38):
        odd[f"float tiff of {value}"] = (
            "tif",
            _saved(Image.fromarray(np.full((9, 9), value, np.float32)), "TIFF"),
        )
    for size in ((1, 1), (1, 4000), (4000, 1), (2, 65000)):
        odd[f"png {size}"] = ("png", _saved(picture.resize(size), "PNG"))
    frames = [picture.rotate(angle) for angle in range(0, 300, 3)]
    odd["gif of 100 frames"] = ("gif", _saved(picture, "GIF", save_all=True, append_images=frames))
    odd["tiff of 100 pages"] = ("tif", _saved(picture, "TIFF", save_all=True, append_images=frames))
    for width, height in (
        (0, 0),
        (2**31 - 1, 2**31 - 1),
        (60_000, 60_000),
        (100_000_000, 1),
        (1, 2**31 - 1),
    ):
        odd[f"png that says {width} x {height}"] = ("png", _png(width, height, b"\0" * 100))
    odd["png of many chunks"] = (
        "png",
        _png(9, 9, b"\0" * 252, extra=_chunk(b"tEXt", b"a\0b") * 100_000),
    )
    odd["png of a text bomb"] = (
        "png",
        _png(9, 9, b"\0" * 252, extra=_chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(2**28), 9))),
    )
    odd["png of a profile bomb"] = (
        "png",
        _png(9, 9, b"\0" * 252, extra=_chunk(b"iCCP", b"a\0\0" + zlib.compress(bytes(2**28), 9))),
    )
    odd["png of an animation"] = (
        "png",
        _saved(picture, "PNG", save_all=True, append_images=frames[:9]),
    )
    for orientation in (0, 3, 8, 9, 65535):
        exif = Image.Exif()
        exif[0x0112] = orientation
        odd[f"jpeg turned {orientation}"] = ("jpg", _saved(picture, "JPEG", exif=exif))
    odd["jpeg of an exif loop"] = (
        "jpg",
        _saved(
            picture,
            "JPEG",
            exif=b"Exif\0\0II*\0\x08\0\0\0\x01\0\x69\x87\x04\0\x01\0\0\0\x08\0\0\0\x08\0\0\0",
        ),
    )
    odd["tiff of a loop"] = (
        "tif",
        b"II*\0\x08\0\0\0\x01\0\0\x01\x04\0\x01\0\0\0\x09\0\0\0\x08\0\0\0",
    )
    odd["svg"] = ("png", b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>")
    odd["postscript"] = (
        "png",
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(executed) (w) file closefile\n",
    )
    odd["postscript as eps"] = (
        "eps",
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n",
    )
    odd["html"] = ("jpg", b"<html><script>alert(1)</script>")
    odd["pickle"] = ("jpg", b"\x80\x04cos\nsystem\n(S'touch executed'\ntR.")
    odd["a text behind"] = ("png", _saved(picture, "PNG") + b"x" * 10_000_000)
    return odd


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _png(width: int, height: int, pixels: bytes, extra: bytes = b"") -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [
        _chunk(b"IHDR", header),
        extra,
        _chunk(b"IDAT", zlib.compress(pixels)),
        _chunk(b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _bombs(world: World) -> Iterator[Case]:
    """Images of 177 million pixels that are small files, in every mode."""
    makers = {
        "grey.png": ("PNG", np.uint8, ()), "grey16.png": ("PNG", np.uint16, ()),
        "colour.png": ("PNG", np.uint8, (3,)), "alpha.png": ("PNG", np.uint8, (4,)),
        "float.tif": ("TIFF", np.float32, ()), "integer.tif": ("TIFF", np.int32, ()),
        "colour.webp": ("WEBP", np.uint8, (3,)), "grey.jpg": ("JPEG", np.uint8, ()),
    }  # fmt: skip
    for name, (form, kind, channels) in makers.items():
        path = world.files / name
        side = SIDE if form != "WEBP" else 10_000
        options = {"compression": "tiff_adobe_deflate"} if form == "TIFF" else {}

        def make(
            path: Path = path,
            side: int = side,
            form: str = form,
            kind: Any = kind,
            channels: tuple[int, ...] = channels,
            options: dict[str, str] = options,
        ) -> None:
            Image.fromarray(np.zeros((side, side, *channels), kind)).save(path, form, **options)

        def prepare(folder: Path, path: Path = path, make: Any = make) -> None:
            if not path.is_file():
                in_child(make)

        for words in (("--workers", "0"), ("--workers", "1")):
            command = (
                "predict",
                str(world.run),
                str(path),
                *words,
                "--out",
                "out/p.csv",
                "--quiet",
            )
            yield Case("images", f"bomb {name} {' '.join(words)}", command, prepare)
        yield Case(
            "images", f"bomb {name} doctor", ("doctor", "data", str(world.files / name)), prepare
        )
