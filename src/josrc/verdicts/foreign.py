"""Images that belong to no class: how much more doubtful the accused are than planted errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression

Numbers = NDArray[np.float64]

# Fewer planted errors, or accused, say nothing.
MIN_PLANTED = 50
# The lower share of planted errors, below which hardly an image is foreign.
AT_HOME = 0.5


@dataclass(frozen=True)
class ForeignEvidence:
    """How likely an accused image is foreign, by its doubt.

    Attributes:
        doubt: some doubts, in order.
        chance: of being foreign with such a doubt; it never falls.
    """

    doubt: Numbers
    chance: Numbers

    def p_foreign(self, doubt: Numbers) -> Numbers:
        """How likely images are foreign, if their labels are wrong."""
        found: Numbers = np.interp(doubt, self.doubt, self.chance)
        return found


def foreign_evidence(planted: Numbers, accused: Numbers, share: float) -> ForeignEvidence | None:
    """What doubts of planted errors say of those of the accused.

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
    return ForeignEvidence(fit.X_thresholds_, chance)
