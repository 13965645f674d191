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

from josrc._io import PARTIAL, drop_link, readable, with_path, write_csv, write_npz, write_text
from josrc._reading import check_json, read_json, regular
from josrc._version import __version__
from josrc.config import HUB, PEOPLE, RunConfig
from josrc.data.label_files import write_noise_file
from josrc.data.source import Source
from josrc.distributed import world
from josrc.engine.device import device_name
from josrc.engine.metrics import METRIC_COLUMNS, Row
from josrc.engine.planting import PlantedErrors
from josrc.engine.run_schemas import AuditSummary, RunSummary
from josrc.errors import FolderInUseError, UserError

# Everything a run may leave in its folder; whatever else is there belongs to somebody else.
OWN_NAMES = {
    "config.yaml",
    "environment.json",
    "noise.npz",
    "samples.npz",
    "planted.npz",
    "evidence.npz",
    "features.safetensors",
    "features.safetensors.progress.json",
    "shards",
    "annotations.npz",
    "groups.npz",
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
# What josrc writes to where it is, and not to a file of its own that takes its place; and how deep
# its folders lie in each other.
WRITTEN_IN_PLACE = ("decisions.sqlite", "features.safetensors.partial")
LINK_DEPTH = 3
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
        self.features = path / "features.safetensors"
        self.shards = path / "shards"
        self.annotations = path / "annotations.npz"
        self.groups = path / "groups.npz"
        self.skipped = path / "skipped.csv"
        self.metrics = path / "metrics.csv"
        self.summary = path / "summary.json"
        self.checkpoint = path / "checkpoint" / "state.safetensors"
        self.before = path / "checkpoint" / "before.safetensors"
        self.frozen = path / "checkpoint" / "features.safetensors"
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

    def keep_planted(self, planted: PlantedErrors) -> None:
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
            raise UserError(f"{self.skipped} is missing: so which files the run uses is unknown.")
        with (
            readable(self.skipped),
            regular(self.skipped).open(
                newline="", encoding="utf-8", errors="surrogateescape"
            ) as file,
        ):
            return [row["path"] for row in csv.DictReader(file)]

    def foreign_files(self) -> list[str]:
        """Names in the folder that no run writes."""
        names = (path.name.removesuffix(PARTIAL) for path in self.path.iterdir())
        return sorted(set(names) - OWN_NAMES)

    def check_links(self) -> None:
        """Raise an error if what is written here would land elsewhere.

        A run folder may be somebody else's. A link to a file is replaced by what josrc writes, but
        one to a folder would be followed, and the decisions are written where they are.
        """
        home = self.path.resolve()
        for link in _followed_links(self.path):
            if not link.resolve().is_relative_to(home):
                raise UserError(
                    f"{link} is a link that leads out of the run folder, to {link.resolve()}: "
                    "josrc would write there. Put what it leads to in its place."
                )

    def clear(self) -> None:
        """Delete what an earlier run left here, and nothing else."""
        for path in self.path.iterdir():
            if path.is_dir() and not path.is_symlink() and path.name in OWN_NAMES:
                shutil.rmtree(path)
            elif path.name.removesuffix(PARTIAL) in OWN_NAMES - {".lock"}:
                path.unlink()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make sure that no other process writes here; a killed process leaves no lock behind."""
        self.path.mkdir(parents=True, exist_ok=True)
        drop_link(self.path / ".lock")
        lock = FileLock(self.path / ".lock", blocking=False)
        try:
            lock.acquire()
        except Timeout:
            raise FolderInUseError(self._in_use()) from None
        try:
            yield
        finally:
            lock.release()

    def check_free(self) -> None:
        """An error if another process writes here now."""
        if (self.path / ".lock").is_file():
            with self.locked():
                pass

    def _in_use(self) -> str:
        return (
            f"{self.path} is in use by another josrc process, which trains it or judges its "
            "labels. Wait until it has ended, stop it there (Ctrl-C; training can be resumed), "
            "or name another --out."
        )

    def write_metrics(self, rows: Sequence[Row]) -> None:
        """Write the whole table; used when a run begins or resumes."""
        drop_link(self.metrics)
        with with_path(self.metrics), self.metrics.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(METRIC_COLUMNS)
            writer.writerows(_cells(row) for row in rows)

    def append_metrics(self, row: Row) -> None:
        """Add the row of one epoch."""
        with with_path(self.metrics), self.metrics.open("a", newline="", encoding="utf-8") as file:
            csv.writer(file).writerow(_cells(row))

    def read_metrics(self) -> list[Row]:
        """The table so far; empty cells are none. A scan has no such table."""
        if not self.metrics.is_file() and self.features.is_file():
            return []
        with (
            readable(self.metrics),
            regular(self.metrics).open(newline="", encoding="utf-8") as file,
        ):
            rows = csv.DictReader(file, strict=True)
            if (rows.fieldnames or [""])[0] != "epoch":
                raise ValueError("its first column is not epoch")
            return [{key: _number(cell) for key, cell in row.items()} for row in rows]

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Write ``summary.json``: its presence says that the run has ended."""
        write_text(self.summary, json.dumps(summary, indent=2) + "\n")

    def read_summary(self) -> dict[str, Any]:
        """The summary of a finished run."""
        summary = read_json(self.summary)
        check_json(RunSummary, summary, self.summary)
        return summary

    def read_audit(self) -> dict[str, Any] | None:
        """The content of ``audit/summary.json``; none for a run that has no verdicts yet."""
        file = self.audit / "summary.json"
        if not file.is_file():
            return None
        summary = read_json(file)
        check_json(AuditSummary, summary, file)
        return summary

    def check_judges(self) -> None:
        """Raise an error if it only holds new images that another run has judged."""
        by = (self.read_audit() or {}).get("judged_by")
        if by:
            raise UserError(
                f"{self.path} holds new images that {by} has judged, and can judge none itself. "
                f"Judge with that run: josrc audit {shlex.quote(by)} --new PATH"
            )

    def check_undecided(self) -> None:
        """Raise an error if anybody has decided on a run that is about to be replaced."""
        path = self.audit / "decisions.sqlite"
        if not path.is_file():
            return
        try:
            with closing(sqlite3.connect(regular(path))) as database:
                (count,) = database.execute("SELECT count(*) FROM decision").fetchone()
        except sqlite3.DatabaseError as error:
            raise UserError(f"{path} can't be opened: {error}. Move it away.") from None
        if count:
            raise UserError(
                f"{self.path} holds {count:,} decisions of a review, which would be lost. Name "
                "another --out, and carry them over later: josrc review NEW --decisions-of "
                f"{shlex.quote(str(self.path))}"
            )


def _followed_links(folder: Path, depth: int = LINK_DEPTH) -> Iterator[Path]:
    """Links in a folder, and in those in it, which writing would follow."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_symlink():
            if entry.is_dir() or entry.name.startswith(WRITTEN_IN_PLACE):
                yield Path(entry.path)
        elif depth > 1 and entry.is_dir():
            yield from _followed_links(Path(entry.path), depth - 1)


def prepare_folder(out: Path | None, config: RunConfig, overwrite: bool) -> RunFolder:
    """A folder for a new run. It is only looked at: nothing is deleted before the run can begin."""
    if out is None:
        return RunFolder(free_name(Path("runs") / run_name(config)))
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; --out names a folder.")
    folder = RunFolder(out)
    if not out.is_dir():
        return folder
    folder.check_links()
    folder.check_free()
    if folder.foreign_files():
        raise UserError(
            f"{out} holds {folder.foreign_files()[0]}, which is not part of a run. Name another "
            "--out."
        )
    if folder.config.is_file() and not overwrite:
        resume = f"Resume it: josrc resume {shlex.quote(str(out))}. "
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


def _number(cell: str) -> float | None:
    """A cell of the metrics, possibly empty."""
    number = float(cell) if cell else None
    if number is not None and not math.isfinite(number):
        raise ValueError(f"{cell} is not a finite number")
    return number


def _cells(row: Row) -> list[str]:
    return [_cell(row.get(column)) for column in METRIC_COLUMNS]


def _cell(value: float | int | None) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return str(value) if isinstance(value, int) else f"{value:.6g}"
