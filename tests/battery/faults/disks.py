"""Torn files, and disks that are full, read-only or gone; then room again, and the run to its end.

Full and read-only disks are real ones where this process may mount (root on Linux). Elsewhere they
are left out, and a limit on the size of files stands for a full disk everywhere.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ..cases import ACCEPTED, CLEAR, DIFFERS, GOOD, Result, chosen
from ..child import Ended, command, execute
from ..judge import name_outcome
from ..record import FAULTS
from ..world import SHORT, World, copy
from .compare import contents, differing
from .events import EventCounter

SIZES = (40, 80, 120, 160, 200, 240, 280, 320, 360, 400, 480, 560, 640)  # KiB of a disk
LIMITS = (1, 4, 16, 40, 60, 100, 160)  # KiB of a file
READ_ONLY = {
    "resume": ("resume", "run", "--quiet"), "audit": ("audit", "run"), "report": ("report", "run"),
    "review": ("review", "run"), "export": ("export", "run", "--format", "onnx"),
    "apply": ("apply", "run", "--auto", "0", "--out", "out/c.csv"), "eval": ("eval", "run", "DATA"),
    "train": ("train", "DATA", *SHORT, "--out", "run/again"),
    "predict": ("predict", "run", "DATA", "--out", "run/p.csv"),
}  # fmt: skip
Reference = dict[str, str]
Verdict = tuple[str, str]


def run(world: World, share: float, done: set[tuple[str, str]], until: float) -> Iterator[Result]:
    """Every fault in a fresh folder."""
    reference: Reference | None = None
    for name, fault in faults(world):
        if (FAULTS, name) in done or not chosen(FAULTS, name, share):
            continue
        if time.monotonic() > until:
            return
        reference = reference or _uninterrupted(world)
        folder = world.scratch / "fault"
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "out").mkdir(parents=True)
        begun = time.monotonic()
        outcome, message = fault(folder, reference)
        seconds = round(time.monotonic() - begun, 2)
        message = message.strip()[-1500:].replace(str(world.root), "WORLD")
        yield Result(FAULTS, name, outcome, seconds, 0, command(_words(world)), message)


def faults(world: World) -> Iterator[tuple[str, Callable[[Path, Reference], Verdict]]]:
    """Names and faults."""
    for name in (
        "checkpoint/state.safetensors",
        "metrics.csv",
        "noise.npz",
        "samples.npz",
        "config.yaml",
    ):
        for title, tear in TEARS.items():
            yield f"{name} {title}", _torn(world, name, tear)
    for kibibytes in LIMITS:
        yield f"files of at most {kibibytes} KiB", _limited(world, kibibytes)
    for number in range(5, 95, 9):
        yield f"folder gone at event {number} of a training", _vanishing(world, number)
    if not can_mount():
        print(
            "disks that are full or read-only are left out: nothing can be mounted here", flush=True
        )
        return
    for kibibytes in SIZES:
        yield f"disk of {kibibytes} KiB", _full(world, kibibytes)
    for title, words in READ_ONLY.items():
        yield f"read-only disk, {title}", _read_only(world, words)


TEARS: dict[str, Callable[[bytes], bytes]] = {
    "emptied": lambda content: b"",
    "half": lambda content: content[: len(content) // 2],
    "but for the last bytes": lambda content: content[:-9],
    "first block zeroed": lambda content: bytes(min(512, len(content))) + content[512:],
    "all zeroed": lambda content: bytes(len(content)),
}


def _words(world: World, out: str = "out/run") -> tuple[str, ...]:
    three = [word if word != "1" else "3" for word in SHORT]
    return ("train", str(world.data), *three, "--out", out)


def _call(
    world: World, words: tuple[str, ...], folder: Path, before: Callable[[], None] | None = None
) -> Ended:
    until = "http://" if words[0] == "review" else None
    environment = world.environment(folder)
    return execute(words, folder, before=before, environment=environment, until=until)


def _uninterrupted(world: World) -> Reference:
    folder = world.scratch / "fault"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "out").mkdir(parents=True)
    ended = _call(world, _words(world), folder)
    if ended.code != 0:
        raise RuntimeError(ended.error[-2000:])
    return contents(folder / "out" / "run")


def _to_the_end(world: World, folder: Path, reference: Reference, run: str = "out/run") -> Verdict:
    """Resume, or begin again where there is nothing to resume; then compare."""
    ended = _call(world, ("resume", run, "--quiet"), folder)
    outcome = name_outcome(ended, [], [])
    if outcome == CLEAR:
        again = _call(world, (*_words(world, run), "--overwrite"), folder)
        ended, outcome = again, name_outcome(again, [], [])
    if outcome not in GOOD:
        return outcome, ended.error
    different = differing(reference, contents(folder / run))
    return (DIFFERS, f"code {ended.code}: {different}") if different else (ACCEPTED, "")


def _torn(
    world: World, name: str, tear: Callable[[bytes], bytes]
) -> Callable[[Path, Reference], Verdict]:
    def fault(folder: Path, reference: Reference) -> Verdict:
        path = copy(world.cut, "out/run")(folder) / name
        path.write_bytes(tear(path.read_bytes()))
        return _to_the_end(world, folder, reference)

    return fault


def _limited(world: World, kibibytes: int) -> Callable[[Path, Reference], Verdict]:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024 * kibibytes, 1024 * kibibytes))

    def fault(folder: Path, reference: Reference) -> Verdict:
        ended = _call(world, _words(world), folder, limit)
        outcome = name_outcome(ended, [], [])
        if outcome not in GOOD:
            return outcome, ended.error
        return _to_the_end(world, folder, reference)

    return fault


def _vanishing(world: World, number: int) -> Callable[[Path, Reference], Verdict]:
    def fault(folder: Path, reference: Reference) -> Verdict:
        run, away = folder / "out" / "run", folder / "away"

        def vanish() -> None:
            if run.exists():
                os.rename(run, away)

        counter = EventCounter(folder, kill_at=number, act=vanish)
        ended = _call(world, _words(world), folder, counter.install)
        outcome = name_outcome(ended, [], [])
        if outcome not in GOOD or not away.exists():
            return outcome, ended.error
        shutil.rmtree(run, ignore_errors=True)
        away.rename(run)
        return _to_the_end(world, folder, reference)

    return fault


def _full(world: World, kibibytes: int) -> Callable[[Path, Reference], Verdict]:
    def fault(folder: Path, reference: Reference) -> Verdict:
        with mounted(folder / "out", f"size={kibibytes}k"):
            ended = _call(world, _words(world), folder)
            outcome = name_outcome(ended, [], [])
            if outcome not in GOOD:
                return outcome, ended.error
            if list((folder / "out").rglob("*.partial")):
                return DIFFERS, "a part of a file was left"
            _mount("-o", "remount,size=64m", str(folder / "out"))
            return _to_the_end(world, folder, reference)

    return fault


def _read_only(world: World, words: tuple[str, ...]) -> Callable[[Path, Reference], Verdict]:
    words = tuple(str(world.data) if word == "DATA" else word for word in words)

    def fault(folder: Path, reference: Reference) -> Verdict:
        (folder / "run").mkdir()
        with mounted(folder / "run", "size=64m"):
            shutil.copytree(
                world.cut if words[0] == "resume" else world.run, folder / "run", dirs_exist_ok=True
            )
            before = contents(folder / "run")
            _mount("-o", "remount,ro", str(folder / "run"))
            ended = _call(world, words, folder)
            if differing(before, contents(folder / "run")):
                return DIFFERS, "a read-only disk was written to"
        return name_outcome(replace(ended), [], []), ended.error

    return fault


def can_mount() -> bool:
    """Whether this process may mount a disk in memory."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return False
    place = Path("/tmp") / f"josrc-battery-{os.getpid()}"
    place.mkdir()
    try:
        _mount("-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place))
        subprocess.run(["umount", str(place)], check=True)
    except (subprocess.CalledProcessError, OSError):
        return False
    finally:
        place.rmdir()
    return True


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True, capture_output=True)


@contextmanager
def mounted(place: Path, options: str) -> Iterator[None]:
    """A disk in memory, as long as this lasts."""
    _mount("-t", "tmpfs", "-o", options, "tmpfs", str(place))
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False, capture_output=True)
