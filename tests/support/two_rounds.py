"""Two runs on the same data, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from commands import josrc
from reviewing import read

NAMES = ("zero", "one", "two")


PER_CLASS, WRONG = 100, 4


@dataclass(frozen=True)
class Rounds:
    """A scan, decisions on it, and a scan of what ``josrc apply`` made of them.

    Attributes:
        first: the earlier run.
        second: the later one.
        photos: the folder that the first one scanned.
        features: of the images, by the name of their file.
    """

    first: Path
    second: Path
    photos: Path
    features: dict[str, np.ndarray]

    def rows(self, run: Path) -> dict[str, int]:
        """The row of each file in a run's verdicts."""
        lines = read(run / "audit" / "verdicts.csv")
        return {Path(line["path"]).name: row for row, line in enumerate(lines)}


def features_for(run_order: list[str], features: dict[str, np.ndarray], path: Path) -> Path:
    np.save(path, np.stack([features[Path(name).name] for name in run_order]))
    return path


def failing(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What a mistake is answered with."""
    capsys.readouterr()
    assert josrc(*arguments) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return said
