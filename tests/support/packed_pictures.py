"""Pictures inside tar and parquet files."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from PIL import Image
from pyarrow import parquet

COLOURS = {"rose": (200, 40, 40), "tulip": (40, 60, 200)}


def picture(label: str, number: int) -> bytes:
    """A small picture in the colour of its class; no two are alike."""
    pixels = np.random.default_rng(number).integers(0, 60, (40, 40, 3))
    pixels[number % 12 : number % 12 + 20, 5:25] = COLOURS[label]
    content = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(content, "PNG")
    return content.getvalue()


def labelled(count: int = 24) -> list[tuple[str, bytes]]:
    """Labels and pictures; the first label is wrong."""
    found = [(list(COLOURS)[n % 2], picture(list(COLOURS)[n % 2], n)) for n in range(count)]
    return [("tulip", found[0][1]), *found[1:]]


def write_tar(path: Path, files: list[tuple[str, bytes]]) -> Path:
    """A tar of these files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, content in files:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


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
