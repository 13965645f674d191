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
MIN_CONFIDENCE = 0.9
# How many of the most suspicious labels somebody may look at.
FIRST_COUNTS = (100, 500)
# Shares of all labels that may be accused, to see what it would cost to accuse more, in percent.
TRADE_OFF = (1, 2, 5, 10, 15, 20, 30, 40, 50)


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
        Shares in [0, 1]: ``precision_``, ``recall_`` and ``f1_`` of every verdict, and of ``wrong``
        for any verdict against a label, ``accused`` for their share of all; ``auroc_`` and
        ``average_precision_`` of both scores, ``first_100_right`` and ``first_500_right`` of the
        labels that look most wrong, ``accusing_5_right`` and the like of those 5 % of all,
        ``suggestion_accuracy`` over all ID-noisy samples. None where the data has no such samples.
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
    wrong, accused = kind != CLEAN, group != CLEAN
    found |= _accusing(wrong, accused)
    found |= _ranking("wrong", wrong, wrong_score)
    order = np.argsort(-wrong_score, kind="stable")
    for first in FIRST_COUNTS:
        found[f"first_{first}_right"] = np.mean(wrong[order[:first]]) if wrong.any() else None
    for percent in TRADE_OFF:
        most = order[: max(1, round(percent / 100 * len(order)))]
        found[f"accusing_{percent}_right"] = np.mean(wrong[most]) if wrong.any() else None
    found |= _ranking("ood", kind == OOD, ood_score)
    noisy = kind == ID
    right = suggested[noisy] == true[noisy]
    found["suggestion_accuracy"] = float(np.mean(right)) if noisy.any() else None
    return {name: None if value is None else float(value) for name, value in found.items()}


def measure_noise_rate(rate: float, kind: NDArray[Any]) -> Measures:
    """An estimated share of wrong labels beside the true one, foreign images counted in."""
    true = float(np.mean(kind != CLEAN))
    return {"noise_rate": true, "noise_rate_estimated": rate, "noise_rate_error": abs(rate - true)}


def measure_calibration(p_clean: NDArray[Any], kind: NDArray[Any]) -> Measures:
    """How far probabilities are from what they promise, over tenths of [0, 1].

    Returns:
        ``calibration_error``: the mean distance of ``p_clean`` from the share of right labels, and
        ``calibration_``: of labels with a ``p_clean`` in each tenth, how many there are, the mean
        of theirs, and the share that is right; none where there are no such labels.
    """
    right, tenth = kind == CLEAN, np.minimum((10 * p_clean).astype(int), 9)
    found: Measures = {}
    error = 0.0
    for number in range(10):
        there = tenth == number
        promised, kept = (
            (float(values[there].mean()) if there.any() else None) for values in (p_clean, right)
        )
        name = f"calibration_{number / 10:g}"
        found |= {f"{name}_share": float(there.mean()), f"{name}_promised": promised}
        found[f"{name}_right"] = kept
        if promised is not None and kept is not None:
            error += float(there.mean()) * abs(promised - kept)
    return {"calibration_error": error, **found}


def measure_sure(verdicts: Verdicts, true: Labels, kind: NDArray[Any]) -> Measures:
    """How far verdicts against a label can be followed without a look.

    Returns:
        ``sure_share``: of all samples, those that are called mislabelled or out of distribution
        with a confidence of at least ``MIN_CONFIDENCE``. ``sure_right``: of these, the share
        whose verdict is right, and the suggested label with it. ``sure_reached``: of the labels
        that are accused rightly, the share with such a confidence.
    """
    sure = (verdicts.group != CLEAN) & (verdicts.confidence >= MIN_CONFIDENCE)
    corrected = (kind == ID) & (verdicts.suggested == true)
    right = np.where(verdicts.group == ID, corrected, verdicts.group == kind)
    rightly = (verdicts.group != CLEAN) & (kind != CLEAN)
    return {
        "sure_share": float(np.mean(sure)),
        "sure_right": float(np.mean(right[sure])) if sure.any() else None,
        "sure_reached": float(np.mean(sure[rightly])) if rightly.any() else None,
    }


def _accusing(wrong: NDArray[np.bool_], accused: NDArray[np.bool_]) -> Measures:
    """How good it is to accuse these."""
    rightly = float(np.sum(wrong & accused))
    precision = rightly / accused.sum() if accused.any() and wrong.any() else None
    recall = rightly / wrong.sum() if wrong.any() else None
    f1 = 2 * rightly / (wrong.sum() + accused.sum()) if wrong.any() else None
    share = float(np.mean(accused))
    return {"accused": share, "precision_wrong": precision, "recall_wrong": recall, "f1_wrong": f1}


def _ranking(name: str, really: NDArray[np.bool_], score: NDArray[Any]) -> Measures:
    from sklearn.metrics import average_precision_score, roc_auc_score

    if really.all() or not really.any():
        return {f"auroc_{name}": None, f"average_precision_{name}": None}
    return {
        f"auroc_{name}": roc_auc_score(really, score),
        f"average_precision_{name}": average_precision_score(really, score),
    }
