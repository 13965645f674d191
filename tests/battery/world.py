"""What every case starts from: a small data set, and runs on it, made once by josrc itself."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from .child import execute
from .faults.events import EventCounter

CLASSES = ("cat", "dog", "owl")
IMAGES = 12  # of each class
# The quickest training there is.
SHORT = (
    "--method", "standard", "--model", "cnn7", "--image-size", "16", "--epochs", "1",
    "--workers", "0", "--quiet", "model.width=0.05", "data.near_duplicates=false",
)  # fmt: skip


class World:
    """A folder with the data and runs that cases copy, and a scratch folder for each case.

    Attributes:
        data: three class folders of small images.
        run: a finished run on them; ``cut`` one that was stopped within its epochs.
        scan: a folder of ``josrc scan``, from features.
        files: large or odd files that take long to make.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.base, self.scratch = root / "base", root / "scratch"
        self.data, self.files = self.base / "data", self.base / "files"
        self.run, self.cut, self.scan = (self.base / name for name in ("run", "cut", "scan"))
        self.scratch.mkdir(parents=True, exist_ok=True)

    def environment(self, folder: Path) -> dict[str, str]:
        """A home of the case's own; nothing is fetched from a network."""
        home = self.base / "home"
        return {
            "HOME": str(home), "XDG_CACHE_HOME": str(home), "MPLCONFIGDIR": str(home),
            "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(folder / "out" / "hf"),
            "COLUMNS": "200",
        }  # fmt: skip

    def build(self) -> None:
        """Make what is not there yet."""
        if (self.base / "ready").is_file():
            return
        shutil.rmtree(self.base, ignore_errors=True)
        for folder in (self.data, self.files, self.base / "home"):
            folder.mkdir(parents=True)
        draw_images(self.data)
        three = [word if word != "1" else "3" for word in SHORT]
        self.josrc("train", str(self.data), *three, "--out", "run")
        self._cut(three)
        np.save(self.files / "features.npy", clusters())
        np.save(self.files / "probabilities.npy", probabilities())
        features = str(self.files / "features.npy")
        self.josrc("scan", str(self.data), "--features", features, "--out", "scan", "--quiet")
        (self.base / "ready").touch()

    def _cut(self, words: list[str]) -> None:
        """A training that was stopped when one or two of its three epochs were over."""
        for number in range(42, 60):
            shutil.rmtree(self.cut, ignore_errors=True)
            stop = EventCounter(
                self.cut, kill_at=number, act=lambda: os.kill(os.getpid(), signal.SIGTERM)
            )
            ended = self.execute(("train", str(self.data), *words, "--out", "cut"), stop.install)
            metrics = self.cut / "metrics.csv"
            lines = metrics.read_text().splitlines() if metrics.is_file() else []
            if ended.code == 128 + signal.SIGTERM and len(lines) in (2, 3):
                return
        raise RuntimeError("no signal stopped a training within its epochs")

    def josrc(self, *arguments: str, before: Callable[[], None] | None = None) -> str:
        """Run a command that must succeed."""
        ended = self.execute(arguments, before)
        if ended.code != 0:
            raise RuntimeError(f"josrc {' '.join(arguments)}: {ended.code} {ended.error[-3000:]}")
        return ended.out

    def execute(self, arguments: tuple[str, ...], before: Callable[[], None] | None = None) -> Any:
        """Run a command, however it ends."""
        environment = self.environment(self.base)
        return execute(
            arguments, self.base, before=before, environment=environment, limit=300, largest=4096
        )


def draw_images(folder: Path, count: int = IMAGES) -> None:
    """Small pictures in class folders, each class of a colour."""
    chance = np.random.default_rng(0)
    for number, name in enumerate(CLASSES):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for index in range(count):
            picture = chance.integers(0, 120, (20, 24, 3), dtype=np.uint8)
            picture[..., number] += 120
            Image.fromarray(picture).save(folder / name / f"{index}.png")


def clusters() -> Any:
    """Features of the images, ``(36, 8)``: a cluster per class, some rows in the wrong one."""
    chance = np.random.default_rng(1)
    centres = np.eye(3, 8, dtype=np.float32) * 4
    rows = centres[np.arange(3 * IMAGES) // IMAGES]
    rows[[0, 13, 30]] = centres[[1, 2, 0]]
    return (rows + chance.normal(0, 0.3, rows.shape)).astype(np.float32)


def probabilities() -> Any:
    """Predictions for the images, ``(36, 3)``."""
    weights = np.exp(clusters()[:, :3])
    return (weights / weights.sum(1, keepdims=True)).astype(np.float32)


def copy(source: Path, name: str) -> Callable[[Path], Path]:
    """What puts a copy of a file or folder into a case's folder."""

    def put(folder: Path) -> Path:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True)
        else:
            shutil.copy(source, target)
        return target

    return put


def content(name: str, text: bytes | str) -> Callable[[Path], Path]:
    """What writes a file into a case's folder."""

    def put(folder: Path) -> Path:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
        return target

    return put


def in_parts(world: World) -> Path:
    """The run with its verdicts in parquet parts, as those of millions of images are."""
    run = world.files / "run-in-parts"
    if not run.is_dir():
        in_child(lambda: _write_parts(world.run, run))
    return run


def _write_parts(source: Path, run: Path) -> None:
    from josrc.verdicts.table import VERDICT_COLUMNS, read_verdicts
    from josrc.verdicts.table_parts import NUMBERS, write_parts

    shutil.copytree(source, run)
    frames = read_verdicts(source / "audit" / "verdicts.csv")
    some = (frame.astype(dict.fromkeys(NUMBERS, float)) for frame in frames)
    write_parts(run / "audit" / "verdicts", VERDICT_COLUMNS, some)
    (run / "audit" / "verdicts.csv").unlink()


def in_child(function: Callable[[], object]) -> None:
    """Do something that takes much memory in a process of its own."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            function()
            code = 0
        finally:
            os._exit(code)
    if os.waitpid(pid, 0)[1]:
        raise RuntimeError("a file of the battery could not be made")
