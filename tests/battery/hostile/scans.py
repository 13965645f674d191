"""Features and predictions of ``josrc scan``, and the folders that it writes."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..cases import Case
from ..mutate import mutants
from ..world import World, content, copy
from .noise_files import Touch, bombs, npy, npz


def cases(world: World) -> Iterator[Case]:
    """Files of numbers behind --features and --probs; then a scan's own files, damaged."""
    good = {"features": world.files / "features.npy", "probs": world.files / "probabilities.npy"}
    for option, path in good.items():
        array = np.load(path)
        for title, changed in mutants(path.read_bytes(), 16, option):
            yield _case(world, option, f"npy {title}", "f.npy", changed)
        for title, odd in _odd(array).items():
            yield _case(world, option, f"npy {title}", "f.npy", npy(odd))
        for title, (name, text) in bombs("f.npy").items():
            yield _case(world, option, title, name, text)
        for title, text in _tables(array).items():
            yield _case(world, option, f"CSV {title}", "f.csv", text)
        for title, text in _parquets(array).items():
            yield _case(world, option, f"parquet {title}", "f.parquet", text)
        for name, text in (
            ("f.npz", npz(a=array)),
            ("f.csv", b"1,2\n"),
            ("f", npy(array)),
            ("f.txt", b"x"),
        ):
            yield _case(world, option, f"as {name}", name, text)
    kept = (world.scan / "features.safetensors").read_bytes()
    for title, changed in [("", kept), *mutants(kept, 16, "kept features")]:
        yield _case(world, "features", f"of a scan {title}", "f.safetensors", changed)
    for title, odd in _groups(len(np.load(good["features"]))).items():
        touch = _changed(world, "groups.npz", npz(group=odd))
        yield Case("scans", f"groups {title}", ("audit", "run"), touch, ("out", "run"))
    for name in (
        "features.safetensors",
        "samples.npz",
        "audit/verdicts.csv",
        "config.yaml",
        "summary.json",
    ):
        if not (world.scan / name).is_file():
            continue
        for title, changed in [
            ("empty", b""),
            *mutants((world.scan / name).read_bytes(), 7, f"scan {name}"),
        ]:
            for words in (
                ("audit", "run"),
                ("report", "run"),
                ("apply", "run", "--auto", "0", "--out", "out/c.csv"),
            ):
                yield Case(
                    "scans",
                    f"{name} {title}, {words[0]}",
                    words,
                    _changed(world, name, changed),
                    ("out", "run"),
                )


def _case(world: World, option: str, title: str, name: str, text: bytes) -> Case:
    command = ("scan", str(world.data), f"--{option}", f"in/{name}", "--out", "out/run", "--quiet")
    return Case("scans", f"{option} {title}", command, content(f"in/{name}", text))


def _changed(world: World, name: str, text: bytes) -> Callable[[Path], object]:
    return lambda folder: (copy(world.scan, "run")(folder) / name).write_bytes(text)


def _odd(array: Any) -> dict[str, Any]:
    one = array.copy()
    one[3] = np.nan
    return {
        "short": array[:-1], "long": np.concatenate([array, array]), "vector": array[:, 0], "3-d": array[None], "empty": array[:0],
        "no columns": array[:, :0], "one column": array[:, :1], "zeros": array * 0, "nan": array * np.nan, "one nan": one, "inf": array * np.inf,
        "huge": array * np.float32(1e37), "tiny": array * np.float32(1e-40), "negative": -array, "integers": array.astype(int), "complex": array * 1j, "text": array.astype(str),
        "bool": array > 0.5, "objects": array.astype(object), "pickle": np.array([[Touch()] * 3] * 36, object), "half": array.astype(np.float16),
        "double": array.astype(float), "fortran": np.asfortranarray(array), "big endian": array.astype(">f4"), "constant": array * 0 + 1, "wide": np.tile(array, (1, 500)),
        "structured": np.zeros(36, [("a", float)]), "times": array.astype("M8[s]"),
    }  # fmt: skip


def _groups(count: int) -> dict[str, Any]:
    some = np.arange(count)
    return {
        "right": some // 2, "one": some * 0, "short": some[1:], "negative": -some, "beyond": some + 1, "floats": some / 2,
        "nan": some * np.nan, "2-d": some[None], "text": some.astype(str), "objects": some.astype(object),
    }  # fmt: skip


def _tables(array: Any) -> dict[str, bytes]:
    columns = [f"c{n}" for n in range(array.shape[1])]
    lines = [",".join(map(str, row)) for row in array.tolist()]
    head = ",".join(columns)
    good = "\n".join([head, *lines]).encode()
    made = {
        "good": good, "empty": b"", "a head": head.encode(), "no head": "\n".join(lines).encode(), "empty cells": good.replace(b"0.", b""),
        "two ids": "\n".join([f"id,{head}", *(f"1,{line}" for line in lines)]).encode(), "one column twice": good.replace(b"c1", b"c0", 1),
        "a long cell": good + b"," * 10**6, "utf-16": good.decode().encode("utf-16"), "quotes": good.replace(b"\n", b'\n"', 1), "NUL": good.replace(b"c0", b"c\0", 1),
    }  # fmt: skip
    return made | {f"mutant {title}": changed for title, changed in mutants(good, 8, "CSV")}


def _parquets(array: Any) -> dict[str, bytes]:
    import pyarrow
    import pyarrow.parquet

    def written(**columns: Any) -> bytes:
        buffer = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.table(columns), buffer)
        return buffer.getvalue()

    plain = {f"c{n}": array[:, n] for n in range(array.shape[1])}
    good = written(**plain)
    made = {
        "good": good, "empty": b"", "half": good[: len(good) // 2], "with text": written(**plain, x=["a"] * 36), "with nulls": written(**plain, x=[None] * 36),
        "of lists": written(a=list(array)), "of ragged lists": written(a=[[1.0] * (n % 3 + 1) for n in range(36)]), "of structs": written(a=[{"b": 1}] * 36),
        "no columns": written(), "bools": written(a=[True] * 36), "short": written(**{k: v[:-1] for k, v in plain.items()}), "bytes": written(a=[b"x"] * 36),
        "with ids": written(id=[f"x{n}" for n in range(36)], **plain), "with paths": written(path=["../../x"] * 36, **plain),
    }  # fmt: skip
    return made | {f"mutant {title}": changed for title, changed in mutants(good, 8, "parquet")}
