"""Which samples a report shows: of ten thousand findings those that a person should see first."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from josrc.data.noise import ID, OOD
from josrc.verdicts.table import (
    BORDERLINE,
    VERDICT_TITLES,
    confused_pairs,
    not_a_verdict,
    read_verdicts,
)

if TYPE_CHECKING:
    import pandas

Vector = NDArray[np.float64]
Index = NDArray[np.int64]

# What is read of verdicts to choose among them.
READ = ("given_label", "verdict", "suggested_label", "confidence", "score")
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
        score: the lower, the more suspicious.
    """

    given: Index
    verdict: Index
    suggested: Index
    confidence: Vector
    score: Vector

    def galleries(self) -> dict[str, Index]:
        """Samples of each gallery, the most telling first."""
        sure = self.confidence
        return {
            "mislabelled": _rank(self.verdict == ID, self.score),
            "out_of_distribution": _rank(self.verdict == OOD, self.score),
            "borderline": _rank((sure > 0) & (sure < BORDERLINE), sure),
        }

    def pairs(self) -> dict[tuple[int, int], int]:
        """How often each given label was taken for each other class, the most frequent first."""
        return confused_pairs(self.verdict, self.suggested, self.given)


def read_scores(path: Path, names: Sequence[str]) -> Scores:
    """The numbers of ``verdicts.csv``; texts stay on disk, a million of them take much memory.

    Args:
        path: the file.
        names: of the classes.
    """
    import pandas

    number = {name: place for place, name in enumerate(names)}
    frames = read_verdicts(path, READ)
    table = pandas.concat(_numbers(frame, path, number) for frame in frames)
    given, verdict, suggested = (
        table[name].to_numpy(np.int64) for name in ("given", "verdict", "suggested")
    )
    confidence, score = (table[name].to_numpy(np.float64) for name in ("confidence", "score"))
    return Scores(given, verdict, suggested, confidence, score)


def _numbers(frame: pandas.DataFrame, path: Path, number: Mapping[str, int]) -> pandas.DataFrame:
    """Labels and verdicts of some lines as numbers."""
    # By functions: pandas makes a text column of a mapping's keys, and some names are not valid
    # UTF-8.
    found = frame[["confidence", "score"]].assign(
        given=frame["given_label"].map(number.get),
        verdict=frame["verdict"].map({title: group for group, title in VERDICT_TITLES.items()}),
        suggested=frame["suggested_label"].map({**number, "": -1}.get),
    )
    unknown = found.isna().any(axis=1).to_numpy()
    if unknown.any():
        raise not_a_verdict(path, int(frame.index[unknown][0]))
    return found.astype({"confidence": float, "score": float})


def read_chosen(path: Path, chosen: Collection[int]) -> dict[int, dict[str, str]]:
    """The lines of some samples, by the sample's number."""
    found: dict[int, dict[str, str]] = {}
    for frame in read_verdicts(path, chosen=np.array(sorted(chosen), dtype=np.int64)):
        found |= frame.to_dict(orient="index")
    return found


def choose(scores: Scores, most: int) -> list[int]:
    """Samples to show, at most that many: the most telling of each gallery and of each class."""
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


def _rank(which: NDArray[np.bool_], key: Vector) -> Index:
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
