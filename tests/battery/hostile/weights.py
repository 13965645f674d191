"""Weights: state dicts and safetensors that are damaged, of other shapes, or programs."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from ..cases import Case
from ..mutate import mutants
from ..world import SHORT, World, content
from .noise_files import Touch

BINARY = ("flip early", "cut", "drop", "insert", "zero", "numbers")


def cases(world: World) -> Iterator[Case]:
    """Mutants and made-up files behind --weights; and as the weights of a run."""
    good = (world.run / "weights" / "best.safetensors").read_bytes()
    for title, changed in mutants(good, 36, "safetensors", BINARY):
        yield _case(world, f"safetensors {title}", "w.safetensors", changed)
    for title, changed in mutants(_state_dict(good), 36, "pt"):
        yield _case(world, f"pt {title}", "w.pt", changed)
    for title, text in _headers(good).items():
        yield _case(world, f"safetensors {title}", "w.safetensors", text)
    for title, text in _pickles().items():
        for name in ("w.pt", "w.safetensors"):
            yield _case(world, f"{title} as {name}", name, text)


def _case(world: World, title: str, name: str, text: bytes) -> Case:
    command = ("train", str(world.data), *SHORT, "--weights", f"in/{name}", "--out", "out/run")
    return Case("weights", title, command, content(f"in/{name}", text))


def _state_dict(good: bytes) -> bytes:
    import torch

    buffer = io.BytesIO()
    torch.save({name: torch.from_numpy(value.copy()) for name, value in load(good).items()}, buffer)
    return buffer.getvalue()


def safetensors(header: Any, body: bytes = b"") -> bytes:
    """A safetensors file with a header of our own."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def _headers(good: bytes) -> dict[str, bytes]:
    tensors = load(good)
    one = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    return {
        "empty": b"", "no header": struct.pack("<Q", 0), "huge header": struct.pack("<Q", 2**62) + b"{}",
        "deep header": safetensors(b"[" * 50_000), "no object": safetensors([1]), "no tensors": safetensors({}),
        "wrong type": safetensors({"a": {**one, "dtype": "F99"}}, bytes(8)), "overlap": safetensors({"a": one, "b": one}, bytes(8)),
        "huge shape": safetensors({"a": {**one, "shape": [2**40, 2**40]}}, bytes(8)), "negative": safetensors({"a": {**one, "shape": [-2]}}, bytes(8)),
        "outside": safetensors({"a": {**one, "data_offsets": [0, 2**40]}}, bytes(8)), "deep metadata": safetensors({"__metadata__": {"josrc": "[" * 100_000}, "a": one}, bytes(8)),
        "other names": save({"x": np.zeros(3, np.float32)}), "escape names": save({"\x1b[2J": np.zeros(3, np.float32)}),
        "other shapes": save({name: np.zeros(3, np.float32) for name in tensors}), "nan": save({name: value * np.float32("nan") if value.dtype == np.float32 else value for name, value in tensors.items()}),
        "integers": save({name: value.astype(np.int64) for name, value in tensors.items()}), "half": save({name: value.astype(np.float16) for name, value in tensors.items()}),
        "scalars": save({name: np.ones((), np.float32) for name in tensors}), "many": save({f"n{n}": np.zeros(1, np.float32) for n in range(30_000)}),
        "long name": save({"x" * 1_000_000: np.zeros(1, np.float32)}), "no values": save({name: np.zeros((0, 3), np.float32) for name in tensors}),
    }  # fmt: skip


def _pickles() -> dict[str, bytes]:
    import torch

    def saved(value: Any) -> bytes:
        buffer = io.BytesIO()
        torch.save(value, buffer)
        return buffer.getvalue()

    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("archive/data.pkl", pickle.dumps(Touch()))
        file.writestr("archive/version", "3")
    return {
        "a pickle": pickle.dumps(Touch()), "an archive of a pickle": archive.getvalue(), "a list": saved([1, 2]),
        "a number": saved(1), "a tensor": saved(torch.zeros(3)), "an object": saved({"state_dict": Touch()}),
        "no tensors": saved({"a": "b"}), "keys of numbers": saved({1: torch.zeros(3)}), "nested": saved({"model": {"model": {"a": 1}}}),
        "text": b"hello", "nothing": b"", "an old pickle": b"cos\nsystem\n(S'touch executed'\ntR.", "a deep pickle": b"\x80\x04" + b"]" * 100_000 + b"a" * 99_999 + b".",
    }  # fmt: skip
