"""What a report says in words and figures, before it shows any image."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from josrc._console import clipped
from josrc.config import PEOPLE, SCAN, DataKind, RunConfig
from josrc.data.label_files import read_label_file
from josrc.data.noise import Labels
from josrc.engine.health import ended_badly
from josrc.engine.metrics import Row
from josrc.engine.run_folder import RunFolder
from josrc.methods import get_method
from josrc.verdicts.judge_run import (
    how_sure,
    noise_span,
    nothing_stands_out,
    unlearned_warning,
)
from josrc.verdicts.scope import scope_sentences

# Rows and columns of the matrix of confusions, and lines of the lists beside and above it.
MATRIX_CLASSES, MAX_LISTED_PAIRS, MAX_LISTED_CLASSES = 12, 10, 200
# With more labels than these called wrong, some people will not believe it, and may be right.
MANY_WRONG = 0.15
# Steps of shade in the matrix.
SHADES = 8
# The curves: title, unit, the range that is always shown, and each line's column, name and colour.
CHARTS: tuple[tuple[str, str, tuple[float, float] | None, dict[str, tuple[str, str]]], ...] = (
    (
        "Test accuracy",
        "%",
        None,
        {"test_accuracy": ("network", "first"), "teacher_accuracy": ("mean teacher", "second")},
    ),
    ("Agreement with held-out labels", "%", None, {"agreement": ("network", "first")}),
    (
        "Images in each group",
        "",
        (0, 0),
        {
            "n_clean": ("clean", "clean"),
            "n_id": ("mislabelled", "mislabelled"),
            "n_ood": ("out of distribution", "out_of_distribution"),
        },
    ),
    (
        "Precision of each group",
        "%",
        (0, 100),
        {
            "clean_precision": ("clean", "clean"),
            "id_precision": ("mislabelled", "mislabelled"),
            "ood_precision": ("out of distribution", "out_of_distribution"),
        },
    ),
    ("Threshold of the clean likelihood", "", (0, 1), {"threshold": ("threshold", "first")}),
)


def overview(
    folder: RunFolder,
    config: RunConfig,
    audit: Mapping[str, Any],
    truth: Labels | None,
    ended: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The first screen: what was trained, how well, what is wrong, and what to do about it."""
    rows, scanned = folder.read_metrics(), config.method.name == SCAN
    if ended is None and folder.summary.is_file():
        ended = folder.read_summary()
    data = config.data
    drawn = (
        f", labels '{data.noise}'"
        if data.noise in PEOPLE
        else f", {data.noise} noise {data.rate:g}"
    )
    noise = "" if data.noise == "none" or data.noise_file else drawn
    return {
        "run": folder.path.absolute().name,
        "method": "Scan" if scanned else get_method(config.method.name).title,
        "scanned": scanned,
        "judged": audit.get("judged", ""),
        "trained_on": data.name + noise,
        "model": config.model.name,
        "epochs": config.epochs,
        "done": len(rows),
        "selects": any(row.get("n_clean") is not None for row in rows),
        "result": {} if scanned else result(rows, config.epochs),
        "skipped": len(folder.read_skipped()) if folder.skipped.is_file() else 0,
        "audit": audit,
        "headline": headline(audit),
        "bar": [
            {"verdict": verdict, "count": count, "share": _percent(count, audit["samples"])}
            for verdict, count in audit["counts"].items()
        ],
        "really_wrong": really_wrong(folder, audit, truth),
        "told": _is_rate_given(audit),
        "span": noise_span(audit),
        "how_sure": how_sure(audit),
        "classes": noisiest(audit["classes"]),
        "class_count": len(audit["classes"]),
        "steps": next_steps(folder, config, audit, ended),
        "not_judged": [] if ended is None else scope_sentences({**ended, "skipped": 0}),
    }


def headline(audit: Mapping[str, Any]) -> str:
    """The finding as one sentence."""
    wrong = audit["samples"] - audit["counts"]["clean"]
    if nothing_stands_out(audit):
        return "No wrong labels stand out."
    if wrong == 0:
        return "No label looks wrong."
    share = audit["noise_rate"]
    if _is_rate_given(audit):
        return f"The {100 * share:.3g}\u00a0% of the labels that look worst."
    if share < 0.01:
        return f"{wrong:,} of {audit['samples']:,} labels {'look' if wrong > 1 else 'looks'} wrong."
    span = noise_span(audit)
    if span is not None:
        low, high = (f"{100 * rate:.0f}" for rate in span)
        return f"An estimated {low} to {high}\u00a0% of the labels are wrong."
    return f"About {100 * share:.0f}\u00a0% of the labels look wrong."


def result(rows: Sequence[Row], epochs: int) -> dict[str, str]:
    """The accuracy, or what is known in its place, under its honest name."""
    unfinished = f"The run stopped after epoch {len(rows)} of {epochs}. "
    start = unfinished if len(rows) < epochs else ""
    accuracy = [row["test_accuracy"] for row in rows if row.get("test_accuracy") is not None]
    agreement = [row["agreement"] for row in rows if row.get("agreement") is not None]
    if accuracy:
        last = accuracy[-10:]
        note = f"Mean of the last {len(last)} epochs." if len(last) > 1 else "Of the last epoch."
        mean = float(np.mean(np.array(last, dtype=float)))
        return {"name": "Test accuracy", "value": f"{mean:.1f} %", "note": start + note}
    if agreement:
        return {
            "name": "Agreement",
            "value": f"{agreement[-1]:.1f} %",
            "note": f"{start}with held-out labels, right or wrong. This is not accuracy.",
        }
    note = f"{start}It can't be measured without test images (--test)."
    return {"name": "Accuracy", "value": "unknown", "note": note}


def really_wrong(folder: RunFolder, audit: Mapping[str, Any], truth: Labels | None) -> str | None:
    """The share of labels that are wrong, where it is known; held-out images don't count."""
    if truth is None:
        return None
    names = [entry["class"] for entry in audit["classes"]]
    given = read_label_file(folder.noise, None, names, len(truth))
    return f"{100 * np.mean(given != truth):.1f} %"


def noisiest(classes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The classes with their shares of wrong labels, the noisiest first, with their numbers."""
    numbered = [
        {
            "number": number,
            **entry,
            "name": clipped(entry["class"]),
            "mislabelled_share": _percent(entry["mislabelled"], entry["samples"]),
            "ood_share": _percent(entry["out_of_distribution"], entry["samples"]),
        }
        for number, entry in enumerate(classes)
        if entry["samples"]
    ]
    return sorted(numbered, key=lambda entry: -entry["noise_rate"])[:MAX_LISTED_CLASSES]


def matrix(pairs: Mapping[tuple[int, int], int], names: Sequence[str]) -> dict[str, Any] | None:
    """Given labels against suggested ones, for the classes that are confused most often.

    Args:
        pairs: how often each pair occurs, the most frequent first.
        names: of the classes.
    """
    if not pairs:
        return None
    rows: dict[int, None] = {}
    columns: dict[int, None] = {}
    for given, suggested in pairs:
        if len(rows) < MATRIX_CLASSES or given in rows:
            if len(columns) >= MATRIX_CLASSES and suggested not in columns:
                continue
            rows[given] = columns[suggested] = None
    most = max(pairs.values())

    def cell(given: int, suggested: int) -> dict[str, Any]:
        count = pairs.get((given, suggested), 0)
        shade = 0 if not count else 1 + round((SHADES - 1) * (count / most) ** 0.5)
        return {"given": given, "suggested": suggested, "count": count, "shade": shade}

    ordered = sorted(columns)
    return {
        "columns": [{"number": number, "name": names[number]} for number in ordered],
        "rows": [
            {"name": names[given], "cells": [cell(given, suggested) for suggested in ordered]}
            for given in sorted(rows)
        ],
        "names": names,
        "pairs": [
            {"given": given, "suggested": suggested, "count": count}
            for (given, suggested), count in list(pairs.items())[:MAX_LISTED_PAIRS]
        ],
        "whole": set(rows) | set(columns) >= {number for pair in pairs for number in pair},
    }


def charts(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The curves that a run has numbers for."""
    found = []
    for title, unit, span, columns in CHARTS:
        lines = [
            {"name": name, "colour": colour, "values": [row.get(column) for row in rows]}
            for column, (name, colour) in columns.items()
            if any(row.get(column) is not None for row in rows)
        ]
        if lines:
            found.append({"title": title, "unit": unit, "span": span, "lines": lines})
    return found


def next_steps(
    folder: RunFolder,
    config: RunConfig,
    audit: Mapping[str, Any],
    ended: Mapping[str, Any] | None = None,
) -> list[dict[str, str]]:
    """What a person should do now: a sentence each, with the command where there is one."""
    counts, path = audit["counts"], shlex.quote(str(folder.path))
    own = not config.data.kind.is_named
    steps = []
    if config.method.name != SCAN and len(folder.read_metrics()) < config.epochs:
        steps.append({"text": "Let the run finish.", "command": f"josrc resume {path}"})
    warning = ended_badly(ended) if ended and config.method.name != SCAN else None
    if warning:
        steps.append({"text": f"{warning} See the curves, and train again."})
    unlearned = unlearned_warning(audit)
    if unlearned:
        steps.append({"text": unlearned})
    if counts["mislabelled"] + counts["out_of_distribution"] == 0:
        text = "Nothing stands out as wrong."
        steps.append({"link": "Look at what is borderline.", "text": text})
        return steps
    look = "The most certain come first. Trust your eyes."
    steps.append({"link": "Look at the images.", "text": look})
    if (
        config.data.kind is DataKind.ARRAYS
    ):  # images in memory are gone, and with them what commands need
        command = f"josrc.Run.load({str(folder.path)!r}).verdicts()"
        return [*steps, {"text": "Use the verdicts in your program.", "command": command}]
    if own and audit["noise_rate"] > MANY_WRONG and not _is_rate_given(audit):
        text = (
            "Does that seem too many? The spot check in the review shows a hundred images drawn "
            "at random, and then the command that takes the share of wrong labels among them "
            "into account."
        )
        steps.append({"text": text, "command": f"josrc review {path}"})
    many_foreign = counts["out_of_distribution"] > MANY_WRONG * audit["samples"]
    if own and many_foreign and audit.get("known_ood_rate") is None:
        text = (
            "Does every image belong to one of the classes? Then no image is called out of "
            "distribution with:"
        )
        steps.append({"text": text, "command": f"josrc audit {path} --ood-rate 0"})
    steps.append({"text": "Decide, with one key per image.", "command": f"josrc review {path}"})
    if own:
        steps.append(
            {
                "text": "Write the corrected data set, and train on it again.",
                "command": f"josrc apply {path} --out {_name_cleaned(config.data.name)}",
            }
        )
    return steps


def _name_cleaned(trained_on: str) -> str:
    """A name for the corrected data: in a second round cleaned.csv is what it was trained on."""
    found = re.fullmatch(r"cleaned(?:-(\d+))?\.csv", Path(trained_on).name)
    return f"cleaned-{int(found[1] or 1) + 1}.csv" if found else "cleaned.csv"


def _is_rate_given(audit: Mapping[str, Any]) -> bool:
    """Whether somebody said how many labels are wrong."""
    return audit.get("known_noise_rate") is not None


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 3) if whole else 0.0
