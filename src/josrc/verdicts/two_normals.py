"""Two heaps of numbers, each a normal distribution: where does one end and the other begin?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

Numbers = NDArray[np.float64]

BINS = 512
MAX_ROUNDS = 300
# The ends of a vector, where single odd values lie, are counted with the bins beside them.
END_SHARE = 0.0005
# No heap is narrower than this share of the spread of all: a few equal values are not a heap.
MIN_SPREAD = 0.02
# Least rise of the log-odds over a standard deviation of the heaps.
MIN_SLOPE = 0.1
# Highest log-odds: a chance in 22,000 to be wrong is left.
MAX_LOG_ODDS = 10.0


@dataclass(frozen=True)
class TwoNormals:
    """A lower and an upper normal distribution.

    Attributes:
        share: of the numbers that each holds, ``(2,)``.
        mean: ``(2,)``.
        std: ``(2,)``.
    """

    share: Numbers
    mean: Numbers
    std: Numbers

    def log_odds(self, values: NDArray[np.floating]) -> Numbers:
        """Logarithm of the odds that each value is of the upper one; it rises with the value.

        Of two normals the wider one wins on both sides, far enough out. That a very high value
        should speak for the lower heap is an artefact: everywhere the odds rise by ``MIN_SLOPE`` at
        least, counted from the middle between the heaps. Nor are the tails of a normal to be taken
        at their word: the odds come near ``MAX_LOG_ODDS`` and never exceed it.
        """
        middle = self.mean.mean()
        low = min(float(np.min(values, initial=middle)), middle)
        high = max(float(np.max(values, initial=middle)), middle)
        below, above = np.linspace(low, middle, BINS + 1), np.linspace(middle, high, BINS + 1)
        grid = np.concatenate([below, above[1:]])
        least = MIN_SLOPE * np.diff(grid) / np.sqrt(np.sum(self.share * self.std**2))
        rise = np.concatenate([[0.0], np.cumsum(np.maximum(np.diff(_log_odds(grid, self)), least))])
        odds = rise - rise[BINS] + _log_odds(grid[BINS : BINS + 1], self)
        found: Numbers = np.interp(values, grid, odds)
        return found / np.sqrt(1 + (found / MAX_LOG_ODDS) ** 2)


def log_odds_of(chance: NDArray[np.floating]) -> Numbers:
    """Log-odds of probabilities, which are taken to be no nearer to 0 or 1 than a millionth."""
    odds: Numbers = logit(np.clip(chance.astype(np.float64), 1e-6, 1 - 1e-6))
    return odds


def fit_two_normals(values: NDArray[np.floating]) -> TwoNormals:
    """The mixture of two normals that fits best, by expectation maximisation.

    It works on a histogram, so that a million values cost no more than a thousand, and begins with
    the split of Otsu, so that it has no random part.
    """
    low, high = np.quantile(values, [END_SHARE, 1 - END_SHARE])
    counts, edges = np.histogram(np.clip(values, low, high), BINS)
    weight, centre = counts / counts.sum(), (edges[1:] + edges[:-1]) / 2
    narrowest = MIN_SPREAD * np.sqrt(np.sum(weight * (centre - np.sum(weight * centre)) ** 2))
    narrowest = max(narrowest, edges[1] - edges[0], 1e-9)
    upper = (np.arange(BINS) > _otsu(weight, centre)).astype(float)
    for _ in range(MAX_ROUNDS):
        fit = _moments(weight, centre, upper, narrowest)
        upper = expit(_log_odds(centre, fit))
    return fit


def _moments(weight: Numbers, centre: Numbers, upper: Numbers, narrowest: float) -> TwoNormals:
    belongs = np.stack([1 - upper, upper]) * weight
    share = belongs.sum(axis=1) + 1e-12
    mean = belongs @ centre / share
    variance = (belongs * (centre - mean[:, None]) ** 2).sum(axis=1) / share
    return TwoNormals(share, mean, np.maximum(np.sqrt(variance), narrowest))


def _log_odds(values: Numbers, fit: TwoNormals) -> Numbers:
    scaled = (values[:, None] - fit.mean) / fit.std
    lower, upper = (np.log(fit.share / fit.std) - scaled**2 / 2).T
    odds: Numbers = upper - lower
    return odds


def _otsu(weight: Numbers, centre: Numbers) -> int:
    """Last bin of the lower part in the split with the most variance between both parts."""
    below = np.cumsum(weight)[:-1]
    gap = np.sum(weight * centre) * below - np.cumsum(weight * centre)[:-1]
    return int(np.argmax(gap**2 / np.maximum(below * (1 - below), 1e-12)))
