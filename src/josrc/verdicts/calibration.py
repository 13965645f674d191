"""How many labels are wrong, and which: learned from errors that were planted.

A score orders the labels, but it does not say where the right ones end. Errors that were planted
do: they are known to be wrong, and show how far up a wrong label gets in this run. A label's
*level* is the share of the planted errors of any sort that look more wrong than it does. Wrong
labels are spread over the levels as planted errors are: those that happen anyhow evenly, and those
between look-alikes, as people make them, as the planted look-alike ones are. Right labels are rare
at low levels and become more frequent ever faster, on logarithmic scales along a line: a steep one
where the network is sure of nearly all images, a flatter one where it hesitates about many. So the
number of labels at each level is the sum of three curves, and how much there is of each can be
told. That is mixture proportion estimation (Blanchard, Lee and Scott, 2010) with a shape for the
part that is not known, since no level is free of right labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logit

Numbers = NDArray[np.float64]

# Levels up to which labels are counted, in so many bins, and one more above them.
BINS, HIGH, HIGHEST = 20, 0.95, 0.98
# Levels from which on right labels are counted.
TOPS = (HIGH, HIGHEST)
# Points at which a bin's curves are taken.
POINTS = 8
# Right labels: the level (as log-odds) of which the height of their line is told, that height as a
# logarithm, by how much it differs, and from how many times that on it may be any lower number.
# Their slope where the network hesitates about many images and where it is sure of nearly all, as
# by the confidence about images at the lower quartile as a share of that at the upper one; and by
# which factor it differs. Chosen on halves of CIFAR-100 and CIFAR-10 with 100 epochs: clean,
# symmetric 2 and 20 %, asymmetric 20 %, by instance 30 %, with foreign images, people's labels
# (random 1 and 2); on both sets whole, with 200 epochs: symmetric 2 and 20 %, people's (random 1);
# and on scikit-learn's digits with 0, 5 and 15 %.
PIVOT, HEIGHT, HEIGHT_SPREAD, FAR = 2.2, -1.0, 0.3, 2.0
SURENESS, SLOPES = (0.4, 0.9), (1.5, 2.2)
SLOPE_SPREAD = 0.08
# How unlikely it is that all wrong labels are look-alike ones: a power of the share that is not,
# for the same two. Where the network hesitates, look-alike errors can't be told from right labels.
ANYHOW = (30.0, 3.0)
# How far the rate may be off because labels are not as the curves say: this share of it, and no
# more than so much.
OFF, MAX_OFF = 0.15, 0.025
# Fewer planted errors of any sort say too little.
MIN_PLANTED = 20
# Draws behind the interval, and the share of them that lies inside of it.
DRAWS, INSIDE = 100, 0.9
# Of a fit: height and slope of right labels, logits of the share of wrong ones and of look-alike
# ones among them.
BOUNDS = [(-12.0, 3.0), (0.5, 8.0), (-9.0, 3.0), (-6.0, 6.0)]


@dataclass(frozen=True)
class Calibration:
    """What planted errors say of all labels.

    Attributes:
        planted: scores of the planted errors of any sort, in order.
        rate: estimated share of wrong labels.
        low: the interval's lower end.
        high: its upper end.
        right: density of right labels below all planted errors, above one of them, and so on up to
            above all of them, ``(planted + 1,)``.
        wrong: that of wrong ones.
    """

    planted: Numbers
    rate: float
    low: float
    high: float
    right: Numbers
    wrong: Numbers

    def p_wrong(self, score: Numbers, more: float = 0.0) -> Numbers:
        """How likely labels are wrong, by their scores: the lower the score the likelier.

        Args:
            score: of the labels.
            more: share of further wrong labels, such as the planted ones, that are among them.
        """
        wrong = self.wrong + more
        chance = np.minimum.accumulate(wrong / (wrong + self.right))
        found: Numbers = chance[np.searchsorted(self.planted, score)]
        return found


def calibrate(
    anyhow: Numbers, alike: Numbers, others: Numbers, confidence: Numbers
) -> Calibration | None:
    """Learn from planted errors how the scores of the other labels are to be read.

    Args:
        anyhow: scores of the planted errors of any sort, the lower the more wrong they look.
        alike: those of look-alike ones.
        others: those of all other labels.
        confidence: how sure the network is of the images of those.

    Returns:
        None where too few were planted to learn from.
    """
    if len(anyhow) < MIN_PLANTED:
        return None
    low, high = np.quantile(confidence, [0.25, 0.75]) + 1e-9
    usual = _Usual(*(float(np.interp(low / high, SURENESS, by)) for by in (SLOPES, ANYHOW)))
    starts = [
        np.array([height, usual.slope, share, kind])
        for height in (HEIGHT, HEIGHT - 4)
        for share in (-6.0, -3.0, -1.0)
        for kind in (-3.0, 0.0)
    ]
    fit = _fit(anyhow, alike, others, usual, starts)
    # Which errors were planted is chance, and so is which of them look how wrong.
    generator = np.random.default_rng(0)

    def again(values: Numbers) -> Numbers:
        return generator.choice(values, len(values)) if len(values) else values

    rates = [
        _fit(again(anyhow), again(alike), again(others), usual, [fit.curves]).rate
        for _ in range(DRAWS)
    ]
    below, above = np.quantile(rates, [(1 - INSIDE) / 2, (1 + INSIDE) / 2])
    off = min(OFF * fit.rate, MAX_OFF)
    interval = max(0.0, min(below, fit.rate) - off), min(1.0, max(above, fit.rate) + off)
    known = np.sort(anyhow)
    return Calibration(
        known, fit.rate, float(interval[0]), float(interval[1]), *_by_level(fit, known, others)
    )


@dataclass(frozen=True)
class _Usual:
    """What is likely in a run: the slope of right labels, and the power of errors of any sort."""

    slope: float
    anyhow: float


@dataclass(frozen=True)
class _Fit:
    """What the labels at each level consist of.

    Attributes:
        curves: height and slope of right labels, logits of the share of wrong ones and of the
            look-alike ones among them.
        alike: density of look-alike errors in each bin of levels.
    """

    curves: Numbers
    alike: Numbers

    @property
    def rate(self) -> float:
        return float(expit(self.curves[2]))

    def densities(self, level: Numbers) -> tuple[Numbers, Numbers]:
        """Of right labels and of wrong ones, at levels between 0 and 1."""
        alike = self.alike[np.minimum(np.searchsorted(EDGES, level), BINS)]
        return _densities(self.curves, level, alike)


def _by_level(fit: _Fit, planted: Numbers, others: Numbers) -> tuple[Numbers, Numbers]:
    """Densities of right and wrong labels between each planted error and the next.

    At the highest levels the line that right labels follow ends among all the labels that nobody
    doubts. There they are counted.
    """
    count = len(planted)
    level = (np.arange(count + 1) + 0.5) / (count + 1)
    right, wrong = fit.densities(level)
    tops = [*np.minimum(np.searchsorted(level, TOPS), count).tolist(), count, count + 1]
    for first, last in pairwise(tops):
        if first == last:
            continue
        lower, upper = planted[first - 1], planted[last - 1] if last <= count else np.inf
        there = np.mean((others > lower) & (others <= upper)) * (count + 1) / (last - first)
        right[first:last] = np.maximum(right[first:last], there - wrong[first:last])
    return right, wrong


EDGES = np.append(np.linspace(0, HIGH, BINS + 1)[1:], HIGHEST)
WIDTHS = np.diff(EDGES, prepend=0)
LEVELS = (EDGES - WIDTHS)[:, None] + WIDTHS[:, None] * (np.arange(POINTS) + 0.5) / POINTS


def _fit(
    anyhow: Numbers, alike: Numbers, others: Numbers, usual: _Usual, starts: Sequence[Numbers]
) -> _Fit:
    """The curves that make up the labels that there are at each level."""
    edges = np.quantile(anyhow, EDGES)
    counts = _counts(others, edges)
    density = _smooth(_counts(alike, edges) / max(len(alike), 1)) / WIDTHS
    # A bin holds so many planted errors, give or take their square root: its own share is as
    # uncertain as a count of them, which makes the counts of the others negative binomial.
    sure = len(anyhow) * WIDTHS

    def misfit(curves: Numbers) -> float:
        right, wrong = _densities(curves, LEVELS, density[:, None])
        expected = len(others) * WIDTHS * (right + wrong).mean(axis=1) + 1e-9
        fits = counts * np.log(expected / (expected + sure)) + sure * np.log(
            sure / (expected + sure)
        )
        height = (curves[0] - HEIGHT) / HEIGHT_SPREAD
        slope = np.log(curves[1] / usual.slope) / SLOPE_SPREAD
        # Where no right label gets as far down as planted errors, the line may lie far below.
        far = max(0.0, -height - FAR)
        unlikely = (height + far) ** 2 + FAR * np.log1p(far**2)
        return float((unlikely + slope**2) / 2 - usual.anyhow * log_expit(-curves[3]) - fits.sum())

    fits = [minimize(misfit, start, method="L-BFGS-B", bounds=BOUNDS) for start in starts]
    return _Fit(min(fits, key=lambda fit: float(fit.fun)).x, density)


def _counts(scores: Numbers, edges: Numbers) -> Numbers:
    """How many there are between two edges each, and below the first."""
    counts = np.bincount(np.searchsorted(edges, scores), minlength=len(edges) + 1)
    return counts[:-1].astype(np.float64)


def _smooth(shares: Numbers) -> Numbers:
    """Shares per bin with half of each neighbour's, which are about as wide but for the last."""
    padded = np.pad(shares[:-1], 1, mode="edge")
    inner = (padded[:-2] + 2 * padded[1:-1] + padded[2:]) / 4
    return np.append(inner, shares[-1])


def _densities(curves: Numbers, level: Numbers, alike: Numbers) -> tuple[Numbers, Numbers]:
    """Of right labels and of wrong ones, at levels with such a density of look-alike errors."""
    height, slope, share, kind = curves
    right = np.exp(height + slope * (logit(np.clip(level, 1e-3, 1 - 1e-3)) - PIVOT))
    wrong = expit(share) * (1 + expit(kind) * (alike - 1))
    return right, wrong
