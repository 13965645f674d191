"""Pictures inside tar and parquet files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import parquet

from packed import COLOURS, picture, write_tar


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
