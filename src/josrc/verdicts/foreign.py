"""Images that belong to no class: how much more doubtful the accused are than planted errors."""

from __future__ import annotations

import numpy as np
from sklearn.isotonic import IsotonicRegression

from josrc.verdicts.rising_chance import Numbers, RisingChance

# Fewer planted errors, or accused, say nothing.
MIN_PLANTED = 50
# The lower share of planted errors, below which hardly an image is foreign.
AT_HOME = 0.5
# Parts of the accused, by score, within which they are compared with planted errors.
PARTS = 8


def foreign_evidence(
    planted: Numbers,
    accused: Numbers,
    share: float,
    planted_scores: Numbers,
    accused_scores: Numbers,
) -> RisingChance | None:
    """How likely an image whose label is wrong is foreign, by the doubt about it.

    Planted errors are wrong labels of images like all others. If the accused were no more than
    that, their doubts would be alike. Where they are not, the surplus at high doubt is foreign.
    Labels that look less wrong are of more doubtful images, and people's errors look less wrong
    than planted ones: so planted errors count as often as there are accused labels of such scores.

    Args:
        planted: doubt about planted errors that were found.
        accused: doubt about all other labels that are accused.
        share: how many that is of all.
        planted_scores: of the same planted errors.
        accused_scores: of the same accused labels.

    Returns:
        None where too few were planted, or too few are accused.
    """
    if min(len(planted), len(accused)) < MIN_PLANTED:
        return None
    weight = _as_often(planted_scores, accused_scores)
    # How many times as frequent each doubt is among the accused.
    doubts = np.concatenate([planted, accused])
    is_accused = np.arange(len(doubts)) >= len(planted)
    weights = np.concatenate([weight, np.full(len(accused), 1 / len(accused))])
    fit = IsotonicRegression(y_min=1e-3, y_max=1 - 1e-3).fit(doubts, is_accused, weights)
    chosen = fit.y_thresholds_
    ratio = chosen / (1 - chosen)
    order = np.argsort(planted)
    home = planted[order][np.searchsorted(np.cumsum(weight[order]), AT_HOME)]
    usual = min(1.0, float(np.mean(accused <= home)) / AT_HOME)
    # Errors were planted on foreign images too, as many as there are of them among all images. Of
    # both kinds of density, of the planted and of the accused, the foreign part follows.
    among = (1 - usual) * share
    foreign = 1 - usual * (1 - among)
    known = foreign / max(foreign - usual * among, 1e-9)
    chance = np.clip(known * (1 - usual / ratio), 0.0, 1.0)
    return RisingChance(fit.X_thresholds_, chance)


def _as_often(planted: Numbers, accused: Numbers) -> Numbers:
    """Weights, 1 in all, by which planted errors have scores as the accused labels have."""
    edges = np.quantile(accused, np.arange(1, PARTS) / PARTS)
    part = np.searchsorted(edges, planted)
    counts = np.bincount(part, minlength=PARTS)
    weights: Numbers = 1 / counts[part]
    weights /= weights.sum()
    return weights
