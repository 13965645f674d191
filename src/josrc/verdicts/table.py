"""What an audit leaves on disk: ``verdicts.csv``, written as a stream, and ``summary.json``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from josrc._io import replacing_csv, write_text
from josrc.data.noise import CLEAN, ID, OOD, Labels
from josrc.verdicts.reasons import reasons
from josrc.verdicts.rule import Findings, Vector, Verdicts

Reasons = Callable[[Verdicts, Findings, Labels, Sequence[str]], Iterator[str]]

# What the groups are called in files.
TITLES = {CLEAN: "clean", ID: "mislabelled", OOD: "out_of_distribution"}
COLUMNS = (
    "id", "path", "given_label", "verdict", "suggested_label", "p_clean", "p_ood", "confidence",
    "reason",
)  # fmt: skip
# Verdicts below this confidence are borderline: worth a second look. Those of confidence 0 are none
# yet, as training has not reached their samples.
BORDERLINE = 0.7
# Rows that are made at a time: more would only take more memory.
CHUNK = 50_000
# Pairs of classes that the summary names.
CONFUSED = 20


@dataclass(frozen=True)
class Judged:
    """Verdicts on some samples, and what is needed to tell of them.

    Attributes:
        verdicts: on every sample.
        findings: what they rest on.
        given: the given labels.
        ids: what the samples are called.
        paths: where their images lie; an empty string for none.
        reasons: makes the sentences.
    """

    verdicts: Verdicts
    findings: Findings
    given: Labels
    ids: Sequence[str] | Sequence[int]
    paths: Sequence[str]
    reasons: Reasons = reasons


def write_verdicts(path: Path, parts: Sequence[Judged], names: Sequence[str]) -> None:
    """Write a line a sample, in data order.

    Args:
        path: the file.
        parts: what was judged, one after the other.
        names: of the classes of the task.
    """
    with replacing_csv(path) as write:
        write([COLUMNS])
        for part in parts:
            for start in range(0, len(part.given), CHUNK):
                write(_lines(part, range(start, min(start + CHUNK, len(part.given))), names))


def _lines(judged: Judged, rows: range, names: Sequence[str]) -> Iterable[tuple[Any, ...]]:
    named = [*names, ""]  # the suggestion -1 is no class
    some = slice(rows.start, rows.stop)
    part, given = judged.verdicts.part(some), judged.given[some]
    return zip(
        (judged.ids[row] for row in rows),
        (judged.paths[row] for row in rows),
        (names[label] for label in given.tolist()),
        (TITLES[group] for group in part.group.tolist()),
        (named[label] for label in part.suggested.tolist()),
        *(map("{:.4f}".format, p.tolist()) for p in part.probabilities),
        judged.reasons(part, judged.findings.part(some), given, names),
        strict=True,
    )


def summarise(parts: Sequence[Judged], names: Sequence[str]) -> dict[str, Any]:
    """Counts, estimated noise rates and the pairs of classes that are most often confused."""
    given = np.concatenate([part.given for part in parts])
    group = np.concatenate([part.verdicts.group for part in parts])
    suggested = np.concatenate([part.verdicts.suggested for part in parts])
    counts = {number: group == number for number in TITLES}
    by_class = {g: np.bincount(given[chosen], minlength=len(names)) for g, chosen in counts.items()}
    total = np.bincount(given, minlength=len(names))
    classes = [
        {
            "class": name,
            "samples": int(total[place]),
            **{TITLES[number]: int(found[place]) for number, found in by_class.items()},
            "noise_rate": _share(total[place] - by_class[CLEAN][place], total[place]),
        }
        for place, name in enumerate(names)
    ]
    samples = len(given)
    return {
        "samples": samples,
        "counts": {TITLES[number]: int(chosen.sum()) for number, chosen in counts.items()},
        "noise_rate": _share(samples - counts[CLEAN].sum(), samples),
        "ood_share": _share(counts[OOD].sum(), samples),
        "classes": classes,
        "confused_pairs": _confused(group, suggested, given, names),
    }


def write_summary(path: Path, summary: dict[str, Any]) -> None:
    """Write ``summary.json``."""
    write_text(path, json.dumps(summary, indent=2) + "\n")


def _share(part: Any, whole: Any) -> float:
    return float(part / whole) if whole else 0.0


def _confused(
    group: Vector, suggested: Vector, given: Labels, names: Sequence[str]
) -> list[dict[str, Any]]:
    """Which given label stands most often for which other class."""
    wrong = (group == ID) & (suggested >= 0)
    pair = given[wrong] * len(names) + suggested[wrong]
    kinds, counts = np.unique(pair, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:CONFUSED]
    return [
        {
            "given": names[kinds[place] // len(names)],
            "suggested": names[kinds[place] % len(names)],
            "count": int(counts[place]),
        }
        for place in order
    ]
