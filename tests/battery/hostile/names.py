"""Odd names of files and classes: they are only names, wherever they end up."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from ..cases import Case
from ..world import CLASSES, SHORT, World

NAMES = {
    "blank": "a b", "quote": "it's", "double quote": 'a"b', "newline": "a\nb", "tab": "a\tb",
    "return": "a\rb", "escape": "\x1b[31mred\x1b[0m", "title": "\x1b]0;owned\x07", "bell": "a\x07",
    "script": "<script>alert(1)", "image": "<img src=x onerror=alert(1)>", "entity": "&lt;b&gt;",
    "formula": "=cmd|calc", "plus": "+1+1", "at": "@SUM(1)", "minus": "-1", "dash": "--help",
    "markup": "[bold red]x[", "closing": "[ red]", "percent": "%s%n%d", "brace": "{0.__class__}",
    "dollar": "$(touch executed)", "backtick": "`touch executed`", "semicolon": "; touch executed",
    "backslash": "a\\b", "drive": "C:x", "dots": "...", "tilde": "~root", "star": "*", "hash": "#a",
    "right to left": "a\u202egnp.b", "zero width": "a\u200bb", "combining": "e\u0301", "nfc": "\u00e9",
    "emoji": "\U0001f431", "null sign": "\u2400", "line separator": "a\u2028b", "bom": "\ufeffa",
    "not utf-8": os.fsdecode(b"\xff\xfe"), "latin": os.fsdecode(b"caf\xe9"), "long": "n" * 200,
    "long wide": "\u00e9" * 100, "number": "0", "float": "1e3", "nan": "nan", "true": "true",
    "none": "None", "null": "null", "empty looking": "\u00a0", "python": "__class__",
    "comma": "a,b", "pipe": "a|b", "colon": "a:b", "equals": "a=b", "c1": "a\x9bb", "delete": "a\x7f",
}  # fmt: skip


def cases(world: World) -> Iterator[Case]:
    """Each name as that of a class, and as that of a file; then what follows a training."""
    for title, name in NAMES.items():
        yield _case(
            f"class {title}, train",
            _class(world, name),
            ("train", "in", *SHORT, "--out", "out/run"),
        )
        yield _case(
            f"file {title}, train", _file(world, name), ("train", "in", *SHORT, "--out", "out/run")
        )
    for title, name in NAMES.items():
        if "/" not in name:
            features = ("--features", str(world.files / "features.npy"))
            command = ("scan", "in", *features, "--out", "out/run")
            yield _case(f"class {title}, scan", _class(world, name), command)


def _case(title: str, prepare: Callable[[Path], object], arguments: tuple[str, ...]) -> Case:
    return Case("names", title, arguments, prepare)


def _class(world: World, name: str) -> Callable[[Path], object]:
    def prepare(folder: Path) -> None:
        shutil.copytree(world.data, folder / "in")
        (folder / "in" / CLASSES[0]).rename(folder / "in" / name)

    return prepare


def _file(world: World, name: str) -> Callable[[Path], object]:
    def prepare(folder: Path) -> None:
        shutil.copytree(world.data, folder / "in")
        (folder / "in" / CLASSES[0] / "0.png").rename(folder / "in" / CLASSES[0] / f"{name}.png")

    return prepare
