"""How many labels are wrong, and which: learned from errors that were planted.

A score orders the labels, but it does not say where the right ones end. Errors that were planted
do: they are known to be wrong, and show how far up a wrong label gets in this run. A label's
*level* is the share of the planted errors of any sort that look more wrong than it does. Wrong
labels are spread over the levels as planted errors are: those that happen anyhow evenly, and those
between look-alikes, as people make them, as the planted look-alike ones are. Right labels are rare
at low levels and become more frequent ever faster, on logarithmic scales along a line: a steep one
where the network is sure of nearly all images, a flatter one where it hesitates about many. So the
number of labels at each level is the sum of three curves, and how much there is of each can be
told, more or less surely. That is mixture proportion estimation (Blanchard, Lee and Scott, 2010)
with a shape for the part that is not known, since no level is free of right labels. Often more than
one sum fits: what is said is the mean of all that do, each by how likely it is, and the interval
holds nine tenths of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import expit, log_expit, logit

from josrc.verdicts.rising_chance import Numbers

# Levels up to which labels are counted, in so many bins, and one more above them.
BINS, HIGH, HIGHEST = 20, 0.95, 0.98
# Levels from which on right labels are counted.
TOPS = (HIGH, HIGHEST)
# Points at which a bin's curves are taken.
POINTS = 4
# Right labels: the level (as log-odds) of which the height of their line is told, that height as a
# logarithm, by how much it differs, and from how many times that on it may be any lower number.
# Their slope where the network hesitates about many images and where it is sure of nearly all, as
# by the confidence about images at the lower quartile as a share of that at the upper one; and by
# which factor it differs. Chosen on halves of CIFAR-100 and CIFAR-10 with 100 epochs: clean,
# symmetric 2 and 20 %, asymmetric 20 %, by instance 30 %, with foreign images, people's labels
# (random 1 and 2); on both sets whole, with 200 epochs: symmetric 2 and 20 %, people's (random 1);
# on 2,000 photographs of look-alike classes; and on scikit-learn's digits with 0, 5 and 15 %.
PIVOT, HEIGHT, HEIGHT_SPREAD, FAR = 2.2, -1.0, 0.5, 2.0
SURENESS, SLOPES = (0.4, 0.9), (1.5, 2.2)
SLOPE_SPREAD = 0.08
# How unlikely it is that all wrong labels are look-alike ones: a power of the share that is not,
# for the same two. Where the network hesitates, look-alike errors can't be told from right labels.
ANYHOW = (30.0, 1.5)
# How far the rate may be off because labels are not as the curves say: this share of it, but so
# much at least and at most.
OFF, MIN_OFF, MAX_OFF = 0.1, 0.003, 0.01
# Fewer planted errors of any sort say too little.
MIN_PLANTED = 20
# The share of the sums that lies inside of the interval.
INSIDE = 0.9
# How the sums that fit are found: so many of the first tries go on, so many steps each, the last of
# which count.
TRIES, WALKERS, STEPS, COUNTED = 4000, 200, 240, 120
# Of a sum: height and logarithm of the slope of right labels, logits of the share of wrong ones and
# of look-alike ones among them.
LOWEST, TOP = np.array([-12.0, -1.0, -9.0, -7.0]), np.array([3.0, 2.1, 3.0, 7.0])


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
    sure = sureness(confidence)
    usual = _Usual(*(float(np.interp(sure, SURENESS, by)) for by in (SLOPES, ANYHOW)))
    known = np.sort(anyhow)
    edges = np.quantile(anyhow, EDGES)
    density = _smooth(_counts(alike, edges) / max(len(alike), 1)) / WIDTHS
    curves = _likely(_Labels(_counts(others, edges), len(others), len(anyhow), density, usual))
    rates = expit(curves[:, 2])
    rate = float(rates.mean())
    below, above = np.quantile(rates, [(1 - INSIDE) / 2, (1 + INSIDE) / 2])
    off = min(max(OFF * rate, MIN_OFF), MAX_OFF)
    interval = max(0.0, float(below) - off), min(1.0, float(above) + off)
    return Calibration(known, rate, *interval, *_by_level(curves, density, known, others))


def sureness(confidence: Numbers) -> float:
    """Near 1 where the network is as sure of one image as of another, and less if it hesitates.

    The confidence at the lower quartile, as a share of that at the upper one.
    """
    low, high = np.quantile(confidence, [0.25, 0.75]) + 1e-9
    return float(low / high)


@dataclass(frozen=True)
class _Usual:
    """What is likely in a run: the slope of right labels, and the power of errors of any sort."""

    slope: float
    anyhow: float


@dataclass(frozen=True)
class _Labels:
    """What the curves must add up to.

    Attributes:
        counts: labels in each bin of levels.
        total: all labels.
        planted: planted errors of any sort.
        alike: density of planted look-alike errors in each bin.
        usual: what is likely whatever they are.
    """

    counts: Numbers
    total: int
    planted: int
    alike: Numbers
    usual: _Usual

    def likelihood(self, curves: Numbers) -> Numbers:
        """Logarithm of how likely sums of curves are, ``(sums, 4)``, but for a constant."""
        right, wrong = _densities(curves, LEVELS.ravel(), np.repeat(self.alike, POINTS))
        there = (right + wrong).reshape(len(curves), -1, POINTS).mean(axis=2)
        expected = self.total * WIDTHS * there + 1e-9
        # A bin holds so many planted errors, give or take their square root: its own share is as
        # uncertain as a count of them, which makes the counts of the others negative binomial.
        sure = self.planted * WIDTHS
        fits = self.counts * np.log(expected / (expected + sure)) + sure * np.log(
            sure / (expected + sure)
        )
        height = (curves[:, 0] - HEIGHT) / HEIGHT_SPREAD
        slope = (curves[:, 1] - np.log(self.usual.slope)) / SLOPE_SPREAD
        # Where no right label gets as far down as planted errors, the line may lie far below.
        far = np.maximum(0.0, -height - FAR)
        unlikely = (height + far) ** 2 + FAR * np.log1p(far**2) + slope**2
        # All shares of look-alike errors are as likely, but for the power of those of any sort.
        kind = log_expit(curves[:, 3]) + (1 + self.usual.anyhow) * log_expit(-curves[:, 3])
        possible = ((curves >= LOWEST) & (curves <= TOP)).all(axis=1)
        found: Numbers = np.where(possible, fits.sum(axis=1) - unlikely / 2 + kind, -np.inf)
        return found


def _likely(labels: _Labels) -> Numbers:
    """Sums of curves, as often as they are likely, ``(sums, 4)``.

    Walkers that step along the lines between them (Goodman and Weare, Ensemble samplers with affine
    invariance, 2010) find their way where shares and slopes make up for each other.
    """
    generator = np.random.default_rng(0)
    tries = np.column_stack(
        [
            HEIGHT
            + HEIGHT_SPREAD * np.where(np.arange(TRIES) % 4, 1, 8) * generator.normal(size=TRIES),
            np.log(labels.usual.slope) + SLOPE_SPREAD * generator.normal(size=TRIES),
            generator.uniform(-8.0, 1.5, TRIES),
            generator.uniform(-5.0, 3.0, TRIES),
        ]
    )
    chance = labels.likelihood(tries)
    # Somewhat better tries are not taken for the only ones: the walkers have time to find out.
    weight = np.exp((chance - chance.max()) / 10)
    walkers = tries[generator.choice(TRIES, WALKERS, p=weight / weight.sum())]
    walkers += generator.normal(0, 1e-3, walkers.shape)
    chance, half, found = labels.likelihood(walkers), WALKERS // 2, []
    for step in range(STEPS):
        for moving, standing in (
            (slice(half), slice(half, None)),
            (slice(half, None), slice(half)),
        ):
            stretch = (1 + generator.random(half)) ** 2 / 2
            other = walkers[standing][generator.integers(half, size=half)]
            there = other + stretch[:, None] * (walkers[moving] - other)
            new = labels.likelihood(there)
            gain = (walkers.shape[1] - 1) * np.log(stretch) + new - chance[moving]
            goes = np.log(generator.random(half)) < gain
            walkers[moving] = np.where(goes[:, None], there, walkers[moving])
            chance[moving] = np.where(goes, new, chance[moving])
        if step >= STEPS - COUNTED and step % 5 == 0:
            found.append(walkers.copy())
    return np.concatenate(found)


def _by_level(
    curves: Numbers, alike: Numbers, planted: Numbers, others: Numbers
) -> tuple[Numbers, Numbers]:
    """Densities of right and wrong labels between each planted error and the next.

    At the highest levels the line that right labels follow ends among all the labels that nobody
    doubts. There they are counted.
    """
    count = len(planted)
    level = (np.arange(count + 1) + 0.5) / (count + 1)
    there = alike[np.minimum(np.searchsorted(EDGES, level), BINS)]
    # Of a part of the sums at a time: many planted errors have as many levels.
    parts = np.array_split(curves, len(curves) // WALKERS)
    means = [np.mean(_densities(some, level, there), axis=1) for some in parts]
    right, wrong = np.average(means, axis=0, weights=[len(some) for some in parts])
    tops = [*np.minimum(np.searchsorted(level, TOPS), count).tolist(), count, count + 1]
    for first, last in pairwise(tops):
        if first == last:
            continue
        lower, upper = planted[first - 1], planted[last - 1] if last <= count else np.inf
        found = np.mean((others > lower) & (others <= upper)) * (count + 1) / (last - first)
        right[first:last] = np.maximum(right[first:last], found - wrong[first:last])
    return right, wrong


EDGES = np.append(np.linspace(0, HIGH, BINS + 1)[1:], HIGHEST)
WIDTHS = np.diff(EDGES, prepend=0)
LEVELS = (EDGES - WIDTHS)[:, None] + WIDTHS[:, None] * (np.arange(POINTS) + 0.5) / POINTS


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
    """Of right labels and of wrong ones, ``(sums, levels)``.

    Args:
        curves: sums of curves, ``(sums, 4)``.
        level: between 0 and 1.
        alike: density of look-alike errors at each.
    """
    height, slope, share, kind = curves.T[:, :, None]
    right = np.exp(height + np.exp(slope) * (logit(np.clip(level, 1e-3, 1 - 1e-3)) - PIVOT))
    wrong = expit(share) * (1 + expit(kind) * (alike - 1))
    return right, wrong
