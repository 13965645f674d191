"""How many labels are wrong, and which: learned from errors that were planted.

A score orders the labels, but it does not say where the right ones end. Errors that were planted
do: they are known to be wrong, and show how far up a wrong label gets in this run. The number of
labels at each *level*, the share of the planted errors of any sort that look more wrong, is the sum
of three curves (``curves``): of wrong labels that happen anyhow, of those between look-alikes, and
of right ones. That is mixture proportion estimation (Blanchard, Lee and Scott, 2010) with a shape
for the part that is not known, since no level is free of right labels. Often more than one sum
fits: what is said is the mean of all that do, each by how likely it is, and the interval holds nine
tenths of them.

A network that hesitates about many images learns wrong labels of these more readily than of others,
and labels of foreign images likewise: their scores are those of planted errors on images that are
as doubtful. So labels are compared with planted errors of about the same doubt, in *strata*. Where
the network is sure of nearly all images, doubt says little, and there is one stratum of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from josrc.verdicts.curves import (
    BINS,
    EDGES,
    HIGH,
    HIGHEST,
    WIDTHS,
    CurveCounts,
    UsualCurves,
    counts_by_bin,
    likely_sums,
    mean_densities,
    smooth,
    wrong_shares,
)
from josrc.verdicts.rising_chance import Numbers

# Levels from which on right labels are counted, and this many steps below the top at least: of few
# planted errors one that happens to be right lies among all right labels.
TOPS, MIN_COUNTED = (HIGH, HIGHEST), 2
# Confidence about images at the lower quartile as a share of that at the upper one, for a network
# that hesitates about many images and for one that is sure of nearly all; and how unlikely look-
# alike errors are for the same two. Where the network hesitates, they can't be told from right
# labels. Up to the last sureness it hesitates so much that labels are looked at by doubt.
SURENESS, ANYHOW, HESITANT = (0.4, 0.9), (30.0, 1.5), 0.7
# One stratum. The slope of right labels for the same two, by which factor it differs; the level (as
# log-odds) of which the height of their line is given, that height as a logarithm, by how much
# it differs, and from how many times that on it may be any lower number. These and those below were
# chosen on halves of CIFAR-100 and CIFAR-10 with 100 epochs: clean, symmetric 2 and 20 %,
# asymmetric 20 %, by instance 30 %, with foreign images, people's labels (random 1 and 2); on both
# sets whole, with 200 epochs: symmetric 2 and 20 %, people's (random 1); on 2,000 photographs of
# look-alike classes; and on scikit-learn's digits with 0, 5 and 15 %.
SLOPES, SLOPE_SPREAD = (1.5, 2.2), 0.08
PIVOT, HEIGHT, HEIGHT_SPREAD, FAR = 2.2, -1.0, 0.5, 2.0
# The same where predictions have not seen the labels, and how unlikely look-alike errors are
# there: chosen on CIFAR-10 with clean labels, symmetric 2 and 20 % and people's (random 1 and 2),
# and on 12,000 images of CIFAR-100, clean and symmetric 5 and 20 %; with a look at people's
# aggregate and worst labels.
UNSEEN_SLOPE, UNSEEN_HEIGHT, UNSEEN_ANYHOW = 2.1, -1.2, 0.5
# Several strata: how many at most, planted errors in each at least; the slope of right labels, and
# the height of their line at the middle level, from the least doubtful images to the most.
MAX_STRATA, PER_STRATUM = 4, 20
STRATA_SLOPE, STRATA_SLOPE_SPREAD = 1.2, 0.15
DOUBTS, HEIGHTS = (0.125, 0.375, 0.625, 0.875), (-6.0, -5.0, -3.4, -2.2)
STRATA_HEIGHT_SPREAD, STRATA_FAR = 0.8, 2.0
# This many look-alike errors of all strata are added to those of each.
SHARED_ALIKE_ERRORS = 20
# How far the rate may be off because labels are not as the curves say: this share of it, but so
# much at least and at most.
RATE_ERROR_SHARE, MIN_RATE_ERROR, MAX_RATE_ERROR = 0.1, 0.003, 0.01
# Fewer planted errors of any sort say too little.
MIN_PLANTED = 20
# The share of the sums that lies inside of the interval.
INTERVAL_SHARE = 0.9


@dataclass(frozen=True)
class Looks:
    """How wrong some labels look, and how doubtful their images are, ``(N,)`` each."""

    score: Numbers
    doubt: Numbers

    def part(self, rows: NDArray[Any]) -> Looks:
        """Those of some of them."""
        return Looks(self.score[rows], self.doubt[rows])

    def __len__(self) -> int:
        return len(self.score)


@dataclass(frozen=True)
class Calibration:
    """What planted errors say of all labels.

    Attributes:
        steps: scores at which the chance to be wrong may change, in order.
        rate: estimated share of wrong labels.
        low: the interval's lower end.
        high: its upper end.
        right: density of right labels below the first step, above it, and so on,
            ``(steps + 1,)``.
        wrong: that of wrong ones.
        planted: that of planted errors of any sort.
        by_doubt: whether labels were compared with planted errors of about the same doubt.
    """

    steps: Numbers
    rate: float
    low: float
    high: float
    right: Numbers
    wrong: Numbers
    planted: Numbers
    by_doubt: bool

    def p_wrong(self, score: Numbers, more: float = 0.0) -> Numbers:
        """How likely labels are wrong, by their scores: the lower the score the likelier.

        Args:
            score: of the labels.
            more: share of further wrong labels, such as the planted ones, that are among them.
        """
        wrong = self.wrong + more * self.planted
        chance = np.minimum.accumulate(wrong / (wrong + self.right))
        found: Numbers = chance[np.searchsorted(self.steps, score)]
        return found


def calibrate(
    anyhow: Looks,
    alike: Sequence[Looks],
    others: Looks,
    confidence: Numbers,
    *,
    learned: bool = True,
) -> Calibration | None:
    """Learn from planted errors how the scores of the other labels are to be read.

    Args:
        anyhow: the planted errors of any sort; the lower a score the more wrong a label looks.
        alike: the look-alike ones; of one sort, or of two between which the labels choose.
        others: all other labels.
        confidence: how sure the network is of the images of those.
        learned: whether the network has seen the labels. What has not can't know any by heart, on
            doubtful images no more than on others.

    Returns:
        None where too few were planted to learn from.
    """
    if len(anyhow) < MIN_PLANTED:
        return None
    sure = sureness(confidence)
    strata = _strata(anyhow, alike, others, sure, learned)
    rates = np.sum([stratum.share * wrong_shares(stratum.sums) for stratum in strata], axis=0)
    rate = float(rates.mean())
    below, above = np.quantile(rates, [(1 - INTERVAL_SHARE) / 2, (1 + INTERVAL_SHARE) / 2])
    off = min(max(RATE_ERROR_SHARE * rate, MIN_RATE_ERROR), MAX_RATE_ERROR)
    interval = max(0.0, float(below) - off), min(1.0, float(above) + off)
    by_score = _of_one(*strata) if len(strata) == 1 else _of_several(strata)
    return Calibration(by_score[0], rate, *interval, *by_score[1:], by_doubt=len(strata) > 1)


def sureness(confidence: Numbers) -> float:
    """Near 1 where the network is as sure of one image as of another, and less if it hesitates.

    The confidence at the lower quartile, as a share of that at the upper one.
    """
    low, high = np.quantile(confidence, [0.25, 0.75]) + 1e-9
    return float(low / high)


@dataclass(frozen=True)
class _Stratum:
    """Labels of images of about the same doubt.

    Attributes:
        share: how many of all labels these are.
        planted: scores of the planted errors of any sort among them, in order.
        alike: density of look-alike ones in each bin of levels, ``(sorts, bins)``.
        others: scores of all other labels.
        sums: of curves that fit them.
    """

    share: float
    planted: Numbers
    alike: Numbers
    others: Numbers
    sums: Numbers

    def by_level(self) -> tuple[Numbers, Numbers]:
        """Densities of right and wrong labels between each planted error and the next.

        At the highest levels the line that right labels follow ends among all the labels that
        nobody doubts. There they are counted.
        """
        count = len(self.planted)
        level = (np.arange(count + 1) + 0.5) / (count + 1)
        there = self.alike[:, np.minimum(np.searchsorted(EDGES, level), BINS)]
        right, wrong = mean_densities(self.sums, level, there)
        first, second = np.minimum(np.searchsorted(level, TOPS), count).tolist()
        tops = [min(first, count - MIN_COUNTED), second, count, count + 1]
        for first, last in pairwise(tops):
            if first == last:
                continue
            lower = self.planted[first - 1]
            upper = self.planted[last - 1] if last <= count else np.inf
            between = np.mean((self.others > lower) & (self.others <= upper))
            found = between * (count + 1) / (last - first)
            right[first:last] = np.maximum(right[first:last], found - wrong[first:last])
        return right, wrong


def _strata(
    anyhow: Looks, alike: Sequence[Looks], others: Looks, sure: float, learned: bool
) -> list[_Stratum]:
    """Labels by the doubt about their images, each stratum with as many planted errors."""
    by_doubt = learned and sure < HESITANT
    wanted = min(MAX_STRATA, len(anyhow) // PER_STRATUM) if by_doubt else 1
    # Images that are all as doubtful have no quartiles.
    bounds = np.unique(np.quantile(anyhow.doubt, np.arange(1, wanted) / wanted))
    bounds = bounds[(bounds > anyhow.doubt.min()) & (bounds < anyhow.doubt.max())]
    number = len(bounds) + 1
    parts = [
        [looks.part(np.searchsorted(bounds, looks.doubt) == k) for looks in (anyhow, others)]
        for k in range(number)
    ]
    densities = np.stack([_alike_densities(sort, bounds, [a for a, _ in parts]) for sort in alike])
    strata = []
    for k, (known, rest) in enumerate(parts):
        usual = _usual_curves((k + 0.5) / number, number, sure, learned)
        binned = counts_by_bin(rest.score, np.quantile(known.score, EDGES))
        counts = CurveCounts(binned, len(rest), len(known), densities[:, k], usual)
        sums = likely_sums(counts, seed=k)
        share = len(rest) / len(others)
        strata.append(_Stratum(share, np.sort(known.score), densities[:, k], rest.score, sums))
    return strata


def _usual_curves(doubt: float, strata: int, sure: float, learned: bool) -> UsualCurves:
    """What is likely in a stratum of so doubtful images, of that many strata."""
    if not learned:
        line = UNSEEN_SLOPE, SLOPE_SPREAD, PIVOT, UNSEEN_HEIGHT, HEIGHT_SPREAD, FAR
        return UsualCurves(*line, UNSEEN_ANYHOW)
    power = float(np.interp(sure, SURENESS, ANYHOW))
    if strata == 1:
        slope = float(np.interp(sure, SURENESS, SLOPES))
        return UsualCurves(slope, SLOPE_SPREAD, PIVOT, HEIGHT, HEIGHT_SPREAD, FAR, power)
    height = float(np.interp(doubt, DOUBTS, HEIGHTS))
    line = STRATA_SLOPE, STRATA_SLOPE_SPREAD, 0.0, height, STRATA_HEIGHT_SPREAD, STRATA_FAR
    return UsualCurves(*line, power)


def _alike_densities(alike: Looks, bounds: Numbers, anyhow: Sequence[Looks]) -> Numbers:
    """Of look-alike errors in each stratum and bin of levels, ``(strata, bins)``."""
    parts = [alike.part(np.searchsorted(bounds, alike.doubt) == k) for k in range(len(anyhow))]
    levels = [np.quantile(known.score, EDGES) for known in anyhow]
    counts = [counts_by_bin(*both) for both in zip((p.score for p in parts), levels, strict=True)]
    if len(parts) == 1:
        return smooth(counts[0] / max(len(alike), 1))[None] / WIDTHS
    shared = (np.sum(counts, axis=0) + SHARED_ALIKE_ERRORS * WIDTHS) / (
        len(alike) + SHARED_ALIKE_ERRORS
    )
    shares = [
        (count + SHARED_ALIKE_ERRORS * shared) / (len(part) + SHARED_ALIKE_ERRORS)
        for count, part in zip(counts, parts, strict=True)
    ]
    return np.stack([smooth(some) for some in shares]) / WIDTHS


# Scores in order, and densities of right and wrong labels and planted errors below, between and
# above them.
_ByScore = tuple[Numbers, Numbers, Numbers, Numbers]


def _of_one(stratum: _Stratum) -> _ByScore:
    """What is known by level is known by score."""
    right, wrong = stratum.by_level()
    return stratum.planted, right, wrong, np.ones(len(right))


def _of_several(strata: Sequence[_Stratum]) -> _ByScore:
    """The labels of all strata in one order.

    Where labels of several strata meet, neighbours are joined until those of lower scores are the
    likelier wrong.
    """
    from sklearn.isotonic import isotonic_regression

    chances = []
    for stratum in strata:
        right, wrong = stratum.by_level()
        chance = np.minimum.accumulate(wrong / (wrong + right))
        chances.append(chance[np.searchsorted(stratum.planted, stratum.others)])
    scores = np.concatenate([stratum.others for stratum in strata])
    order = np.argsort(scores, kind="stable")
    scores, chance = scores[order], np.concatenate(chances)[order]
    joined = np.unique(-isotonic_regression(chance, increasing=False), return_inverse=True)[1]
    steps = scores[1:][np.diff(joined) > 0]
    total, wrong = np.bincount(joined) / len(scores), np.bincount(joined, chance) / len(scores)
    planted = np.concatenate([stratum.planted for stratum in strata])
    known = np.bincount(np.searchsorted(steps, planted), minlength=len(total)) / len(planted)
    return steps, total - wrong, wrong, known
