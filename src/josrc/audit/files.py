"""What an audit leaves on disk: ``verdicts.csv``, written as a stream, and ``summary.json``."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from josrc.audit.reasons import reasons
from josrc.audit.verdicts import Findings, Verdicts
from josrc.data.noise import CLEAN, ID, OOD, Labels
from josrc.files import replacing, write_text

# What the groups are called in files.
TITLES = {CLEAN: "clean", ID: "mislabelled", OOD: "out_of_distribution"}
COLUMNS = (
    "id", "path", "given_label", "verdict", "suggested_label", "p_clean", "p_ood", "confidence",
    "reason",
)  # fmt: skip
# Rows that are made at a time: more would only take more memory.
CHUNK = 50_000
# Pairs of classes that the summary names.
CONFUSED = 20


def write_verdicts(
    path: Path,
    verdicts: Verdicts,
    findings: Findings,
    given: Labels,
    names: Sequence[str],
    ids: Sequence[str] | Sequence[int],
    paths: Sequence[str],
) -> None:
    """Write a line a sample, in data order.

    Args:
        path: the file.
        verdicts: on every sample.
        findings: what they rest on.
        given: the given labels.
        names: of the classes of the task.
        ids: what the samples are called.
        paths: where their images lie; an empty string for none.
    """
    named = [*names, ""]  # the suggestion -1 is no class
    with replacing(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for start in range(0, len(given), CHUNK):
            rows = slice(start, min(start + CHUNK, len(given)))
            part = verdicts.part(rows)
            writer.writerows(
                zip(
                    (ids[row] for row in range(rows.start, rows.stop)),
                    (paths[row] for row in range(rows.start, rows.stop)),
                    (names[label] for label in given[rows].tolist()),
                    (TITLES[group] for group in part.group.tolist()),
                    (named[label] for label in part.suggested.tolist()),
                    *(map("{:.4f}".format, p.tolist()) for p in part.probabilities),
                    reasons(part, findings.part(rows), given[rows], names),
                    strict=True,
                )
            )


def summarise(verdicts: Verdicts, given: Labels, names: Sequence[str]) -> dict[str, Any]:
    """Counts, estimated noise rates and the pairs of classes that are most often confused."""
    counts = {group: verdicts.group == group for group in TITLES}
    by_class = {g: np.bincount(given[chosen], minlength=len(names)) for g, chosen in counts.items()}
    total = np.bincount(given, minlength=len(names))
    classes = [
        {
            "class": name,
            "samples": int(total[place]),
            **{TITLES[group]: int(found[place]) for group, found in by_class.items()},
            "noise_rate": _share(total[place] - by_class[CLEAN][place], total[place]),
        }
        for place, name in enumerate(names)
    ]
    samples = len(given)
    return {
        "samples": samples,
        "counts": {TITLES[group]: int(chosen.sum()) for group, chosen in counts.items()},
        "noise_rate": _share(samples - counts[CLEAN].sum(), samples),
        "ood_share": _share(counts[OOD].sum(), samples),
        "classes": classes,
        "confused_pairs": _confused(verdicts, given, names),
    }


def write_summary(path: Path, summary: dict[str, Any]) -> None:
    """Write ``summary.json``."""
    write_text(path, json.dumps(summary, indent=2) + "\n")


def _share(part: Any, whole: Any) -> float:
    return float(part / whole) if whole else 0.0


def _confused(verdicts: Verdicts, given: Labels, names: Sequence[str]) -> list[dict[str, Any]]:
    """Which given label stands most often for which other class."""
    wrong = (verdicts.group == ID) & (verdicts.suggested >= 0)
    pair = given[wrong] * len(names) + verdicts.suggested[wrong]
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
