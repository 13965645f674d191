"""A run folder against the truth, by what its files say: for runs that commands have left."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from josrc.data.noise import CLEAN, ID, OOD
from josrc.runs.run import Run
from josrc.verdicts.measures import Measures, measure, measure_noise_rate
from josrc.verdicts.table import VERDICT_TITLES


def measure_run(folder: Path, true: NDArray[np.str_]) -> Measures:
    """Everything that is measured of the verdicts in a run folder.

    Args:
        folder: the run's.
        true: the name of each image's class, in the order of ``verdicts.csv``; that of an image of
            no class is any other.
    """
    run = Run.load(folder)
    table, summary = run.verdicts(), run.audit
    assert summary is not None
    classes = [entry["class"] for entry in summary["classes"]]
    number = {name: place for place, name in enumerate(classes)}
    numbers = {title: kind for kind, title in VERDICT_TITLES.items()}
    given = table["given_label"].to_numpy().astype(str)
    kind = np.where(given == true, CLEAN, np.where(np.isin(true, classes), ID, OOD))
    group = table["verdict"].map(numbers).to_numpy()
    suggested = table["suggested_label"].map(lambda name: number.get(name, -1)).to_numpy()
    known = np.array([number.get(name, -2) for name in true.tolist()])
    score, foreign = -table["score"].to_numpy(), table["p_ood"].to_numpy()
    found = measure(group, score, foreign, suggested, known, kind)
    # Of the others the file has no suggestion.
    named = (kind == ID) & (suggested >= 0)
    found["suggestion_accuracy"] = (
        float(np.mean(suggested[named] == known[named])) if named.any() else None
    )
    found |= measure_noise_rate(summary["noise_rate"], kind)
    names = ("noise_rate_low", "noise_rate_high", "estimated_precision", "estimated_recall")
    return found | {name: summary.get(name) for name in names}
