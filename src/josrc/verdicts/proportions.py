"""How sure a share is that was counted among a few."""

from __future__ import annotations


def wilson_interval(hits: int, draws: int, confidence: float = 0.95) -> tuple[float, float]:
    """Between which values the share of all samples lies, by default nineteen times in twenty.

    Args:
        hits: how many of the samples drawn at random were found to be so.
        draws: how many were drawn.
        confidence: how often the interval holds the share.
    """
    from scipy.stats import binomtest

    if not draws:
        return 0.0, 1.0
    found = binomtest(hits, draws).proportion_ci(confidence_level=confidence, method="wilson")
    return float(found.low), float(found.high)
