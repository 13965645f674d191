"""How sure a share is that was counted on samples drawn at random."""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist

# Nineteen times in twenty the interval holds the share of all samples.
CERTAINTY = 0.95


def interval(hits: int, draws: int) -> tuple[float, float]:
    """Wilson's score interval of a share: between which values that of all samples lies.

    It stays within 0 and 1, and does not shrink to nothing where no sample or every one is a hit.

    Wilson, Probable Inference, the Law of Succession, and Statistical Inference, 1927.
    """
    if not draws:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + CERTAINTY) / 2)
    share, weight = hits / draws, z**2 / draws
    middle = (share + weight / 2) / (1 + weight)
    reach = z * sqrt(share * (1 - share) / draws + weight / (4 * draws)) / (1 + weight)
    return max(0.0, middle - reach), min(1.0, middle + reach)
