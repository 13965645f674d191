"""Which samples a report shows: of ten thousand findings those that a person should see first."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from josrc.data.noise import ID, OOD
from josrc.errors import UserError
from josrc.verdicts.table import BORDERLINE, COLUMNS, TITLES

Vector = NDArray[np.float64]
Index = NDArray[np.int64]

# The share of the places that each gallery has; what one leaves free goes to the others.
SHARES = {"mislabelled": 0.5, "out_of_distribution": 0.25, "borderline": 0.25}


@dataclass(frozen=True)
class Scores:
    """The columns of ``verdicts.csv`` by which samples are chosen, each ``(N,)``.

    Attributes:
        given: numbers of the given labels.
        verdict: numbers of the verdicts.
        suggested: numbers of the suggested labels, -1 for none.
        confidence: of the verdict.
    """

    given: Index
    verdict: Index
    suggested: Index
    confidence: Vector

    def galleries(self) -> dict[str, Index]:
        """Samples of each gallery, the most telling first."""
        sure = self.confidence
        return {
            "mislabelled": _ranked(self.verdict == ID, -sure),
            "out_of_distribution": _ranked(self.verdict == OOD, -sure),
            "borderline": _ranked((sure > 0) & (sure < BORDERLINE), sure),
        }

    def pairs(self) -> dict[tuple[int, int], int]:
        """How often each given label was taken for each other class, the most frequent first."""
        wrong = (self.verdict == ID) & (self.suggested >= 0)
        both = np.stack([self.given[wrong], self.suggested[wrong]])
        found, counts = np.unique(both, axis=1, return_counts=True)
        order = np.argsort(-counts, kind="stable").tolist()
        return {(int(found[0, i]), int(found[1, i])): int(counts[i]) for i in order}


def read_scores(path: Path, names: Sequence[str]) -> Scores:
    """The numbers of ``verdicts.csv``; texts stay on disk, a million of them take much memory.

    Args:
        path: the file.
        names: of the classes.
    """
    number = {name: place for place, name in enumerate(names)}
    verdict_of = {title: group for group, title in TITLES.items()}
    whole, real = [array("q") for _ in range(3)], array("d")
    for line, row in enumerate(_rows(path), 2):
        try:
            whole[0].append(number[row[2]])
            whole[1].append(verdict_of[row[3]])
            whole[2].append(number[row[4]] if row[4] else -1)
            _, _, sure = map(float, row[5:8])
            real.append(sure)
        except (KeyError, ValueError, IndexError):
            raise UserError(
                f"{path}, line {line} is not a verdict of this run. Write the file again: "
                f"josrc audit {path.parent.parent}"
            ) from None
    given, verdict, suggested = map(np.array, whole)
    return Scores(given, verdict, suggested, np.array(real))


def read_chosen(path: Path, chosen: Collection[int]) -> dict[int, dict[str, str]]:
    """The lines of some samples, by the sample's number."""
    return {
        number: dict(zip(COLUMNS, row, strict=True))
        for number, row in enumerate(_rows(path))
        if number in chosen
    }


def choose(scores: Scores, most: int) -> list[int]:
    """Samples to show, at most so many: the most telling of each gallery and of each class."""
    galleries = scores.galleries()
    places = {name: int(share * most) for name, share in SHARES.items()}
    free = sum(max(0, places[name] - len(found)) for name, found in galleries.items())
    chosen: dict[int, None] = {}
    for name, found in galleries.items():
        room = places[name]
        if len(found) > room:
            extra = min(free, len(found) - room)
            room, free = room + extra, free - extra
        chosen |= dict.fromkeys(_fair(found, scores.given[found], room).tolist())
    return list(chosen)


def _ranked(which: NDArray[np.bool_], key: Vector) -> Index:
    """Samples by their key, those with the same in data order."""
    samples = np.flatnonzero(which)
    return samples[np.argsort(key[samples], kind="stable")]


def _fair(found: Index, given: Index, room: int) -> Index:
    """The first half of the places to the first samples, the others to the classes in turn."""
    if len(found) <= room:
        return found
    turn = _turns(given)
    turn[: room // 2] = -1
    places = np.argsort(turn, kind="stable")[:room]
    return found[np.sort(places)]


def _turns(labels: Index) -> Index:
    """How often the same label came before, ``(N,)``."""
    order = np.argsort(labels, kind="stable")
    ordered = labels[order]
    first = np.searchsorted(ordered, ordered, side="left")
    turns = np.empty(len(labels), dtype=np.int64)
    turns[order] = np.arange(len(labels)) - first
    return turns


def _rows(path: Path) -> Iterator[list[str]]:
    with path.open(newline="", encoding="utf-8", errors="surrogateescape") as file:
        rows = csv.reader(file)
        if tuple(next(rows, ())) != COLUMNS:
            raise UserError(f"{path} does not begin with the columns {', '.join(COLUMNS)}.")
        try:
            yield from rows
        except csv.Error as error:
            raise UserError(f"{path}, line {rows.line_num} can't be read: {error}") from None
