"""Tar and parquet files with images in them: members and rows that no honest program writes."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet

from ..cases import Case
from ..mutate import mutants
from ..world import CLASSES, SHORT, World, content, in_child

TAR, PARQUET = "x.tar", "x.parquet"


def cases(world: World) -> Iterator[Case]:
    """Good ones, their mutants, and made up ones, to train on and to predict."""
    images = [(f"{name}/{n}.png", name, (world.data / name / f"{n}.png").read_bytes()) for name in CLASSES for n in range(12)]  # fmt: skip
    good = {TAR: _tar(images), PARQUET: _kept(world, "good", lambda: _good(images))}
    for name, text in good.items():
        for title, changed in [("good", text), *mutants(text, 24, name)]:
            yield from _case(world, name, title, changed)
    for title, text in _tars(images).items():
        yield from _case(world, TAR, title, text)
    for title, make in _parquets(images).items():
        yield from _case(world, PARQUET, title, _kept(world, title, make))
    for title, size in {"8 GB header": 2**33, "8 GB member": -(2**33)}.items():
        yield _sparse(title, size)


def _case(world: World, name: str, title: str, text: bytes) -> Iterator[Case]:
    commands: dict[str, tuple[str, ...]] = {
        "train": ("train", f"in/{name}", *SHORT, "--allow-skipped", "--out", "out/run"),
        "predict": ("predict", str(world.run), f"in/{name}", "--workers", "0", "--out", "out/p.csv"),
    }  # fmt: skip
    for command, words in commands.items():
        kind = name.partition(".")[2]
        yield Case("packed files", f"{kind} {title}, {command}", words, content(f"in/{name}", text))


def _tar(members: Any, **more: Any) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", **more) as archive:
        for name, label, picture in members:
            for path, text in ((name, picture), (f"{name[:-4]}.cls", label.encode())):
                _add(archive, path, text)
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, path: str, text: bytes, **more: Any) -> None:
    member = tarfile.TarInfo(path)
    member.size = len(text)
    for key, value in more.items():
        setattr(member, key, value)
    archive.addfile(member, io.BytesIO(text) if member.isreg() else None)


def _special(images: Any, **more: Any) -> bytes:
    """A good tar, with a member of another sort in the place of an image."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, _, picture in images[1:]:
            _add(archive, name, picture)
        _add(archive, "cat/0.png", b"", **more)
    return buffer.getvalue()


def _patched(images: Any, place: int, text: bytes) -> bytes:
    """A tar whose first header says something else, with a sum that is right."""
    whole = bytearray(_tar(images))
    whole[place : place + len(text)] = text
    whole[148:156] = b" " * 8
    whole[148:156] = b"%06o\0 " % sum(whole[:512])
    return bytes(whole)


def _tars(images: Any) -> dict[str, bytes]:
    def renamed(change: Callable[[str], str]) -> bytes:
        return _tar([(change(name), label, picture) for name, label, picture in images])

    def size(number: int) -> bytes:
        return bytes([0xFF if number < 0 else 0x80]) + number.to_bytes(11, "big", signed=number < 0)

    kinds = {
        "link": tarfile.SYMTYPE, "hard link": tarfile.LNKTYPE, "pipe": tarfile.FIFOTYPE,
        "device": tarfile.CHRTYPE, "folder": tarfile.DIRTYPE,
    }  # fmt: skip
    made = {f"a {title}": _special(images, type=kind, linkname="/etc/passwd") for title, kind in kinds.items()}  # fmt: skip
    empty = [(f"cat/{n}.png", "cat", b"") for n in range(20_000)]
    told = [(f"{name}/{n}.png", name + "x" * 2000, b"") for name in CLASSES for n in range(200)]
    return made | {
        "absolute names": renamed(lambda name: f"/tmp/battery-executed/{name}"), "names up": renamed(lambda name: f"../../../../{name}"),
        "same names": renamed(lambda name: "cat/0.png"), "long names": renamed(lambda name: "x" * 5000 + name), "names NUL": renamed(lambda name: name.replace("/", "\0")),
        "names of escapes": renamed(lambda name: f"\x1b[2J{name}"), "names of surrogates": renamed(lambda name: f"\udcff{name}"), "names dots": renamed(lambda name: "../..png"),
        "no extension": renamed(lambda name: name[:-4]), "pax": _tar(images, format=tarfile.PAX_FORMAT, pax_headers={"x": "y" * 100_000}),
        "many empty members": _tar(empty), "long labels": _tar(told), "empty": b"", "no member": _tar([]), "zeros": bytes(100_000),
        "size of 10 GB": _patched(images, 124, size(10**10)), "size below zero": _patched(images, 124, size(-1024)), "size far below zero": _patched(images, 124, size(-(2**60))),
        "a long name of 10 GB": _patched(images, 124, size(10**10))[:156] + b"L" + _patched(images, 124, size(10**10))[157:],
        "compressed": b"\x1f\x8b" + bytes(50), "twice": _tar(images) + _tar(images), "images of text": _tar([(n, c, b"x") for n, c, _ in images]),
        "json of lists": _with_json(images, b"[]"), "json deep": _with_json(images, b"[" * 100_000), "json with a path": _with_json(images, json.dumps({"path": "/etc/hostname", "label": "cat"}).encode()),
        "json of objects": _with_json(images, json.dumps({"label": {"a": 1}}).encode()),
    }  # fmt: skip


def _with_json(images: Any, text: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, _, picture in images:
            _add(archive, name, picture)
            _add(archive, f"{name[:-4]}.json", text)
    return buffer.getvalue()


def _sparse(title: str, size: int) -> Case:
    """A tar of gigabytes that take no place: an extended header, or a member, of that size."""

    def prepare(folder: Path) -> None:
        (folder / "in").mkdir()
        member = tarfile.TarInfo("cat/0.png" if size < 0 else "x")
        member.size, member.type = abs(size), tarfile.REGTYPE if size < 0 else tarfile.XHDTYPE
        with (folder / "in" / TAR).open("wb") as file:
            file.write(member.tobuf(tarfile.GNU_FORMAT))
            file.truncate(abs(size) + 2048)

    words = ("train", f"in/{TAR}", *SHORT, "--allow-skipped", "--out", "out/run")
    return Case("packed files", f"tar {title}", words, prepare)


# --- parquet -------------------------------------------------------------------------------------


def _kept(world: World, title: str, make: Callable[[], Any]) -> bytes:
    """A table as a file, made in a process of its own: the library starts threads."""
    path = world.files / f"packed-{title.replace(' ', '-')}.parquet"
    if not path.is_file():
        in_child(lambda: pyarrow.parquet.write_table(make(), path, store_schema=False))
    return path.read_bytes()


def _good(images: Any) -> Any:
    _, labels, pictures = zip(*images, strict=True)
    return pyarrow.table({"image": list(pictures), "label": list(labels)})


def _parquets(images: Any) -> dict[str, Callable[[], Any]]:
    _, labels, pictures = (list(column) for column in zip(*images, strict=True))

    def table(**columns: Any) -> Callable[[], Any]:
        return lambda: pyarrow.table({"image": pictures, "label": labels} | columns)

    def shared(value: Any, rows: int = 50_000) -> Any:
        return pyarrow.DictionaryArray.from_arrays(np.zeros(rows, np.int32), [value])

    def many(value: Any, rows: int = 50_000) -> Callable[[], Any]:
        return lambda: pyarrow.table({"image": shared(pictures[0], rows), "label": shared(value, rows)})  # fmt: skip

    return {
        "a label of a megabyte in every row": many("x" * 10**6), "ten million rows": many("cat", 10**7), "an image of 300 MB": table(image=[b"x" * 300_000_000, *pictures[1:]]),
        "an id of a megabyte in every row": lambda: many("cat")().append_column("id", shared("x" * 10**6)),
        "images of text": table(image=[b"x"] * 36), "images null": table(image=pyarrow.array([None] * 36, pyarrow.binary())), "images of numbers": table(image=list(range(36))), "images of texts": table(image=["/etc/hostname"] * 36),
        "structs": table(image=[{"bytes": one, "path": "/etc/hostname"} for one in pictures]), "structs of paths alone": table(image=[{"bytes": None, "path": "/etc/hostname"}] * 36),
        "labels of numbers": table(label=[0, 1, 2] * 12), "labels of floats": table(label=[0.5] * 36), "labels null": table(label=[None] * 36), "labels of lists": table(label=[["a", "b"]] * 36),
        "labels of bytes": table(label=[b"\xff"] * 36), "labels of structs": table(label=[{"a": 1}] * 36), "labels up": table(label=["../../up"] * 36), "labels NUL": table(label=["a\0b"] * 36),
        "lists without end": table(id=[["x"] * 20_000] * 36), "ids of 64 bits": table(id=[2**63 - 1 - n for n in range(36)]), "ids same": table(id=["a"] * 36), "ids of escapes": table(id=[f"\x1b[2J{n}" for n in range(36)]),
        "no rows": lambda: _good(images).slice(0, 0), "no columns": lambda: pyarrow.table({}), "two images": table(picture=pictures), "a column called path": table(path=["/etc/hostname"] * 36),
        "unsigned ids": table(id=pyarrow.array([2**64 - 1 - n for n in range(36)], pyarrow.uint64())), "times": table(taken=np.array(["2020-01-01"] * 36, "M8[ns]")),
    }  # fmt: skip
