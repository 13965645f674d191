"""How good verdicts are, where the truth is known."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from josrc.data.noise import CLEAN, ID, OOD, Labels
from josrc.verdicts.rule import Verdicts
from josrc.verdicts.table import VERDICT_TITLES

Measures = dict[str, float | None]
# What `josrc apply --auto 0.9 --auto-remove` follows.
SURE = 0.9


def measure(
    group: NDArray[Any],
    wrong_score: NDArray[Any],
    ood_score: NDArray[Any],
    suggested: NDArray[Any],
    true: Labels,
    kind: NDArray[Any],
) -> Measures:
    """Compare verdicts and scores with the truth.

    Args:
        group: the verdicts, ``(N,)``.
        wrong_score: higher for labels that are more likely wrong.
        ood_score: higher for images that more likely belong to no class.
        suggested: the most likely class other than the given label, for every sample.
        true: true classes.
        kind: 0 clean, 1 in-distribution with a wrong label, 2 out of distribution.

    Returns:
        Shares in [0, 1]: ``precision_``, ``recall_`` and ``f1_`` of every verdict, ``auroc_`` and
        ``average_precision_`` of both scores, ``suggestion_accuracy`` over all ID-noisy samples.
        None where the data has no such samples.
    """
    from sklearn.metrics import precision_recall_fscore_support

    groups = list(VERDICT_TITLES)
    precision, recall, f1, support = precision_recall_fscore_support(
        kind, group, labels=groups, zero_division=np.nan
    )
    found: Measures = {}
    for place, name in enumerate(VERDICT_TITLES.values()):
        for measured, values in (("precision", precision), ("recall", recall), ("f1", f1)):
            known = support[place] and not np.isnan(values[place])
            found[f"{measured}_{name}"] = values[place] if known else None
    found |= _ranking("wrong", kind != CLEAN, wrong_score)
    found |= _ranking("ood", kind == OOD, ood_score)
    noisy = kind == ID
    right = suggested[noisy] == true[noisy]
    found["suggestion_accuracy"] = float(np.mean(right)) if noisy.any() else None
    return {name: None if value is None else float(value) for name, value in found.items()}


def measure_sure(verdicts: Verdicts, true: Labels, kind: NDArray[Any]) -> Measures:
    """How far verdicts against a label can be followed without a look.

    Returns:
        ``sure_share``: of all samples, those that are called mislabelled or out of distribution
        with a confidence of at least ``SURE``. ``sure_right``: of these, the share whose verdict
        is right, and the suggested label with it.
    """
    sure = (verdicts.group != CLEAN) & (verdicts.confidence >= SURE)
    corrected = (kind == ID) & (verdicts.suggested == true)
    right = np.where(verdicts.group == ID, corrected, verdicts.group == kind)
    found = float(np.mean(right[sure])) if sure.any() else None
    return {"sure_share": float(np.mean(sure)), "sure_right": found}


def _ranking(name: str, really: NDArray[np.bool_], score: NDArray[Any]) -> Measures:
    from sklearn.metrics import average_precision_score, roc_auc_score

    if really.all() or not really.any():
        return {f"auroc_{name}": None, f"average_precision_{name}": None}
    return {
        f"auroc_{name}": roc_auc_score(really, score),
        f"average_precision_{name}": average_precision_score(really, score),
    }
