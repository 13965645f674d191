"""Run folders whose arrays and tensors are whole files, and make no sense."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from ..cases import Case
from ..world import World
from .noise_files import npz, write_bomb
from .run_folders import case

STATE, BEST = "checkpoint/state.safetensors", "weights/best.safetensors"


def cases(world: World) -> Iterator[Case]:
    """Arrays of the run's records, tensors and metadata of its checkpoint and weights."""
    for name, readers in (
        ("samples.npz", ("report", "folder", "review")), ("noise.npz", ("audit", "report")),
        ("evidence.npz", ("audit",)), ("audit/map.npz", ("report",)),
    ):  # fmt: skip
        for title, arrays in _arrays(world.run / name).items():
            for reader in readers:
                yield _own(case(world, f"{name} {title}", reader, _write(name, npz(**arrays))))
    for name in ("samples.npz", "noise.npz"):
        for reader in ("report", "resume"):
            yield _own(case(world, f"{name} a bomb", reader, _bomb(world, name)))
    for title, change in _checkpoints().items():
        yield _own(case(world, f"checkpoint {title}", "resume", _tensors(STATE, change), world.cut))
    for title, change in _ledgers().items():
        yield _own(case(world, f"ledger {title}", "audit", _tensors(STATE, change)))
    for title, change in _weights().items():
        for reader in ("predict", "export"):
            yield _own(case(world, f"weights {title}", reader, _tensors(BEST, change)))


def _own(one: Case) -> Case:
    return replace(one, group="run arrays")


def _write(name: str, text: bytes) -> Callable[[Path], object]:
    return lambda run: (run / name).write_bytes(text)


def _bomb(world: World, name: str) -> Callable[[Path], object]:
    def change(run: Path) -> None:
        path = world.files / "bomb.npz"
        if not path.is_file():
            from ..world import in_child

            in_child(lambda: write_bomb(path, "given"))
        (run / name).unlink()
        (run / name).symlink_to(path)

    return change


def _arrays(path: Path) -> dict[str, dict[str, Any]]:
    """The arrays of a file with one of them changed, by what was done to it."""
    with np.load(path) as file:
        good = {name: file[name] for name in file.files}
    made: dict[str, dict[str, Any]] = {"no arrays": {}, "others": {"x": np.zeros(3)}}
    for name, array in good.items():
        changes: dict[str, Any] = {
            "gone": None,
            "empty": array[:0] if array.ndim else None,
            "scalar": np.array(1),
            "text": np.array("x"),
            "floats": np.full(36, 0.5),
        }
        if array.ndim and array.dtype.kind in "iuf":
            changes |= {"short": array[:3], "2-d": array[None], "negative": array.astype(float) * -50 if array.dtype.kind == "f" else array.astype(np.int64) * 0 - 50,
                        "out": array.astype(np.int64) * 0 + 2**40, "nan": array * np.nan, "objects": array.astype(object)}  # fmt: skip
        for title, value in changes.items():
            made[f"{name} {title}"] = {
                k: v for k, v in (good | {name: value}).items() if v is not None
            }
    return made


Parts = tuple[dict[str, Any], dict[str, Any]]


def _tensors(
    name: str, change: Callable[[dict[str, Any], dict[str, Any]], object]
) -> Callable[[Path], object]:
    """Rewrites a safetensors file: ``change`` gets its tensors and josrc's metadata."""

    def rewrite(run: Path) -> None:
        text = (run / name).read_bytes()
        (length,) = struct.unpack("<Q", text[:8])
        metadata = json.loads(json.loads(text[8 : 8 + length])["__metadata__"]["josrc"])
        tensors = dict(load(text))
        raw = change(tensors, metadata)
        told = raw if isinstance(raw, str) else json.dumps(metadata)
        (run / name).write_bytes(save(tensors, {"josrc": told}))

    return rewrite


def _set(*keys: str, value: Any) -> Callable[[dict[str, Any], dict[str, Any]], object]:
    def change(tensors: dict[str, Any], metadata: dict[str, Any]) -> None:
        inside = metadata
        for key in keys[:-1]:
            inside = inside[key]
        inside[keys[-1]] = value

    return change


def _drop(key: str) -> Callable[[dict[str, Any], dict[str, Any]], object]:
    return lambda tensors, metadata: metadata.pop(key) and None


ODD: dict[str, Any] = {
    "null": None,
    "text": "x",
    "list": [],
    "object": {},
    "huge": 10**30,
    "negative": -3,
    "nan": float("nan"),
}


def _checkpoints() -> dict[str, Callable[[dict[str, Any], dict[str, Any]], object]]:
    made: dict[str, Any] = {}
    for key in ("epoch", "position", "seconds", "rows", "config", "peak_memory_mib"):
        made[f"without {key}"] = _drop(key)
        for title, value in ODD.items():
            made[f"{key} {title}"] = _set(key, value=value)
    made |= {
        "rows of null": _set("rows", value=[None, None]), "rows of text": _set("rows", value=["x", "x"]), "rows without keys": _set("rows", value=[{}, {}]),
        "deep": lambda tensors, metadata: "[" * 100_000, "a list": lambda tensors, metadata: "[]", "no JSON": lambda tensors, metadata: "{",
        "config of another": _set("config", "batch_size", value=3), "all nan": _fill(np.nan, ""), "optimizer nan": _fill(np.nan, "optimizer"), "optimizer negative": _fill(-1, "optimizer"),
        "no tensors": lambda tensors, metadata: tensors.clear(), "a tensor less": lambda tensors, metadata: tensors.pop(sorted(tensors)[0]) is None,
        "a tensor more": lambda tensors, metadata: tensors.update(x=np.zeros(3)), "all 3": lambda tensors, metadata: tensors.update({k: np.zeros(3, v.dtype) for k, v in tensors.items()}),
    }  # fmt: skip
    return made


def _fill(value: float, prefix: str) -> Callable[[dict[str, Any], dict[str, Any]], object]:
    def change(tensors: dict[str, Any], metadata: dict[str, Any]) -> None:
        for name, array in tensors.items():
            if name.startswith(prefix) and array.dtype.kind == "f":
                tensors[name] = np.full_like(array, value)

    return change


def _ledgers() -> dict[str, Callable[[dict[str, Any], dict[str, Any]], object]]:
    def each(
        make: Callable[[Any], Any], names: tuple[str, ...] = ()
    ) -> Callable[[dict[str, Any], dict[str, Any]], object]:
        def change(tensors: dict[str, Any], metadata: dict[str, Any]) -> None:
            for name, array in list(tensors.items()):
                if name.startswith("ledger.") and (
                    not names or name.removeprefix("ledger.") in names
                ):
                    tensors[name] = make(array)

        return change

    classes = ("prediction", "second_prediction", "rival", "group")
    return {
        "nan": each(lambda a: np.full_like(a, np.nan) if a.dtype.kind == "f" else a), "inf": each(lambda a: np.full_like(a, np.inf) if a.dtype.kind == "f" else a),
        "huge": each(lambda a: np.full_like(a, 1e38) if a.dtype.kind == "f" else a), "negative": each(lambda a: np.full_like(a, -5)),
        "classes out": each(lambda a: np.full_like(a, 999), classes), "classes negative": each(lambda a: np.full_like(a, -900), classes),
        "short": each(lambda a: a[:5]), "long": each(lambda a: np.concatenate([a, a])), "2-d": each(lambda a: a[:, None]), "empty": each(lambda a: a[:0]),
        "one short": each(lambda a: a[:5], ("rival",)), "floats": each(lambda a: a.astype(np.float32)), "integers": each(lambda a: a.astype(np.int64)),
        "visits 0": each(lambda a: a * 0, ("visits",)), "visits negative": each(lambda a: a * 0 - 9, ("visits",)), "zeros": each(lambda a: a * 0),
        "gone": lambda tensors, metadata: [tensors.pop(k) for k in list(tensors) if k.startswith("ledger.")] and None,
        "one gone": lambda tensors, metadata: tensors.pop("ledger.rival") is None,
    }  # fmt: skip


def _weights() -> dict[str, Callable[[dict[str, Any], dict[str, Any]], object]]:
    made: dict[str, Any] = {}
    for key in ("classes", "epoch", "images", "method", "model"):
        made[f"without {key}"] = _drop(key)
        for title in ("null", "text", "list", "huge"):
            made[f"{key} {title}"] = _set(key, value=ODD[title])
    sizes = {
        "text": "x",
        "0": [0, 0, 3],
        "negative": [-8, -8, 3],
        "huge": [1_000_000, 1_000_000, 3],
        "short": [18],
        "5 channels": [18, 18, 5],
    }
    made |= {f"tile {title}": _set("images", "tile", value=value) for title, value in sizes.items()}
    made |= {
        f"crop {title}": _set("images", "crop", value=value)
        for title, value in (("0", 0), ("huge", 10**6), ("text", "x"), ("negative", -4))
    }
    made |= {
        f"mean {title}": _set("images", "mean", value=value)
        for title, value in (("null", None), ("short", [0.1]), ("text", "x"))
    }
    made |= {
        f"std {title}": _set("images", "std", value=value)
        for title, value in (("zero", [0, 0, 0]), ("nan", [float("nan")] * 3))
    }
    made |= {
        "few classes": _set("classes", value=["cat"]), "many classes": _set("classes", value=[f"c{n}" for n in range(50)]), "odd classes": _set("classes", value=[1, None, {}]),
        "same classes": _set("classes", value=["cat"] * 3), "escape classes": _set("classes", value=["\x1b[2J", "a\nb", "\x07"]), "nan": _fill(np.nan, ""), "inf": _fill(np.inf, ""),
        "flat": lambda tensors, metadata: tensors.update({k: v.ravel() for k, v in tensors.items()}), "no tensors": lambda tensors, metadata: tensors.clear(),
        "deep": lambda tensors, metadata: "[" * 100_000, "a list": lambda tensors, metadata: "[]",
    }  # fmt: skip
    return made
