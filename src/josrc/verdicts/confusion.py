"""Labels that are systematically given to another class, as by somebody who takes it for theirs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from josrc.data.noise import Labels
from josrc.verdicts.findings import Findings, Vector

# Larger than any class, which an int16 of the ledger holds.
PAIR_BASE = 2**16
# A rival stands out among those of a label if it has this many times the share of the next one;
# this many samples are added to each label's, so that a single one does not make a rival.
MIN_RIVAL_RATIO, PSEUDO_COUNT = 2.0, 10
# Pairs of a higher weight are noted, where there are this many classes; if the share of labels that
# have one lies above the first, and this many labels more, losing to it begins to count, so much
# further up it counts whole. Halves of CIFAR-100: 56 % of the labels with asymmetric noise of 20 %,
# 1 to 3 % without any, with symmetric noise or noise by instance. Eight classes in four pairs that
# look alike: three of them.
MIN_NOTED_WEIGHT, MIN_CLASSES, SYSTEMATIC_FROM, MORE, SYSTEMATIC_WITHIN = 0.01, 5, 0.4, 1.2, 0.15
# What it counts, in units of the score; chosen on the same data.
SYSTEMATIC_WEIGHT, SYSTEMATIC_SCALE = 2.0, 0.002


@dataclass(frozen=True)
class Confusion:
    """How systematically labels are given to another class, for the pairs that occur.

    Attributes:
        pairs: numbers of pairs, in order.
        weight: of each pair, 0 to 1.
        prevalence: share of the labels of which some rival stands out.
        labels: how many labels there are.
    """

    pairs: Vector
    weight: Vector
    prevalence: float
    labels: int = 0

    def of(self, given: Labels, rival: Vector) -> Vector:
        """Weights of the pairs of some samples, ``(N,)``."""
        return _look_up(self.pairs, self.weight, _pair(given, rival))

    def evidence(self, findings: Findings, given: Labels) -> Vector:
        """What losing to a systematic rival counts against labels, ``(N,)``: 0 and more.

        Of a few look-alike classes one always stands out. It is a habit of whoever gave the labels
        only where that happens to many labels.
        """
        first = SYSTEMATIC_FROM + MORE / max(self.labels, 1)
        habit = min(1.0, max(0.0, (self.prevalence - first) / SYSTEMATIC_WITHIN))
        lost = self.of(given, findings.rival) * findings.rival_share
        found: Vector = habit * SYSTEMATIC_WEIGHT * np.log1p(lost / SYSTEMATIC_SCALE)
        return found


def systematic_confusion(findings: Findings, given: Labels) -> Confusion:
    """How much each class stands out among the rivals of each label.

    0 for a rival like others; 1 for one that all samples of a label lose to. Only pairs that occur
    are kept: ten thousand classes have a hundred million.
    """
    behind = (findings.rival >= 0) & (findings.rival_share > findings.label_share)
    pairs, counts = np.unique(_pair(given, findings.rival)[behind], return_counts=True)
    label = pairs // PAIR_BASE
    total = np.bincount(label, weights=counts)[label] if len(pairs) else counts
    share = counts / (total + PSEUDO_COUNT)
    # Within each label the largest share comes last, and the one before it is its runner-up.
    order = np.lexsort([share, label])
    following = np.append(label[order][1:] != label[order][:-1], True)
    before = np.append([0.0], share[order][:-1])
    before[np.append([True], following[:-1])] = 0.0
    stands_out = np.zeros(len(pairs))
    stands_out[order] = np.where(
        following, np.maximum(0, share[order] - MIN_RIVAL_RATIO * before), 0
    )
    # A class that many labels lose to is where a network ends that predicts little else.
    labels = np.bincount(pairs[stands_out > 0] % PAIR_BASE, minlength=PAIR_BASE)[pairs % PAIR_BASE]
    weight = stands_out * share / np.maximum(labels, 1) * _one_way(pairs, counts, given)
    present = np.unique(given)
    noted = np.unique(label[weight > MIN_NOTED_WEIGHT])
    # Of few classes one is always the nearest.
    prevalence = len(noted) / len(present) if len(present) >= MIN_CLASSES else 0.0
    return Confusion(pairs, weight, prevalence, len(present))


def _one_way(pairs: Labels, counts: Labels, given: Labels) -> Vector:
    """By how much more often, 0 to 1, a label loses to a class than the other way round.

    Classes that look alike are confused in both directions. A habit has one.
    """
    often = counts / np.bincount(given, minlength=1)[pairs // PAIR_BASE]
    back = (pairs % PAIR_BASE) * PAIR_BASE + pairs // PAIR_BASE
    found: Vector = np.maximum(0.0, 1 - _look_up(pairs, often, back) / np.maximum(often, 1e-12))
    return found


def _look_up(pairs: Labels, values: Vector, wanted: Labels) -> Vector:
    """The values of some pairs; 0 of those that do not occur."""
    if not len(pairs):
        return np.zeros(len(wanted))
    place = np.minimum(np.searchsorted(pairs, wanted), len(pairs) - 1)
    return np.where(pairs[place] == wanted, values[place], 0.0)


def _pair(given: Labels, rival: Vector) -> Labels:
    """A number for each pair of a label and a class."""
    return given.astype(np.int64) * PAIR_BASE + rival
