"""Images that belong to no class: how much more doubtful the accused are than planted errors."""

from __future__ import annotations

import numpy as np

from josrc.verdicts.calibration import Looks
from josrc.verdicts.rising_chance import Numbers, RisingChance

# Fewer planted errors, or accused, say nothing.
MIN_PLANTED = 50
# The lower share of planted errors, below which hardly an image is foreign; and the same where they
# do not count by score.
HOME_QUANTILE, HOME_QUANTILE_BY_DOUBT = 0.5, 0.35
# Parts of the accused, by score, within which they are compared with planted errors.
SCORE_PARTS = 8


def foreign_evidence(
    planted: Looks, accused: Looks, share: float, *, by_score: bool
) -> RisingChance | None:
    """How likely an image whose label is wrong is foreign, by the doubt about it.

    Planted errors are wrong labels of images like all others. If the accused were no more than
    that, their doubts would be alike. Where they are not, the surplus at high doubt is foreign.
    Labels that look less wrong are of more doubtful images, and people's errors may look less wrong
    than planted ones: then planted errors count as often as there are accused labels of such
    scores.

    Args:
        planted: planted errors that were found, with the log-odds of doubt.
        accused: all other labels that are accused.
        share: how many that is of all.
        by_score: whether planted errors count by their scores.

    Returns:
        None where too few were planted, or too few are accused.
    """
    from sklearn.isotonic import IsotonicRegression

    if min(len(planted), len(accused)) < MIN_PLANTED:
        return None
    if by_score:
        weight, at_home = _as_often(planted.score, accused.score), HOME_QUANTILE
    else:
        weight, at_home = np.full(len(planted), 1 / len(planted)), HOME_QUANTILE_BY_DOUBT
    # How many times as frequent each doubt is among the accused.
    doubts = np.concatenate([planted.doubt, accused.doubt])
    is_accused = np.arange(len(doubts)) >= len(planted)
    weights = np.concatenate([weight, np.full(len(accused), 1 / len(accused))])
    fit = IsotonicRegression(y_min=1e-3, y_max=1 - 1e-3).fit(doubts, is_accused, weights)
    chosen = fit.y_thresholds_
    ratio = chosen / (1 - chosen)
    order = np.argsort(planted.doubt)
    home = planted.doubt[order][np.searchsorted(np.cumsum(weight[order]), at_home)]
    usual = min(1.0, float(np.mean(accused.doubt <= home)) / at_home)
    # Errors were planted on foreign images too, as many as there are of them among all images. Of
    # both kinds of density, of the planted and of the accused, the foreign part follows.
    among = (1 - usual) * share
    foreign = 1 - usual * (1 - among)
    known = foreign / max(foreign - usual * among, 1e-9)
    chance = np.clip(known * (1 - usual / ratio), 0.0, 1.0)
    return RisingChance(fit.X_thresholds_, chance)


def _as_often(planted: Numbers, accused: Numbers) -> Numbers:
    """Weights, 1 in all, by which planted errors have scores as the accused labels have."""
    edges = np.quantile(accused, np.arange(1, SCORE_PARTS) / SCORE_PARTS)
    part = np.searchsorted(edges, planted)
    counts = np.bincount(part, minlength=SCORE_PARTS)
    weights: Numbers = 1 / counts[part]
    weights /= weights.sum()
    return weights
