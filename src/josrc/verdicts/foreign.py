"""Images that belong to no class: how much more doubtful the accused are than planted errors."""

from __future__ import annotations

import numpy as np
from sklearn.isotonic import IsotonicRegression

from josrc.verdicts.rising_chance import Numbers, RisingChance

# Fewer planted errors, or accused, say nothing.
MIN_PLANTED = 50
# The lower share of planted errors, below which hardly an image is foreign.
AT_HOME = 0.5


def foreign_evidence(planted: Numbers, accused: Numbers, share: float) -> RisingChance | None:
    """How likely an image whose label is wrong is foreign, by the doubt about it.

    Planted errors are wrong labels of images like all others. If the accused were no more than
    that, their doubts would be alike. Where they are not, the surplus at high doubt is foreign.

    Args:
        planted: doubt about planted errors that were found.
        accused: doubt about all other labels that are accused.
        share: how many that is of all.

    Returns:
        None where too few were planted, or too few are accused.
    """
    if min(len(planted), len(accused)) < MIN_PLANTED:
        return None
    # How many times as frequent each doubt is among the accused.
    doubts = np.concatenate([planted, accused])
    is_accused = np.arange(len(doubts)) >= len(planted)
    weight = np.where(is_accused, 1 / len(accused), 1 / len(planted))
    fit = IsotonicRegression(y_min=1e-3, y_max=1 - 1e-3).fit(doubts, is_accused, weight)
    chosen = fit.y_thresholds_
    ratio = chosen / (1 - chosen)
    usual = float(np.mean(accused <= np.quantile(planted, AT_HOME)) / AT_HOME)
    # Errors were planted on foreign images too, as many as there are of them among all images. Of
    # both kinds of density, of the planted and of the accused, the foreign part follows.
    among = max(0.0, 1 - usual) * share
    foreign = 1 - usual * (1 - among)
    known = foreign / max(foreign - usual * among, 1e-9)
    chance = np.clip(known * (1 - usual / ratio), 0.0, 1.0)
    return RisingChance(fit.X_thresholds_, chance)
