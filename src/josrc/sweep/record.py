"""What a sweep remembers of each trial beside its run folder: what was reported, how it ended."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from josrc._io import readable, write_text
from josrc._reading import read_json
from josrc.engine.run_folder import RunFolder

STOPPED, FAILED = "stopped", "failed"


@dataclass(frozen=True)
class Record:
    """The reports of a trial, and its end if that is not the run's.

    Attributes:
        reports: epochs, and what the metric was after each.
        end: ``stopped`` by the scheduler, ``failed`` for good, else empty.
        message: why it failed, or could not go on.
    """

    reports: list[tuple[int, float]] = field(default_factory=list)
    end: str = ""
    message: str = ""

    @classmethod
    def read(cls, path: Path) -> Self:
        """From its file; an empty one if there is none."""
        if not path.is_file():
            return cls()
        found = read_json(path)
        with readable(path):
            reports = [(int(epoch), float(value)) for epoch, value in found["reports"]]
            return cls(reports, str(found["end"]), str(found["message"]))

    def write(self, path: Path) -> None:
        """Keep it in its file."""
        write_text(path, json.dumps(asdict(self)) + "\n")

    def until(self, epoch: int) -> Record:
        """What of it a run knows that goes on after an epoch."""
        return replace(self, reports=[report for report in self.reports if report[0] <= epoch])

    def with_report(self, epoch: int, value: float) -> Record:
        """One with a report more."""
        return replace(self, reports=[*self.until(epoch - 1).reports, (epoch, value)])


@dataclass(frozen=True)
class SweepFolder:
    """Paths of a sweep."""

    path: Path

    def run(self, name: str) -> RunFolder:
        """The run folder of a trial."""
        return RunFolder(self.path / "runs" / name)

    def record(self, name: str) -> Path:
        """The record of a trial."""
        return self.path / "records" / f"{name}.json"

    @property
    def table(self) -> Path:
        """What came of all trials."""
        return self.path / "table.csv"

    @property
    def picture(self) -> Path:
        """The same as parallel coordinates."""
        return self.path / "parallel.png"

    def has_ended(self, name: str) -> bool:
        """Whether nothing is left to do for a trial."""
        return self.run(name).summary.is_file() or bool(Record.read(self.record(name)).end)

    def state(self, name: str) -> str:
        """``finished``, ``stopped``, ``failed``, ``interrupted`` or ``not begun``."""
        folder = self.run(name)
        if folder.summary.is_file():
            return "finished"
        end = Record.read(self.record(name)).end
        return end or ("interrupted" if folder.config.is_file() else "not begun")

    def reports(self, name: str) -> list[tuple[int, float]]:
        """Every report of a trial."""
        return Record.read(self.record(name)).reports

    def mark(self, name: str, **changes: Any) -> None:
        """Change the record of a trial."""
        replace(Record.read(self.record(name)), **changes).write(self.record(name))
