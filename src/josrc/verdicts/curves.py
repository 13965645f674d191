"""Three curves that the number of labels at each level must add up to, and how much of each fits.

A label's *level* is the share of the planted errors of any sort that look more wrong than it does.
Wrong labels that happen anyhow are spread evenly over the levels, those between look-alikes as the
planted look-alike ones are; where there are two sorts of these, as something between both. Right
labels follow a line on logarithmic scales: rare at low levels, and ever more frequent above. Often
more than one sum fits; all that do are found, as often as they are likely.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit, logit

from josrc.verdicts.rising_chance import Numbers

# Levels up to which labels are counted, in this many bins, and one more above them.
BINS, HIGH, HIGHEST = 20, 0.95, 0.98
# Points at which a bin's curves are taken.
POINTS = 4
EDGES = np.append(np.linspace(0, HIGH, BINS + 1)[1:], HIGHEST)
WIDTHS = np.diff(EDGES, prepend=0)
LEVELS = (EDGES - WIDTHS)[:, None] + WIDTHS[:, None] * (np.arange(POINTS) + 0.5) / POINTS
# How the sums that fit are found: this many of the first tries go on, this many steps each, the
# last of which count.
TRIES, WALKERS, STEPS, COUNTED_STEPS = 4000, 200, 240, 120
# Of a sum: height of right labels at the middle level and logarithm of their slope, logits of the
# share of wrong ones, of look-alike ones among them, and, where these are of two sorts, of the
# second sort among them.
LOWEST_PARAMETERS, HIGHEST_PARAMETERS = (
    np.array([-17.0, -1.0, -9.0, -7.0, -7.0]),
    np.array([3.0, 2.1, 6.0, 7.0, 7.0]),
)


@dataclass(frozen=True)
class UsualCurves:
    """What is likely in a run, whatever its labels are.

    Attributes:
        slope: of the line of right labels.
        slope_spread: by which factor it differs, as a logarithm.
        pivot: the level, as log-odds, of which the height is given.
        height: of the line there, as a logarithm.
        height_spread: by how much it differs.
        far: from how many times that below it any lower height is nearly as likely.
        anyhow: how unlikely it is that all wrong labels are look-alike ones: a power of the share
            that is not.
    """

    slope: float
    slope_spread: float
    pivot: float
    height: float
    height_spread: float
    far: float
    anyhow: float

    def likelihood(self, sums: Numbers) -> Numbers:
        """Logarithm of how likely sums of curves are before anything was counted."""
        there = sums[:, 0] + np.exp(sums[:, 1]) * self.pivot
        height = (there - self.height) / self.height_spread
        slope = (sums[:, 1] - np.log(self.slope)) / self.slope_spread
        # Where no right label gets as far down as planted errors, the line may lie far below.
        far = np.maximum(0.0, -height - self.far)
        unlikely = (height + far) ** 2 + self.far * np.log1p(far**2) + slope**2
        # All shares of look-alike errors are as likely, but for the power of the random ones.
        kind = log_expit(sums[:, 3]) + (1 + self.anyhow) * log_expit(-sums[:, 3])
        sort = log_expit(sums[:, 4:]) + log_expit(-sums[:, 4:])
        found: Numbers = kind + sort.sum(axis=1) - unlikely / 2
        return found

    def tries(self, generator: np.random.Generator, sorts: int) -> Numbers:
        """Sums to begin with, ``(TRIES, 3 + sorts)``; every fourth is an unusual one."""
        wide = np.where(np.arange(TRIES) % 4, 1, 8)
        height = self.height + self.height_spread * wide * generator.normal(size=TRIES)
        slope = np.log(self.slope) + self.slope_spread * generator.normal(size=TRIES)
        share, kind = generator.uniform(-8.0, 1.5, TRIES), generator.uniform(-5.0, 3.0, TRIES)
        sort = generator.uniform(-3.0, 3.0, (TRIES, sorts - 1))
        return np.column_stack([height - np.exp(slope) * self.pivot, slope, share, kind, sort])


@dataclass(frozen=True)
class CurveCounts:
    """What the curves must add up to.

    Attributes:
        counts: labels in each bin of levels.
        total: all labels.
        planted: planted errors of any sort.
        alike: density of planted look-alike errors in each bin, ``(sorts, bins)``; one sort or two.
        usual: what is likely whatever they are.
    """

    counts: Numbers
    total: int
    planted: int
    alike: Numbers
    usual: UsualCurves

    def likelihood(self, sums: Numbers) -> Numbers:
        """Logarithm of how likely sums of curves are, but for a constant."""
        right, wrong = densities(sums, LEVELS.ravel(), np.repeat(self.alike, POINTS, axis=1))
        there = (right + wrong).reshape(len(sums), -1, POINTS).mean(axis=2)
        expected = self.total * WIDTHS * there + 1e-9
        # A bin holds this many planted errors, give or take their square root: its own share is as
        # uncertain as a count of them, which makes the counts of the others negative binomial.
        sure = self.planted * WIDTHS
        fits = self.counts * np.log(expected / (expected + sure)) + sure * np.log(
            sure / (expected + sure)
        )
        lowest, highest = (
            ends[: sums.shape[1]] for ends in (LOWEST_PARAMETERS, HIGHEST_PARAMETERS)
        )
        possible = ((sums >= lowest) & (sums <= highest)).all(axis=1)
        likely = fits.sum(axis=1) + self.usual.likelihood(sums)
        found: Numbers = np.where(possible, likely, -np.inf)
        return found


def likely_sums(labels: CurveCounts, seed: int = 0) -> Numbers:
    """Sums of curves, as often as they are likely, ``(sums, 3 + sorts)``.

    Walkers that step along the lines between them (Goodman and Weare, Ensemble samplers with affine
    invariance, 2010) find their way where shares and slopes make up for each other.

    Args:
        labels: what they must add up to.
        seed: of the walk.
    """
    generator = np.random.default_rng(seed)
    tries = labels.usual.tries(generator, len(labels.alike))
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
        if step >= STEPS - COUNTED_STEPS and step % 5 == 0:
            found.append(walkers.copy())
    return np.concatenate(found)


def wrong_shares(sums: Numbers) -> Numbers:
    """The share of wrong labels in each sum."""
    shares: Numbers = expit(sums[:, 2])
    return shares


def densities(sums: Numbers, level: Numbers, alike: Numbers) -> tuple[Numbers, Numbers]:
    """Of right labels and of wrong ones, ``(sums, levels)``.

    Args:
        sums: of curves, ``(sums, 3 + sorts)``.
        level: between 0 and 1.
        alike: density of look-alike errors at each, ``(sorts, levels)``.
    """
    height, slope, share, kind, *sort = sums.T[:, :, None]
    right = np.exp(height + np.exp(slope) * logit(np.clip(level, 1e-3, 1 - 1e-3)))
    first, *second = alike
    between = first + expit(sort[0]) * (second[0] - first) if second else first
    wrong = expit(share) * (1 + expit(kind) * (between - 1))
    return right, wrong


def mean_densities(sums: Numbers, level: Numbers, alike: Numbers) -> tuple[Numbers, Numbers]:
    """The means over all sums, ``(levels,)`` each."""
    # Of a part of the sums at a time: many planted errors have as many levels.
    parts = np.array_split(sums, max(1, len(sums) // WALKERS))
    means = [np.mean(densities(some, level, alike), axis=1) for some in parts]
    right, wrong = np.average(means, axis=0, weights=[len(some) for some in parts])
    return right, wrong


def counts_by_bin(scores: Numbers, edges: Numbers) -> Numbers:
    """How many there are between two edges each, and below the first."""
    counts = np.bincount(np.searchsorted(edges, scores), minlength=len(edges) + 1)
    return counts[:-1].astype(np.float64)


def smooth(shares: Numbers) -> Numbers:
    """Shares per bin with half of each neighbour's, which are about as wide but for the last."""
    padded = np.pad(shares[:-1], 1, mode="edge")
    inner = (padded[:-2] + 2 * padded[1:-1] + padded[2:]) / 4
    return np.append(inner, shares[-1])
