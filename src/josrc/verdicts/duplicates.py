"""``duplicates.csv``: the copies among a run's images, with the verdicts on their labels."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from josrc._io import readable, write_csv
from josrc._reading import regular
from josrc.data.duplicates import EXACT, PARTS, Duplicate
from josrc.verdicts.findings import Vector
from josrc.verdicts.table import VERDICT_TITLES

DUPLICATES = "duplicates.csv"


def write_duplicates(path: Path, copies: Iterable[Duplicate]) -> None:
    """Write a line a copy, those that are alike one after the other."""
    write_csv(path, chain([Duplicate._fields], copies))


def read_duplicates(path: Path) -> Iterator[Duplicate]:
    """The lines of a file; none if a run has no such file."""
    if not path.is_file():
        return
    with (
        readable(path),
        regular(path).open(newline="", encoding="utf-8", errors="surrogateescape") as file,
    ):
        lines = csv.reader(file)
        next(lines, None)
        for group, part, row, name, label, verdict, *more in lines:
            kind, alike = more or (EXACT, 1)  # an earlier josrc knew exact copies alone
            if part not in PARTS or int(row) < 0:
                raise ValueError(f"there is no image {row} of '{part}'")
            yield Duplicate(int(group), part, int(row), name, label, verdict, kind, float(alike))


def judge_duplicates(path: Path, group: Vector) -> None:
    """Give the copies of a run the verdicts on their labels; test images have none.

    Args:
        path: the file, which the run wrote when it began.
        group: verdicts on every sample, ``(N,)``, in the order of ``verdicts.csv``.
    """

    def judged(copy: Duplicate) -> Duplicate:
        known = copy.part != PARTS[-1] and copy.row < len(group)
        return copy._replace(verdict=VERDICT_TITLES[int(group[copy.row])] if known else "")

    if path.is_file():
        write_duplicates(path, map(judged, read_duplicates(path)))
