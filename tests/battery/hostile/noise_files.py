"""Label files of --noise-file: npz, npy and CSV that are damaged, bombs, of other shapes and types."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..cases import Case
from ..mutate import mutants
from ..world import SHORT, World, content, in_child

COUNT = 36


def cases(world: World) -> Iterator[Case]:
    """Mutants of good files, and files that are good but for one thing."""
    labels = np.arange(COUNT) // 12
    good = {"npz": npz(given=labels), "npy": npy(labels), "csv": _csv(["label", *map(str, labels)])}
    for kind, text in good.items():
        for title, changed in mutants(text, 22, kind):
            yield _case(world, f"{kind} {title}", f"n.{kind}", changed)
    for title, array in odd_arrays(labels).items():
        yield _case(world, f"npy {title}", "n.npy", npy(array))
        yield _case(world, f"npz {title}", "n.npz", npz(given=array))
    for title, (name, text) in {**_archives(labels), **_tables(labels), **bombs("n.npy")}.items():
        yield _case(world, title, name, text)
    bomb = world.files / "bomb.npz"

    def prepare(folder: Path) -> None:
        if not bomb.is_file():
            in_child(lambda: write_bomb(bomb, "given"))

    yield Case("noise files", "npz bomb", _command(world, str(bomb)), prepare)


def _command(world: World, file: str) -> tuple[str, ...]:
    return ("train", str(world.data), *SHORT, "--noise-file", file, "--out", "out/run")


def _case(world: World, title: str, name: str, text: bytes) -> Case:
    return Case("noise files", title, _command(world, f"in/{name}"), content(f"in/{name}", text))


def npy(array: Any) -> bytes:
    """An array as the content of a npy file; pickled if it holds objects."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def npz(**arrays: Any) -> bytes:
    """Arrays as the content of a npz file."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def _csv(lines: list[str]) -> bytes:
    return "\n".join(lines).encode("utf-8", "surrogatepass")


class Touch:
    """Unpickled, it leaves a file behind."""

    def __reduce__(self) -> tuple[Any, tuple[str, ...]]:
        import os

        return os.system, ("touch executed",)


def odd_arrays(labels: Any) -> dict[str, Any]:
    """Arrays of every type and shape in the place of a vector of labels."""
    return {
        "short": labels[:-1], "long": np.append(labels, 0), "empty": labels[:0], "2-d": labels.reshape(6, 6),
        "scalar": np.array(1), "column": labels[:, None], "negative": labels - 5, "too large": labels + 90,
        "huge": labels + 2**62, "float": labels.astype(float), "halves": labels + 0.5, "nan": labels * np.nan,
        "inf": labels + np.inf, "complex": labels * 1j, "bool": labels > 1, "text": labels.astype(str),
        "bytes": labels.astype("S"), "time": labels.astype("M8[s]"), "uint64": labels.astype(np.uint64) + 2**63,
        "structured": np.zeros(COUNT, [("a", int)]), "objects": np.array([Touch()] * COUNT, object),
        "pickle": np.array([None] * COUNT, object), "big endian": labels.astype(">i8"), "no bytes": np.zeros(COUNT, "S0"),
    }  # fmt: skip


def header(description: str, body: bytes = b"") -> bytes:
    """A npy file with a header of our own."""
    text = description.encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


def bombs(name: str) -> dict[str, tuple[str, bytes]]:
    """Files of arrays whose headers promise what is not there, or are programs."""
    shape = "{'descr': '<i8', 'fortran_order': False, 'shape': (%s,), }\n"
    texts = {
        "10^11 entries": shape % 10**11, "10^18 entries": shape % 10**18, "10^30 entries": shape % 10**30,
        "negative entries": shape % -5, "header of code": "__import__('os').system('touch executed')\n",
        "deep header": "[" * 60_000, "header of text": "{'descr': 'x9', 'fortran_order': False, 'shape': (3,)}\n",
        "huge type": "{'descr': 'V2147483647', 'fortran_order': False, 'shape': (36,), }\n", "no shape": "{}\n",
        "bool shape": "{'descr': '<i8', 'fortran_order': False, 'shape': (True,), }\n",
    }  # fmt: skip
    made = {f"header {title}": (name, header(text, bytes(288))) for title, text in texts.items()}
    made["header version 9"] = (name, b"\x93NUMPY\x09\x00" + bytes(99))
    made["a pickle"] = (name, b"\x80\x04cos\nsystem\n(S'touch executed'\ntR.")
    return {f"{name} {title}": one for title, one in made.items()}


def write_bomb(path: Path, member: str) -> None:
    """A npz of 4 MB that holds 4 GB of zeros."""
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open(f"{member}.npy", "w", force_zip64=True) as file,
    ):
        text = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({5 * 10**8},), }}"
        file.write(header(text.ljust(117) + "\n"))
        for _ in range(40 * 6):
            file.write(bytes(2**24))


def _archives(labels: Any) -> dict[str, tuple[str, bytes]]:
    def archive(**members: bytes) -> bytes:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as file:
            for name, text in members.items():
                file.writestr(name, text)
        return buffer.getvalue()

    made = {
        "of text": archive(**{"given.npy": b"hello"}), "without npy": archive(given=b"hello"), "of nothing": archive(),
        "with a path": archive(**{"../../given.npy": npy(labels)}), "other names": npz(labels=labels),
        "of pickled ids": npz(given=labels, ids=np.array([Touch()], object)), "of wrong ids": npz(given=labels, ids="abc"),
        "of 2-d ids": npz(given=labels, ids=np.zeros((2, 2))), "of a wrong truth": npz(given=labels, true=labels[::-1]),
        "of a short truth": npz(given=labels, true=labels[:3]), "of kinds": npz(given=labels, kind=np.zeros(3)),
        "of 20,000 members": archive(**{f"m{n}.npy": b"" for n in range(20_000)} | {"given.npy": npy(labels)}),
        "of a directory": archive(**{"given.npy/": b""}), "of no npy header": archive(**{"given.npy": b""}),
    }  # fmt: skip
    return {f"npz {title}": ("n.npz", text) for title, text in made.items()}


def _tables(labels: Any) -> dict[str, tuple[str, bytes]]:
    cells = list(map(str, labels))
    made = {
        "names": ["label", *np.array(["cat", "dog", "owl"])[labels]], "unknown": ["label", *["fox"] * COUNT],
        "floats": ["label", *["0.5"] * COUNT], "nan": ["label", *["nan"] * COUNT], "blank": ["label", *[""] * COUNT],
        "big": ["label", *["9" * 5000] * COUNT], "no header": cells, "header alone": ["label"], "empty": [],
        "ids": ["id,label", *[f"{n},{c}" for n, c in enumerate(cells)]], "wrong ids": ["id,label", *[f"{n + 1},{c}" for n, c in enumerate(cells)]],
        "text ids": ["id,label", *[f"x,{c}" for c in cells]], "long field": ["label", "1" * 200_000], "NUL": ["label", *["1\0"] * COUNT],
        "surrogate": ["label", *["\ud800"] * COUNT], "quote": ["label", '"0', *cells], "arabic digits": ["label", *["\u0661"] * COUNT],
        "negative": ["label", *["-1"] * COUNT], "ragged": ["label,a", *["1,2,3,4"] * COUNT], "underscore": ["label", *["1_0"] * COUNT],
    }  # fmt: skip
    return {f"csv {title}": ("n.csv", _csv(list(lines))) for title, lines in made.items()}
