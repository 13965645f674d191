"""How often a suggested label is right: counted among planted errors, whose own label is known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from josrc.verdicts.rising_chance import Numbers, RisingChance

# Fewer planted errors that were found say too little.
MIN_FOUND = 30
# Suggestions of which every one was right, and as many that were wrong, are taken as given at both
# ends: nothing that was counted is certain.
ASSUMED_ERRORS = 1


def suggestion_evidence(
    hold: Numbers, right: NDArray[np.bool_], rate: float
) -> RisingChance | None:
    """How likely a suggestion is right if the label is wrong, by its hold on the sample.

    Args:
        hold: of the suggestions on those that were found.
        right: whether the suggestion was the label that the sample came with.
        rate: share of the labels that were wrong before: there a suggestion that is right is
            counted as wrong.

    Returns:
        None where too few were found.
    """
    from sklearn.isotonic import IsotonicRegression

    if len(hold) < MIN_FOUND:
        return None
    ends = np.repeat([0.0, 1.0], ASSUMED_ERRORS)
    known, values = np.concatenate([hold, 1 - ends]), np.concatenate([right.astype(float), ends])
    fit = IsotonicRegression(y_min=0.0, y_max=1.0).fit(known, values)
    points = np.unique(known)
    return RisingChance(points, np.minimum(1.0, fit.predict(points) / max(1 - rate, 0.5)))
