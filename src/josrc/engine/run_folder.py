"""The run folder: what a run leaves on disk, and who may write there."""

from __future__ import annotations

import csv
import importlib.metadata
import json
import math
import os
import platform
import shlex
import shutil
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from josrc._io import PARTIAL, read_json, readable, with_path, write_csv, write_npz, write_text
from josrc._version import __version__
from josrc.config import HUB, PEOPLE, RunConfig
from josrc.data.label_files import write_noise_file
from josrc.data.source import Source
from josrc.distributed import world
from josrc.engine.device import device_name
from josrc.engine.metrics import METRIC_COLUMNS, Row
from josrc.engine.planting import Planted
from josrc.errors import FolderInUseError, UserError

# Everything a run may leave in its folder; whatever else is there belongs to somebody else.
OWN_NAMES = {
    "config.yaml",
    "environment.json",
    "noise.npz",
    "samples.npz",
    "planted.npz",
    "evidence.npz",
    "skipped.csv",
    "metrics.csv",
    "summary.json",
    "checkpoint",
    "weights",
    "plots",
    "audit",
    "eval",
    "export",
    "logs",
    ".lock",
}
PACKAGES = (
    "torch",
    "torchvision",
    "timm",
    "numpy",
    "safetensors",
    "pydantic",
    "scikit-learn",
    "cleanlab",
)


class RunFolder:
    """Paths and files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.yaml"
        self.noise = path / "noise.npz"
        self.samples = path / "samples.npz"
        self.planted = path / "planted.npz"
        self.evidence = path / "evidence.npz"
        self.skipped = path / "skipped.csv"
        self.metrics = path / "metrics.csv"
        self.summary = path / "summary.json"
        self.checkpoint = path / "checkpoint" / "state.safetensors"
        self.last = path / "weights" / "last.safetensors"
        self.best = path / "weights" / "best.safetensors"
        self.plots = path / "plots"
        self.audit = path / "audit"

    def create(self, config: RunConfig, source: Source, device: torch.device) -> None:
        """Write what is known before training; the configuration last, as it makes a run of it."""
        write_text(self.path / "environment.json", json.dumps(environment(device), indent=2) + "\n")
        write_noise_file(self.noise, source.given, source.true, source.kind, source.digest)
        if source.skipped is not None:
            self.write_skipped(source.skipped)
        write_text(self.config, config.to_yaml())

    def keep_planted(self, planted: Planted) -> None:
        """Write which errors were planted, unless it is known already."""
        if not self.planted.is_file():
            arrays = {"index": planted.index, "label": planted.label}
            write_npz(self.planted, {name: value.cpu().numpy() for name, value in arrays.items()})

    def write_skipped(self, skipped: Sequence[tuple[str, str]]) -> None:
        """Write which files gave no image, and why."""
        write_csv(self.skipped, [("path", "reason"), *skipped])

    def read_skipped(self) -> list[str]:
        """Paths of the files that gave no image."""
        if not self.skipped.is_file():
            raise UserError(f"{self.skipped} is missing: which files the run uses can't be told.")
        with (
            readable(self.skipped),
            self.skipped.open(newline="", encoding="utf-8", errors="surrogateescape") as file,
        ):
            return [row["path"] for row in csv.DictReader(file)]

    def foreign_files(self) -> list[str]:
        """Names in the folder that no run writes."""
        names = (path.name.removesuffix(PARTIAL) for path in self.path.iterdir())
        return sorted(set(names) - OWN_NAMES)

    def clear(self) -> None:
        """Delete what an earlier run left here, and nothing else."""
        for path in self.path.iterdir():
            if path.is_dir() and path.name in OWN_NAMES:
                shutil.rmtree(path)
            elif path.name.removesuffix(PARTIAL) in OWN_NAMES - {".lock"}:
                path.unlink()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make sure that no other process writes here; a killed process leaves no lock behind."""
        self.path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.path / ".lock", blocking=False)
        try:
            lock.acquire()
        except Timeout:
            raise FolderInUseError(f"{self.path} is in use by another josrc process.") from None
        try:
            yield
        finally:
            lock.release()

    def write_metrics(self, rows: Sequence[Row]) -> None:
        """Write the whole table; used when a run begins or resumes."""
        with with_path(self.metrics), self.metrics.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(METRIC_COLUMNS)
            writer.writerows(_cells(row) for row in rows)

    def append_metrics(self, row: Row) -> None:
        """Add the row of one epoch."""
        with with_path(self.metrics), self.metrics.open("a", newline="", encoding="utf-8") as file:
            csv.writer(file).writerow(_cells(row))

    def read_metrics(self) -> list[Row]:
        """The table so far; empty cells are none."""
        with readable(self.metrics), self.metrics.open(newline="", encoding="utf-8") as file:
            return [
                {key: float(cell) if cell else None for key, cell in row.items()}
                for row in csv.DictReader(file)
            ]

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Write ``summary.json``: its presence says that the run has ended."""
        write_text(self.summary, json.dumps(summary, indent=2) + "\n")

    def read_summary(self) -> dict[str, Any]:
        """The summary of a finished run."""
        return read_json(self.summary)

    def read_audit(self) -> dict[str, Any] | None:
        """The content of ``audit/summary.json``; none for a run that has no verdicts yet."""
        file = self.audit / "summary.json"
        return read_json(file) if file.is_file() else None

    def check_undecided(self) -> None:
        """Raise an error if anybody has decided on a run that is about to be replaced."""
        path = self.audit / "decisions.sqlite"
        if not path.is_file():
            return
        try:
            with closing(sqlite3.connect(path)) as database:
                (count,) = database.execute("SELECT count(*) FROM decision").fetchone()
        except sqlite3.DatabaseError as error:
            raise UserError(f"{path} can't be opened: {error}. Move it away.") from None
        if count:
            raise UserError(
                f"{self.path} holds {count:,} decisions of a review, which would be lost. Name "
                f"another --out, and take them over later: josrc review NEW --decisions-of "
                f"{shlex.quote(str(self.path))}"
            )


def prepare_folder(out: Path | None, config: RunConfig, overwrite: bool) -> RunFolder:
    """A folder for a new run. It is only looked at: nothing is deleted before the run can begin."""
    if out is None:
        return RunFolder(free_name(Path("runs") / run_name(config)))
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; --out names a folder.")
    folder = RunFolder(out)
    if not out.is_dir():
        return folder
    if folder.foreign_files():
        raise UserError(
            f"{out} holds {folder.foreign_files()[0]}, which is not of a run. Name another --out."
        )
    if folder.config.is_file() and not overwrite:
        resume = f"Go on with it: josrc resume {shlex.quote(str(out))}. "
        resume = "" if folder.summary.is_file() else resume
        raise UserError(
            f"{out} holds a run. {resume}Replace it: --overwrite. Or name another --out."
        )
    return folder


def run_name(config: RunConfig) -> str:
    """``cifar80n-o-symmetric-0.2-josrc-seed0``."""
    data = config.data
    drawn = data.noise if data.noise in PEOPLE else f"{data.noise}-{data.rate:g}"
    noise = data.noise_file.stem if data.noise_file else drawn
    # Of a path its last part, of a name on the hub the part behind the slash.
    inside = Path(data.name).name != data.name
    name = Path(os.path.normpath(data.name.removeprefix(HUB))).stem if inside else data.name
    if inside and noise == "none-0":
        return f"{name}-{config.method.name}-seed{config.seed}"
    return f"{name}-{noise}-{config.method.name}-seed{config.seed}"


def free_name(path: Path) -> Path:
    """``path``, or ``path-2``, ``path-3`` ... if it is taken."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free


def versions() -> dict[str, str]:
    """Versions of josrc, Python and the libraries that decide results."""
    found = {"josrc": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def environment(device: torch.device) -> dict[str, Any]:
    """Where a run ran."""
    return {
        "command": shlex.join(sys.argv),
        "platform": platform.platform(),
        "device": device_name(device),
        "cuda": torch.version.cuda if device.type == "cuda" else None,
        "cudnn": torch.backends.cudnn.version() if device.type == "cuda" else None,
        "threads": torch.get_num_threads(),
        "processes": world(),
        "versions": versions(),
    }


def _cells(row: Row) -> list[str]:
    return [_cell(row.get(column)) for column in METRIC_COLUMNS]


def _cell(value: float | int | None) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return str(value) if isinstance(value, int) else f"{value:.6g}"
