"""Run folders that somebody hands over: every file damaged, emptied or gone, and its text rewritten."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from ..cases import Case
from ..mutate import mutants
from ..world import World, copy

OWN = ("out", "run")
# Commands by name; each reads a run.
COMMANDS: dict[str, tuple[str, ...]] = {
    "resume": ("resume", "run", "--quiet"),
    "audit": ("audit", "run"),
    "report": ("report", "run"),
    "review": ("review", "run"),
    "apply": ("apply", "run", "--auto", "0", "--out", "out/c.csv"),
    "folder": ("apply", "run", "--auto", "0", "--auto-remove", "--copy", "--out", "out/c"),
    "eval": ("eval", "run", "DATA", "--workers", "0"),
    "predict": ("predict", "run", "DATA", "--workers", "0", "--out", "out/p.csv"),
    "export": ("export", "run", "--format", "onnx", "--out", "out/m.onnx"),
}
# Files of a finished run, and what reads them.
READERS: dict[str, tuple[str, ...]] = {
    "config.yaml": ("report", "apply", "predict"),
    "environment.json": ("report",),
    "noise.npz": ("report", "audit"),
    "samples.npz": ("report", "apply", "review"),
    "evidence.npz": ("audit", "report"),
    "skipped.csv": ("report", "apply"),
    "metrics.csv": ("report", "audit"),
    "summary.json": ("resume", "report"),
    "checkpoint/state.safetensors": ("audit",),
    "weights/best.safetensors": ("predict", "eval"),
    "audit/verdicts.csv": ("report", "apply", "review"),
    "audit/summary.json": ("report", "apply"),
    "audit/duplicates.csv": ("report",),
    "audit/map.npz": ("report",),
}


def cases(world: World) -> Iterator[Case]:
    """Every file of a run in every state, and verdicts and decisions made up."""
    for name, readers in READERS.items():
        text = (world.run / name).read_bytes()
        changes: list[tuple[str, bytes | None]] = [
            ("gone", None),
            ("empty", b""),
            ("NUL", bytes(500)),
        ]
        changes += list(mutants(text, 8, name))
        for title, changed in changes:
            for reader in readers:
                yield case(world, f"{name} {title}", reader, _replace(name, changed))
    for name in ("summary.json", "audit/summary.json", "environment.json"):
        for title, changed in _objects((world.run / name).read_text()).items():
            for reader in READERS[name]:
                yield case(world, f"{name} {title}", reader, _replace(name, changed))
    for name in (
        "checkpoint/state.safetensors",
        "metrics.csv",
        "config.yaml",
        "noise.npz",
        "samples.npz",
    ):
        for title, changed in mutants((world.cut / name).read_bytes(), 8, f"cut {name}"):
            yield case(world, f"cut {name} {title}", "resume", _replace(name, changed), world.cut)
    for title, change in _verdicts().items():
        for reader in ("report", "apply", "folder", "review"):
            yield case(world, f"verdicts {title}", reader, _rewrite(change))
    for title, script in _decisions().items():
        for reader in ("apply", "folder", "review"):
            yield case(world, f"decisions {title}", reader, _decide(script))
    for title, change in _indexes().items():
        for reader in ("apply", "review"):
            yield case(world, f"index {title}", reader, change)


def case(
    world: World, title: str, reader: str, change: Callable[[Path], object], run: Path | None = None
) -> Case:
    """A command on a copy of a run that was changed."""
    words = tuple(str(world.data) if word == "DATA" else word for word in COMMANDS[reader])

    def prepare(folder: Path) -> None:
        change(copy(run or world.run, "run")(folder))

    until = "http://" if reader == "review" else None
    return Case("run folders", f"{title}, {reader}", words, prepare, OWN, until=until)


def _replace(name: str, text: bytes | None) -> Callable[[Path], object]:
    def change(run: Path) -> None:
        if text is None:
            (run / name).unlink()
        else:
            (run / name).write_bytes(text)

    return change


def _objects(text: str) -> dict[str, bytes]:
    """JSON that is whole, but not what is expected."""
    found = json.loads(text)
    made: dict[str, Any] = {
        "is a list": [], "is a number": 1, "is null": None, "is a text": "x", "is {}": {},
        "has nulls": dict.fromkeys(found), "has texts": dict.fromkeys(found, "x"),
        "has lists": {key: [] for key in found}, "has objects": {key: {"a": 1} for key in found},
        "has NaN": {key: float("nan") for key in found}, "has negatives": dict.fromkeys(found, -1),
        "has huge numbers": dict.fromkeys(found, 10 ** 400), "has escapes": dict.fromkeys(found, "\x1b[2J"),
    }  # fmt: skip
    texts = {title: json.dumps(value).encode() for title, value in made.items()}
    return texts | {
        "is deep": b"[" * 100_000,
        "has deep values": b'{"classes":' * 50_000,
        "is utf-16": text.encode("utf-16"),
    }


Table = list[dict[str, str]]


def _verdicts() -> dict[str, Callable[[Table], object]]:
    """What may be wrong with verdicts.csv when all of its lines have their cells."""

    def every(column: str, value: str) -> Callable[[Table], object]:
        return lambda rows: [row.update({column: value}) for row in rows]

    def mislabel(label: str) -> Callable[[Table], object]:
        return lambda rows: [
            row.update(verdict="mislabelled", suggested_label=label) for row in rows
        ]

    labels = {
        "up": "../../../../victim", "up one": "..", "absolute": "/tmp/josrc-battery-victim", "itself": ".", "empty": "",
        "slash": "cat/../../../x", "NUL": "a\0b", "newline": "a\nb", "long": "x" * 300, "device": "/dev/full",
        "escape": "\x1b]0;owned\x07", "script": "</script><script>alert(1)</script>", "formula": "=cmd|x", "surrogate": "\udcff",
        "no class": "wolf", "case": "CAT", "backslash": "..\\..\\x", "home": "~/x",
    }  # fmt: skip
    made = {f"label {title}": mislabel(label) for title, label in labels.items()}
    for column in ("p_clean", "p_ood", "confidence", "score"):
        for value in ("", "x", "nan", "inf", "1e300", "-1", "\u0661"):
            made[f"{column} {value!a}"] = every(column, value)
    made |= {
        "huge id": every("id", "x" * 200_000), "same ids": every("id", "x"), "no id": every("id", ""),
        "paths elsewhere": every("path", "/etc/hostname"), "no paths": every("path", ""), "NUL paths": every("path", "a\0b"),
        "paths of devices": every("path", "/dev/zero"), "given unknown": every("given_label", "wolf"),
        "given up": every("given_label", "../../x"), "verdict unknown": every("verdict", "wrong"),
        "no reason": every("reason", ""), "long reasons": every("reason", "x" * 200_000), "script reasons": every("reason", "</script>"),
        "a line less": lambda rows: rows.pop(), "a line more": lambda rows: rows.append(dict(rows[0])),
        "none": lambda rows: rows.clear(), "reversed": lambda rows: rows.reverse(),
    }  # fmt: skip
    return made


def _rewrite(change: Callable[[Table], object]) -> Callable[[Path], object]:
    def rewrite(run: Path) -> None:
        path = run / "audit" / "verdicts.csv"
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            rows, columns = list(reader), list(reader.fieldnames or [])
        change(rows)
        text = io.StringIO()
        writer = csv.DictWriter(text, columns)
        writer.writeheader()
        writer.writerows(rows)
        path.write_bytes(text.getvalue().encode("utf-8", "surrogateescape"))

    return rewrite


SCHEMA = """
CREATE TABLE decision (row INTEGER PRIMARY KEY, id TEXT, outcome TEXT, label TEXT);
CREATE TABLE step (number INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT, undone INTEGER DEFAULT 0);
CREATE TABLE change (number INTEGER PRIMARY KEY AUTOINCREMENT, step INTEGER, row INTEGER,
    outcome TEXT, label TEXT, old_outcome TEXT, old_label TEXT);
CREATE INDEX by_step ON change (step);
"""


def _decisions() -> dict[str, str]:
    """Scripts that leave a decisions.sqlite which nobody's review wrote."""

    def decide(outcome: str, label: str, row: str = "0", name: str = "'cat/0.png'") -> str:
        return f"{SCHEMA} INSERT INTO decision VALUES ({row}, {name}, {outcome}, {label});"

    labels = {
        "up": "'../../../../victim'", "up one": "'..'", "absolute": "'/tmp/josrc-battery-victim'", "NULL": "NULL", "blob": "x'ff00'",
        "number": "7", "empty": "''", "unknown": "'wolf'", "NUL": "'a' || char(0) || 'b'", "long": "printf('%.300c', 'x')",
        "newline": "'a' || char(10)", "escape": "char(27) || '[2J'", "slash": "'cat/x'", "huge": "printf('%.2000000c', 'x')",
    }  # fmt: skip
    made = {f"label {title}": decide("'relabel'", label) for title, label in labels.items()}
    made |= {
        "row out": decide("'keep'", "NULL", "900"), "row negative": decide("'remove'", "NULL", "-1"), "outcome unknown": decide("'burn'", "NULL"),
        "outcome NULL": decide("NULL", "NULL"), "outcome blob": decide("x'00'", "NULL"), "id of another": decide("'remove'", "NULL", "0", "'dog/1.png'"),
        "id NULL": decide("'remove'", "NULL", "0", "NULL"), "id blob": decide("'remove'", "NULL", "0", "x'ff'"), "other schema": "CREATE TABLE decision (a, b); CREATE TABLE step (a); CREATE TABLE change (b);",
        "no tables": "CREATE TABLE other (a);", "views": "CREATE VIEW decision AS SELECT 0 AS row, 'cat/0.png' AS id, 'remove' AS outcome, NULL AS label;",
        "a trigger": decide("'keep'", "NULL") + "CREATE TRIGGER t AFTER INSERT ON decision BEGIN DELETE FROM decision; END;",
        "all removed": SCHEMA + "INSERT INTO decision WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM n WHERE i < 35) SELECT i, NULL, 'remove', NULL FROM n;",
        "endless view": "CREATE VIEW decision AS WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM n) SELECT i AS row, 'x' AS id, 'keep' AS outcome, NULL AS label FROM n;",
    }  # fmt: skip
    return made


def _decide(script: str) -> Callable[[Path], object]:
    def change(run: Path) -> None:
        with closing(sqlite3.connect(run / "audit" / "decisions.sqlite")) as database:
            database.executescript(script)

    return change


def _indexes() -> dict[str, Callable[[Path], object]]:
    def text(name: str, written: bytes) -> Callable[[Path], object]:
        return lambda run: (run / "audit" / name).write_bytes(written)

    def folder(name: str) -> Callable[[Path], object]:
        return lambda run: (run / "audit" / name).mkdir()

    def link(name: str) -> Callable[[Path], object]:
        return lambda run: (run / "audit" / name).symlink_to("/dev/zero")

    made: dict[str, Callable[[Path], object]] = {}
    for name in ("index.sqlite", "decisions.sqlite", "decisions.sqlite-wal"):
        made[f"{name} of text"] = text(name, b"hello")
        made[f"{name} of a header"] = text(name, b"SQLite format 3\0" + bytes(4000))
        made[f"{name} of zeros"] = text(name, bytes(8192))
        made[f"{name} a folder"] = folder(name)
        made[f"{name} a device"] = link(name)
    return made
