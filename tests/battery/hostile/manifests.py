"""Manifests: CSV, TSV, JSONL and parquet that are damaged, huge, deep, foreign or hostile."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..cases import Case
from ..mutate import mutants
from ..world import SHORT, World, content, copy

NOISE = ("--out", "out/n.npz")


def cases(world: World) -> Iterator[Case]:
    """Mutants and made-up manifests through noise; those that are read, through a whole round."""
    rows = [
        (str(path.relative_to(world.data)), path.parent.name)
        for path in sorted(world.data.glob("*/*.png"))
    ]
    good = {
        "csv": _delimited(rows, ","), "tsv": _delimited(rows, "\t"), "jsonl": _jsonl(rows),
        "parquet": _parquet(rows),
    }  # fmt: skip
    for kind, text in good.items():
        for title, changed in mutants(text, 36, kind):
            yield _noise(world, f"{kind} {title}", f"m.{kind}", changed)
    for title, (name, text) in {**_tables(rows), **_lines(rows), **_parquets(rows)}.items():
        yield _noise(world, title, name, text)
    for title, labels in _labels().items():
        lines = [(path, labels[index % len(labels)]) for index, (path, _) in enumerate(rows)]
        prepare = _beside(world, "m.jsonl", _jsonl(lines))
        words = ("train", "in/m.jsonl", *SHORT, "--allow-skipped", "--out", "out/run")
        yield Case("manifests", f"train labels {title}", words, prepare)
    for title, path in _paths().items():
        lines = [*rows, (path, "cat")]
        for words in ((), ("--allow-outside",)):
            prepare = _beside(world, "m.jsonl", _jsonl(lines))
            command = ("noise", "in/m.jsonl", *words, "--allow-skipped", *NOISE)
            yield Case("manifests", f"path {title} {' '.join(words)}", command, prepare)


def _noise(world: World, title: str, name: str, text: bytes) -> Case:
    return Case("manifests", title, ("noise", f"in/{name}", *NOISE), _beside(world, name, text))


def _beside(world: World, name: str, text: bytes) -> Callable[[Path], object]:
    def prepare(folder: Path) -> None:
        copy(world.data, "in")(folder)
        content(f"in/{name}", text)(folder)

    return prepare


def _delimited(rows: list[tuple[str, str]], mark: str) -> bytes:
    return "\n".join(mark.join(row) for row in [("path", "label"), *rows]).encode()


def _jsonl(rows: list[tuple[Any, Any]]) -> bytes:
    return "\n".join(json.dumps({"path": path, "label": label}) for path, label in rows).encode()


def _parquet(rows: list[tuple[Any, Any]], **columns: Any) -> bytes:
    import pyarrow
    import pyarrow.parquet

    paths, labels = zip(*rows, strict=True)
    table = pyarrow.table({"path": list(paths), "label": list(labels)} | columns)
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(table, buffer)
    return buffer.getvalue()


def _tables(rows: list[tuple[str, str]]) -> dict[str, tuple[str, bytes]]:
    head, body = b"path,label\n", "\n".join(",".join(row) for row in rows).encode()
    made = {
        "empty": b"", "header alone": head, "no header": body, "one column": b"path\ncat/0.png\n",
        "no such columns": b"a,b\n" + body, "doubled header": b"path,label,label\n" + body,
        "all NUL": bytes(50_000), "NUL within": head + body.replace(b"dog", b"d\0g"),
        "one long line": b"path,label\n" + b"x" * 5_000_000, "long field": head + b"a" * 200_000 + b",cat\n",
        "open quote": head + b'"cat/0.png,cat\n' + body, "quotes": head + b'"' * 99_999,
        "many columns": b",".join(b"c%d" % n for n in range(50_000)) + b"\n" + body,
        "ragged": head + b"cat/0.png\ncat/1.png,cat,dog,owl\n,\n" + body,
        "utf-16": (head + body).decode().encode("utf-16"), "utf-8 with bom": b"\xef\xbb\xbf" + head + body,
        "latin-1": head + body + b"\ncat/0.png,caf\xe9", "carriage returns": (head + body).replace(b"\n", b"\r"),
        "semicolons": (head + body).replace(b",", b";"), "a pickle": b"\x80\x04cos\nsystem\n(S'touch executed'\ntR.",
        "no labels": head + b"\n".join(row[0].encode() + b"," for row in rows),
        "formula labels": head + b"\n".join(row[0].encode() + b",=cmd|' /C calc'!A0" for row in rows),
        "own label each": head + b"\n".join(b"%s,c%d" % (row[0].encode(), n) for n, row in enumerate(rows)),
        "each row twice": head + body + b"\n" + body, "missing files": head + b"no.png,cat\n" * 40,
        "many missing files": head + b"".join(b"no%d.png,cat\n" % n for n in range(50_000)),
        "html": b"<html><body>404</body></html>", "a zip": b"PK\x03\x04" + bytes(99),
        "a gzip": b"\x1f\x8b\x08\0" + bytes(99), "blanks": b" " * 99_999 + b"\n" + head,
    }  # fmt: skip
    return {f"csv {title}": ("m.csv", text) for title, text in made.items()}


def _lines(rows: list[tuple[str, str]]) -> dict[str, tuple[str, bytes]]:
    body = _jsonl(rows)
    made = {
        "deep arrays": b"[" * 100_000, "deep objects": b'{"a":' * 100_000, "deep label": b'{"path":"cat/0.png","label":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        "a number": b"1\n2", "null": b"null\n", "strings": b'"cat/0.png"\n', "arrays": b'["cat/0.png","cat"]\n',
        "label null": _jsonl([(p, None) for p, _ in rows]), "label list": _jsonl([(p, ["cat"]) for p, _ in rows]),
        "label object": _jsonl([(p, {"a": 1}) for p, _ in rows]), "label number": _jsonl([(p, n % 3) for n, (p, _) in enumerate(rows)]),
        "label float": _jsonl([(p, n % 3 + 0.5) for n, (p, _) in enumerate(rows)]), "label NaN": _jsonl([(p, float("nan")) for p, _ in rows]),
        "label bool": _jsonl([(p, n % 2 == 0) for n, (p, _) in enumerate(rows)]), "path number": _jsonl([(n, "cat") for n in range(9)]),
        "path null": _jsonl([(None, "cat")]), "path list": _jsonl([(["cat/0.png"], "cat")]), "path empty": _jsonl([("", "cat")]),
        "huge number": b'{"path":"cat/0.png","label":' + b"9" * 5_000 + b"}", "doubled key": body + b'\n{"path":"cat/0.png","path":1,"label":"cat"}',
        "open string": body + b'\n{"path":"cat/0', "two on a line": body.replace(b"\n", b"", 1), "surrogate": body + b'\n{"path":"cat/0.png","label":"\\ud800"}',
        "surrogate path": body + b'\n{"path":"\\udcff.png","label":"cat"}', "NUL path": body + b'\n{"path":"a\\u0000b","label":"cat"}',
        "long path": body + b'\n{"path":"' + b"x" * 300 + b'.png","label":"cat"}', "very long path": body + b'\n{"path":"' + b"x/" * 100_000 + b'","label":"cat"}',
        "one array": json.dumps([{"path": p, "label": label} for p, label in rows]).encode(), "other keys": b'{"__proto__":{},"label":"cat","path":"cat/0.png"}',
    }  # fmt: skip
    return {f"jsonl {title}": ("m.jsonl", text) for title, text in made.items()}


def _parquets(rows: list[tuple[str, str]]) -> dict[str, tuple[str, bytes]]:
    import pyarrow

    paths = [row[0] for row in rows]
    columns = {
        "lists": [[label] for _, label in rows], "structs": [{"a": label} for _, label in rows],
        "bytes": [label.encode() for _, label in rows], "broken bytes": [b"\xff\xfe"] * len(rows),
        "nulls": [None] * len(rows), "floats": [0.5] * len(rows), "nan": [float("nan")] * len(rows),
        "huge": [2**62] * len(rows), "times": pyarrow.array(range(len(rows)), pyarrow.timestamp("ns")),
        "dictionary": pyarrow.array([label for _, label in rows]).dictionary_encode(),
        "bools": [True] * len(rows), "decimals": pyarrow.array([1] * len(rows), pyarrow.decimal128(9, 2)),
    }  # fmt: skip
    made = {f"label {title}": _parquet(rows, label=column) for title, column in columns.items()}
    for title, column in columns.items():
        made[f"path {title}"] = _parquet(rows, path=column)
    made["no rows"] = _parquet([(paths[0], "cat")])[:0] + _empty_parquet()
    return {f"parquet {title}": ("m.parquet", text) for title, text in made.items()}


def _empty_parquet() -> bytes:
    import pyarrow
    import pyarrow.parquet

    buffer = io.BytesIO()
    schema = pyarrow.schema([("path", pyarrow.string()), ("label", pyarrow.string())])
    pyarrow.parquet.write_table(schema.empty_table(), buffer)
    return buffer.getvalue()


def _labels() -> dict[str, list[str]]:
    return {
        "long": ["x" * 300, "cat", "dog"], "very long": ["x" * 200_000, "cat", "dog"], "NUL": ["a\0b", "cat"],
        "surrogate": ["\ud800", "cat"], "traversal": ["../../up", "cat"], "absolute": ["/tmp/up", "cat"],
        "dots": ["..", "."], "slash": ["a/b", "cat"], "empty and blank": [" ", "cat", "  "],
        "case": ["Cat", "cat", "CAT"], "numbers": ["1", "01", "1.0"], "newline": ["a\nb", "c\rd"],
        "escape": ["\x1b[2J", "\x1b]0;x\x07"], "c1": ["\x9b31m", "cat"], "script": ["<script>", "</script>"],
        "right to left": ["\u202ecat", "cat"], "normal forms": ["\u00e9", "e\u0301"], "one": ["cat"],
    }  # fmt: skip


def _paths() -> dict[str, str]:
    return {
        "up": "../../../../../../../../etc/hostname", "absolute": "/etc/hostname", "url": "http://127.0.0.1:9/x.png",
        "file url": "file:///etc/hostname", "windows": "C:\\x.png", "backslash": "cat\\0.png", "network": "//host/x.png",
        "home": "~/x.png", "variable": "$HOME/x.png", "long part": "x" * 256 + ".png", "long": "x/" * 3000 + "y.png",
        "folder": "cat", "itself": "m.jsonl", "device": "/dev/zero", "process": "/proc/self/environ", "dot": ".",
        "blank": " ", "glob": "cat/*.png", "newline": "cat/\n.png", "escape": "\x1b[2J.png", "archive": "x.zip/0.png",
    }  # fmt: skip
