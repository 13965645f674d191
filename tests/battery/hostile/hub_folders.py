"""Hugging Face data sets that were saved to disk, with columns of other types than images and classes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from PIL import Image

from ..cases import Case
from ..mutate import mutants
from ..world import SHORT, World, in_child


def cases(world: World) -> Iterator[Case]:
    """Mutants of the files of a good one, and data sets of every sort of column."""
    whole = saved(world, "good", good)
    yield _case("good", whole, lambda folder: None)
    for name in ("dataset_info.json", "state.json", "data-00000-of-00001.arrow"):
        text = (whole / name).read_bytes()
        for title, changed in mutants(text, 14, name):
            yield _case(f"{name} {title}", whole, _replace(name, changed))
        for title, changed in (
            ("gone", None),
            ("empty", b""),
            ("deep", b"[" * 100_000),
            ("list", b"[]"),
        ):
            yield _case(f"{name} {title}", whole, _replace(name, changed))
    for title, path in (
        ("up", "../../../x"),
        ("absolute", "/etc/passwd"),
        ("number", 3),
        ("gone", "no.arrow"),
        ("endless", "/dev/zero"),
    ):
        files = json.dumps(
            {"_data_files": [{"filename": path}], "_split": None, "_fingerprint": "x"}
        )
        yield _case(f"data file {title}", whole, _replace("state.json", files.encode()))
    for title, make in _columns().items():
        yield _case(
            f"columns {title}", saved(world, title.replace(" ", "-"), make), lambda folder: None
        )


def _case(title: str, source: Path, change: Callable[[Path], object]) -> Case:
    def prepare(folder: Path) -> None:
        shutil.copytree(source, folder / "in")
        change(folder / "in")

    return Case("hub folders", title, ("train", "in", *SHORT, "--out", "out/run"), prepare)


def _replace(name: str, text: bytes | None) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        if text is None:
            (folder / name).unlink()
        else:
            (folder / name).write_bytes(text)

    return change


def saved(world: World, name: str, make: Callable[[], Any]) -> Path:
    """A data set on disk, made in a process of its own: the library starts threads."""
    path = world.files / f"hub-{name}"
    if not path.is_dir():
        in_child(lambda: make().save_to_disk(str(path)))
    return path


def _images(count: int = 12) -> list[Image.Image]:
    return [Image.new("RGB", (20, 20), (20 * n, 90, 120)) for n in range(count)]


def _table(images: Any, labels: Any, features: Any = None) -> Any:
    from datasets import Dataset

    return Dataset.from_dict({"image": images, "label": labels}, features=features)


def good() -> Any:
    """Twelve images of two classes."""
    from datasets import ClassLabel, Features
    from datasets import Image as ImageColumn

    features = Features({"image": ImageColumn(), "label": ClassLabel(names=["cat", "dog"])})
    return _table(_images(), [n % 2 for n in range(12)], features)


def _out_of_range() -> Any:
    """ClassLabels that name no class, as casts leave them."""
    from datasets import ClassLabel, Features, Value
    from datasets import Image as ImageColumn

    table = _table(
        _images(),
        [n % 2 for n in range(12)],
        Features({"image": ImageColumn(), "label": Value("int64")}),
    )
    table = table.map(lambda row: {"label": 90 + row["label"]})
    table.info.features["label"] = ClassLabel(names=["cat", "dog"])
    return table


def _splits_of_other_columns() -> Any:
    from datasets import Dataset, DatasetDict

    return DatasetDict(train=good(), test=Dataset.from_dict({"text": ["a"], "number": [1]}))


def _columns() -> dict[str, Callable[[], Any]]:
    halves = [n % 2 for n in range(12)]
    return {
        "strings as images": lambda: _table(["a.png"] * 12, halves), "numbers as images": lambda: _table([1.5] * 12, halves),
        "lists as images": lambda: _table([[1, 2]] * 12, halves), "nulls as images": lambda: _table([None] * 12, halves),
        "structs as images": lambda: _table([{"a": 1}] * 12, halves), "bytes as images": lambda: _table([b"x"] * 12, halves),
        "dicts of bytes": lambda: _table([{"bytes": b"no image", "path": None}] * 12, halves),
        "dicts of paths": lambda: _table([{"bytes": None, "path": "/etc/hostname"}] * 12, halves),
        "strings as labels": lambda: _table(_images(), ["a", "b"] * 6), "floats as labels": lambda: _table(_images(), [0.5] * 12),
        "lists as labels": lambda: _table(_images(), [[1]] * 12), "nulls as labels": lambda: _table(_images(), [None] * 12),
        "bools as labels": lambda: _table(_images(), [True, False] * 6), "structs as labels": lambda: _table(_images(), [{"a": 1}] * 12),
        "negative labels": lambda: _table(_images(), [-5, 3] * 6), "labels out of range": _out_of_range,
        "no label": lambda: good().remove_columns("label"), "no image": lambda: good().remove_columns("image"),
        "two images": lambda: good().add_column("picture", ["x"] * 12), "no rows": lambda: good().select([]),
        "splits of other columns": _splits_of_other_columns,
    }  # fmt: skip
