"""Names that are no files: pipes nobody writes to, devices without end, folders, loops of links."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

from ..cases import Case
from ..world import SHORT, World, copy, in_parts
from .hub_folders import good, saved


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _zero(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _random(path: Path) -> None:
    path.symlink_to("/dev/urandom")


def _null(path: Path) -> None:
    path.symlink_to("/dev/null")


def _folder(path: Path) -> None:
    path.mkdir()


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # its name may have 108 bytes
    try:
        socket.socket(socket.AF_UNIX).bind(path.name)
    finally:
        os.chdir(here)


def _memory(path: Path) -> None:
    path.symlink_to("/proc/self/mem")


KINDS = {
    "pipe": _fifo, "/dev/zero": _zero, "/dev/urandom": _random, "/dev/null": _null,
    "folder": _folder, "loop": _loop, "dangling": _dangling, "socket": _socket, "own memory": _memory,
}  # fmt: skip


# What of a run folder may be a link to somewhere else, and the commands that would write there.
LINKED = (
    "audit",
    "audit/thumbnails",
    "audit/decisions.sqlite",
    "weights",
    "export",
    "eval",
    "plots",
)
WRITING: dict[str, tuple[str, ...]] = {
    "audit": ("audit", "run"), "report": ("report", "run"), "review": ("review", "run"),
    "export": ("export", "run", "--format", "torch"), "eval": ("eval", "run", "DATA"),
    "resume": ("resume", "run", "--quiet"),
    "again": ("train", "DATA", *SHORT, "--out", "run", "--overwrite"),
}  # fmt: skip


def cases(world: World) -> Iterator[Case]:
    """Each kind in the place of every file that a command reads; links out of a run folder."""
    yield from _links(world)
    hub, parts = saved(world, "good", good), in_parts(world)
    data, run, train = str(world.data), str(world.run), ("--out", "out/run")
    scan = ("scan", data, *train, "--quiet")
    uses = {
        "m.csv": ("noise", "in/m.csv", "--out", "out/n.npz"),
        "m.jsonl": ("noise", "in/m.jsonl", "--out", "out/n.npz"),
        "m.parquet": ("noise", "in/m.parquet", "--out", "out/n.npz"),
        "m.json": ("train", "in/m.json", *SHORT, *train),
        "t.csv": ("train", data, *SHORT, "--test", "in/t.csv", *train),
        "n.npz": ("train", data, *SHORT, "--noise-file", "in/n.npz", *train),
        "n.npy": ("train", data, *SHORT, "--noise-file", "in/n.npy", *train),
        "n.csv": ("train", data, *SHORT, "--noise-file", "in/n.csv", *train),
        "c.yaml": ("train", data, *SHORT, "--config", "in/c.yaml", *train),
        "w.safetensors": ("train", data, *SHORT, "--weights", "in/w.safetensors", *train),
        "w.pt": ("train", data, *SHORT, "--weights", "in/w.pt", *train),
        "f.npy": (*scan, "--features", "in/f.npy"),
        "p.npy": (*scan, "--probs", "in/p.npy"),
        "p.parquet": (*scan, "--probs", "in/p.parquet"),
        "t.tar": ("train", "in/t.tar", *SHORT, *train),
        "t.parquet": ("train", "in/t.parquet", *SHORT, *train),
        "plan.yaml": ("sweep", "in/plan.yaml", "--out", "out/sweep"),
        "matrix.npy": _matrix("in/matrix.npy", data, train),
        "matrix.csv": _matrix("in/matrix.csv", data, train),
        "x.png": ("predict", run, "in/x.png", "--workers", "0", "--out", "out/p.csv", "--quiet"),
    }  # fmt: skip
    for title, make in KINDS.items():
        for name, command in uses.items():
            yield Case("devices", f"{title} as {name}", command, _put(f"in/{name}", make))
        yield Case(
            "devices", f"{title} in a class", ("train", "in", *SHORT, *train), _within(world, make)
        )
        for name, words in (
            ("state.json", ("train", "run", *SHORT, *train)),
            ("data-00000-of-00001.arrow", ("train", "run", *SHORT, *train)),
        ):
            prepare = _in_run(hub, name, make)
            yield Case("devices", f"{title} as {name} of a hub folder", words, prepare)
        yield Case(
            "devices", f"{title} as decisions", ("decisions", "run", "--from", "in.json"),
            _with_answers(world, make), ("run",),
        )  # fmt: skip
        yield Case(
            "devices", f"{title} as an image, apply --copy",
            ("apply", "run", "--auto", "0", "--data-root", "in", "--copy", "--out", "out/c"),
            _image_of_run(world, make), ("out", "run"),
        )  # fmt: skip
        for name in ("rows.json", "part-00000.parquet"):
            for words in (("report", "run"), ("apply", "run", "--auto", "0", "--out", "out/c.csv")):
                prepare = _in_run(parts, f"audit/verdicts/{name}", make)
                title_of = f"{title} as {name} of verdicts, {words[0]}"
                yield Case("devices", title_of, words, prepare, ("out", "run"))
        for name in ("noise.npz", "samples.npz", "config.yaml", "audit/verdicts.csv"):
            for words in (("report", "run"), ("apply", "run", "--auto", "0", "--out", "out/c.csv")):
                prepare = _in_run(world.run, name, make)
                yield Case(
                    "devices",
                    f"{title} as {name} of a run, {words[0]}",
                    words,
                    prepare,
                    ("out", "run"),
                )


def _links(world: World) -> Iterator[Case]:
    for name in LINKED:
        for title, words in WRITING.items():
            command = tuple(str(world.data) if word == "DATA" else word for word in words)
            until = "http://" if title == "review" else None
            prepare = _leading_out(world, name)
            yield Case(
                "devices", f"{name} leads out, {title}", command, prepare, ("run",), until=until
            )


def _leading_out(world: World, name: str) -> Callable[[Path], object]:
    def prepare(folder: Path) -> None:
        place = copy(world.run, "run")(folder) / name
        elsewhere = folder / "elsewhere"
        if place.exists():
            place.rename(elsewhere)
        elif place.suffix:
            elsewhere.write_bytes(b"")
        else:
            elsewhere.mkdir()
        place.symlink_to("../" * (name.count("/") + 1) + "elsewhere")

    return prepare


def _put(name: str, make: Callable[[Path], None]) -> Callable[[Path], object]:
    def prepare(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True)
        make(folder / name)

    return prepare


def _within(world: World, make: Callable[[Path], None]) -> Callable[[Path], object]:
    def prepare(folder: Path) -> None:
        copy(world.data, "in")(folder)
        make(folder / "in" / "cat" / "odd.png")

    return prepare


def _matrix(name: str, data: str, train: tuple[str, ...]) -> tuple[str, ...]:
    method = ("--method", "f-correction", f"method.matrix={name}")
    return ("train", data, *SHORT, *method, *train)


def _with_answers(world: World, make: Callable[[Path], None]) -> Callable[[Path], object]:
    def prepare(folder: Path) -> None:
        copy(world.run, "run")(folder)
        make(folder / "in.json")

    return prepare


def _image_of_run(world: World, make: Callable[[Path], None]) -> Callable[[Path], object]:
    """An image that was one when the run was trained."""

    def prepare(folder: Path) -> None:
        copy(world.run, "run")(folder)
        data = copy(world.data, "in")(folder)
        (data / "cat" / "0.png").unlink()
        make(data / "cat" / "0.png")

    return prepare


def _in_run(source: Path, name: str, make: Callable[[Path], None]) -> Callable[[Path], object]:
    def prepare(folder: Path) -> None:
        run = copy(source, "run")(folder)
        (run / name).unlink()
        make(run / name)

    return prepare
