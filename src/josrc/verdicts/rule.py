"""Verdicts: clean, mislabelled or out of distribution, from the ledger alone.

The batch-wise groups of a method serve its training and are no verdict: Jo-SRC drops samples from
its clean set for being predicted too surely. A verdict asks two questions of the ledger, of every
method alike, and needs no noise rate to answer them.

Is the label right? Right labels are predicted with a higher probability than wrong ones, over all
epochs and over the last. A mixture of two normal distributions finds the two heaps. Where people
take one class for another again and again, a network learns part of that, and wrong labels are
predicted too. Then one class stands out among the rivals of a label, and losing to it weighs more.
Two heaps are found in any numbers, even if all labels are right. So the lower heap must be one in
which labels lose; where they win there too, a label is wrong only if it loses itself.

If it is wrong, does the image belong to any class? The network settles on the class of an image
that has one, and hesitates about one that has none: again two heaps, of doubt. An image counts as
foreign only if the network hesitates more than it does about nearly all labels it believes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from josrc.data.noise import CLEAN, ID, OOD, Labels
from josrc.errors import UserError
from josrc.verdicts.two_normals import TwoNormals, fit_two_normals, log_odds_of

Vector = NDArray[Any]
# Larger than any class, which an int16 of the ledger holds.
PAIR = 2**16

# --- the rule's constants: chosen on other noise settings than docs/audit.md reports --------------

# Weight of the last epochs beside all epochs, in label probability and entropy. All of them say
# more: late in a run wrong labels may be learned by heart, and some runs go wrong at their end.
RECENT = 0.1
# A rival stands out among those of a label if it has this many times the share of the next one;
# so many samples are added to each label's, lest a single one make a rival.
STANDS_OUT, ADDED = 2.0, 10
# Log-odds that a label loses to a rival that all samples of that label, at all times, lose to.
SYSTEMATIC = 100.0
# Log-odds of a label that is as far ahead as it can be, where there is no heap of wrong labels.
LEAD = 10.0
# Share of the believed labels whose doubt a foreign image exceeds, and the log-odds it gains for
# exceeding it by a standard deviation of theirs. No more: hard images hesitate too, and where all
# images are hard two heaps of doubt say little.
BELIEVED, EXCESS = 0.9, 1.0
# Fewer samples than this in doubt are no heap: none of them is called out of distribution.
FEWEST = 20
# The images that the network is surest of: this share, and so many at least; and what a foreign
# image is that nobody need doubt.
SUREST, FEWEST_SURE, CERTAIN = 0.1, 50, 0.9


@dataclass(frozen=True)
class Findings:
    """What verdicts and their reasons read of the ledger, each ``(N,)``.

    Attributes:
        visits: how often training has seen the sample.
        support: probability of the given label, over all networks and both spans of time.
        lead: by how much the given label was ahead of every other class, -1 to 1.
        doubt: entropy of the predictions, 0 to 1.
        confidence: probability of the top class.
        label_share: how often the given label was the top class, in the last epochs.
        rival: the class other than the given label that was it most often, -1 for none.
        rival_share: how often it was.
    """

    visits: Vector
    support: Vector
    lead: Vector
    doubt: Vector
    confidence: Vector
    label_share: Vector
    rival: Vector
    rival_share: Vector

    @classmethod
    def of(cls, ledger: Mapping[str, Vector]) -> Self:
        """From the fields of a ledger."""
        first, second = ledger["mean_label_probability"], ledger["mean_second_label_probability"]
        label = np.where(second < 0, first, (first + second) / 2)
        confidence = ledger["mean_confidence"]
        lead = (label - ledger["mean_rival_probability"] + ledger["long_margin"]) / 2
        return cls(
            visits=ledger["visits"],
            support=RECENT * label + (1 - RECENT) * ledger["long_label_probability"],
            lead=lead / np.maximum(confidence, 1e-6),
            doubt=RECENT * ledger["mean_entropy"] + (1 - RECENT) * ledger["long_entropy"],
            confidence=confidence,
            label_share=ledger["mean_label_share"],
            rival=ledger["rival"],
            rival_share=ledger["mean_rival_share"],
        )

    def part(self, rows: slice | NDArray[np.bool_]) -> Findings:
        """Those of some samples."""
        return Findings(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})


@dataclass(frozen=True)
class Confusion:
    """How systematically labels are given to another class, for the pairs that occur.

    Attributes:
        pairs: numbers of pairs, in order.
        weight: of each pair, 0 to 1.
    """

    pairs: Vector
    weight: Vector

    def of(self, given: Labels, rival: Vector) -> Vector:
        """Weights of the pairs of some samples, ``(N,)``."""
        if not len(self.pairs):
            return np.zeros(len(given))
        wanted = _pair(given, rival)
        place = np.minimum(np.searchsorted(self.pairs, wanted), len(self.pairs) - 1)
        return np.where(self.pairs[place] == wanted, self.weight[place], 0.0)


@dataclass(frozen=True)
class Reference:
    """What is usual in a data set: the yardstick for images that were not trained on.

    Attributes:
        labels: heaps of the log-odds of the given label; the upper one has the right labels. None
            where there is no heap of wrong ones.
        confusion: which labels are systematically given to which other class.
        doubts: heaps of the log-odds of doubt; the upper one has the images of no class. None
            where too little was in doubt.
        doubt: the log-odds of doubt that few of the believed labels exceed, and their spread.
        confidence: median confidence about images whose label is believed.
        shift: log-odds that all labels gain, or lose, where it is known how many are wrong.
        foreign_shift: the same for being foreign, where it is known how many are; minus infinity
            if none is.
    """

    labels: TwoNormals | None
    confusion: Confusion
    doubts: TwoNormals | None
    doubt: tuple[float, float]
    confidence: float
    shift: float = 0.0
    foreign_shift: float = 0.0


@dataclass(frozen=True)
class Verdicts:
    """A verdict on every sample, each vector ``(N,)``.

    Attributes:
        group: 0 clean, 1 mislabelled, 2 out of distribution.
        suggested: the class a mislabelled sample seems to be, -1 for the others.
        rival: the most likely class other than the given label, whatever the verdict; -1 for none.
        p_clean: probability that the given label is right.
        p_ood: probability that the image belongs to no class.
        confidence: probability of the verdict; of a mislabelled sample, with its suggestion.
        reference: what the verdicts were measured by.
    """

    group: Vector
    suggested: Vector
    rival: Vector
    p_clean: Vector
    p_ood: Vector
    confidence: Vector
    reference: Reference

    @property
    def probabilities(self) -> tuple[Vector, Vector, Vector]:
        """Those of the columns, in their order."""
        return self.p_clean, self.p_ood, self.confidence

    def part(self, rows: slice) -> Verdicts:
        """Those on some samples."""
        names = ("group", "suggested", "rival", "p_clean", "p_ood", "confidence")
        return Verdicts(
            **{name: getattr(self, name)[rows] for name in names}, reference=self.reference
        )


def judge(
    findings: Findings,
    given: Labels,
    noise_rate: float | None = None,
    ood_rate: float | None = None,
) -> Verdicts:
    """Verdicts on the samples of a training run.

    Args:
        findings: from its ledger.
        given: the given labels, ``(N,)``.
        noise_rate: share of wrong labels, those of foreign images included, where it is known:
            so many are accused. The two heaps tell which labels are worse than others; how many of
            them are wrong they only guess, and guess too high where most images are hard.
        ood_rate: share of foreign images, where it is known: of the labels that are accused, so
            many, the most doubtful, are called foreign.
    """
    seen = findings.visits > 0
    if not seen.any():
        raise UserError("Training has not seen a single sample yet, so there is nothing to audit.")
    labels = _label_heaps(findings.part(seen))
    confusion = systematic_confusion(findings, given)
    odds = _label_odds(findings, given, labels, confusion)
    shift = 0.0 if noise_rate is None else -float(np.quantile(odds[seen], noise_rate))
    p_clean = expit(odds + shift)
    suspect = seen & (p_clean < 0.5)
    believed = seen & ~suspect if (seen & ~suspect).any() else seen
    doubt = log_odds_of(findings.doubt)
    reference = Reference(
        labels=labels,
        confusion=confusion,
        doubts=fit_two_normals(doubt[suspect]) if suspect.sum() >= FEWEST else None,
        doubt=(float(np.quantile(doubt[believed], BELIEVED)), float(np.std(doubt[believed]))),
        confidence=float(np.median(findings.confidence[believed])),
        shift=shift,
    )
    if ood_rate is not None:
        reference = _with_foreign(reference, doubt, suspect, round(ood_rate * int(seen.sum())))
    return _verdicts(findings, p_clean, reference)


def _with_foreign(
    reference: Reference, doubt: Vector, suspect: NDArray[np.bool_], count: int
) -> Reference:
    """The yardstick by which so many of the suspects are foreign, the most doubtful ones."""
    if count == 0 or not suspect.any():
        return replace(reference, foreign_shift=-np.inf)
    odds = np.sort(_foreign_odds(doubt, reference)[suspect])[::-1]
    return replace(reference, foreign_shift=-float(odds[min(count, len(odds)) - 1]))


def least_noise_rate(findings: Findings, verdicts: Verdicts) -> float:
    """The share of wrong labels if hard images are mislabelled no more often than easy ones.

    Hard images are accused whether their labels are wrong or not, so that the share of the accused
    is what is wrong at most. Where the network is sure, a label that loses is wrong. Foreign images
    are not among those, and count if there is no doubt about them.
    """
    seen = np.flatnonzero(findings.visits > 0)
    surest = seen[np.argsort(findings.doubt[seen], kind="stable")]
    accused = (verdicts.group[surest] != CLEAN)[: max(FEWEST_SURE, int(SUREST * len(seen)))]
    foreign = np.mean((verdicts.group == OOD) & (verdicts.confidence >= CERTAIN))
    least = foreign + (1 - foreign) * np.mean(accused)
    return float(min(least, np.mean(verdicts.group != CLEAN)))


def judge_held_out(findings: Findings, given: Labels, reference: Reference) -> Verdicts:
    """Verdicts on images that were not trained on, by what is usual in the training data."""
    odds = _label_odds(findings, given, reference.labels, reference.confusion)
    return _verdicts(findings, expit(odds + reference.shift), reference)


def held_out_findings(probabilities: Vector, given: Labels) -> Findings:
    """Findings from one prediction of each image.

    Args:
        probabilities: what the final network (the teacher, where there is one) predicts,
            ``(M, classes)``; NaN of an image that it could not see.
        given: the given labels, ``(M,)``.
    """
    rows, unseen = np.arange(len(given)), np.isnan(probabilities).any(axis=1)
    probabilities = np.nan_to_num(probabilities, nan=1 / probabilities.shape[1])
    others = probabilities.copy()
    others[rows, given] = -1.0
    rival = others.argmax(axis=1)
    support, confidence = probabilities[rows, given], probabilities.max(axis=1)
    return Findings(
        visits=np.where(unseen, 0, 1),
        support=support,
        lead=(support - others[rows, rival]) / np.maximum(confidence, 1e-6),
        doubt=doubt_of(probabilities),
        confidence=confidence,
        label_share=support,
        rival=rival,
        rival_share=others[rows, rival],
    )


def doubt_of(probabilities: Vector) -> Vector:
    """Entropy of predictions ``(M, classes)``: 0 where all is on one class, 1 where on none."""
    entropy = -np.sum(probabilities * np.log(np.maximum(probabilities, 1e-12)), axis=1)
    doubt: Vector = np.clip(entropy / np.log(max(2, probabilities.shape[1])), 0, 1)
    return doubt


def systematic_confusion(findings: Findings, given: Labels) -> Confusion:
    """How much each class stands out among the rivals of each label.

    0 for a rival like others; 1 for one that all samples of a label lose to. Only pairs that occur
    are kept: ten thousand classes have a hundred million.
    """
    behind = (findings.rival >= 0) & (findings.rival_share > findings.label_share)
    pairs, counts = np.unique(_pair(given, findings.rival)[behind], return_counts=True)
    label = pairs // PAIR
    total = np.bincount(label, weights=counts)[label] if len(pairs) else counts
    share = counts / (total + ADDED)
    # Within each label the largest share comes last, and the one before it is its runner-up.
    order = np.lexsort([share, label])
    following = np.append(label[order][1:] != label[order][:-1], True)
    before = np.append([0.0], share[order][:-1])
    before[np.append([True], following[:-1])] = 0.0
    stands_out = np.zeros(len(pairs))
    stands_out[order] = np.where(following, np.maximum(0, share[order] - STANDS_OUT * before), 0)
    # A class that many labels lose to is where a network ends that predicts little else.
    labels = np.bincount(pairs[stands_out > 0] % PAIR, minlength=PAIR)[pairs % PAIR]
    return Confusion(pairs, stands_out * share / np.maximum(labels, 1))


def _pair(given: Labels, rival: Vector) -> Labels:
    """A number for each pair of a label and a class."""
    return given.astype(np.int64) * PAIR + rival


def _label_heaps(findings: Findings) -> TwoNormals | None:
    """Heaps of right and of wrong labels, if there is one of wrong labels."""
    support = log_odds_of(findings.support)
    heaps = fit_two_normals(support)
    lower = heaps.log_odds(support) < 0
    return heaps if lower.any() and np.median(findings.lead[lower]) < 0 else None


def _label_odds(
    findings: Findings, given: Labels, labels: TwoNormals | None, confusion: Confusion
) -> Vector:
    """Log-odds that each label is right."""
    lost = confusion.of(given, findings.rival) * findings.rival_share
    odds = (
        LEAD * findings.lead if labels is None else labels.log_odds(log_odds_of(findings.support))
    )
    found: Vector = odds - SYSTEMATIC * lost
    return found


def _foreign_odds(doubt: Vector, reference: Reference) -> Vector:
    """Log-odds that images are foreign, by the log-odds of doubt."""
    bound, spread = reference.doubt
    excess: Vector = EXCESS * (doubt - bound) / max(spread, 1e-6)
    if reference.doubts is not None:
        excess = np.minimum(reference.doubts.log_odds(doubt), excess)
    return excess + reference.foreign_shift


def _verdicts(findings: Findings, p_clean: Vector, reference: Reference) -> Verdicts:
    """From the answer to the first question to verdicts."""
    p_foreign: Vector = np.zeros(len(p_clean))
    if reference.doubts is not None or reference.foreign_shift:
        p_foreign = expit(_foreign_odds(log_odds_of(findings.doubt), reference))
    if reference.foreign_shift == -np.inf:  # what no other class ever won is what it is called
        p_clean = np.where(findings.rival < 0, np.maximum(p_clean, 0.5), p_clean)
    p_ood = (1 - p_clean) * p_foreign
    p_wrong = (1 - p_clean) * (1 - p_foreign)
    # A sample that no other class ever won has nothing that could be suggested.
    foreign = (p_foreign >= 0.5) | (findings.rival < 0)
    group = np.where(p_clean >= 0.5, CLEAN, np.where(foreign, OOD, ID)).astype(np.int8)
    # A suggestion is as good as the rival's hold on the sample, and as the network is sure of it.
    hold = findings.rival_share * np.minimum(1, findings.confidence / reference.confidence)
    sure = np.choose(group, [p_clean, p_wrong * hold, p_ood])
    unseen = findings.visits == 0
    return Verdicts(
        group=np.where(unseen, CLEAN, group).astype(np.int8),
        suggested=np.where((group == ID) & ~unseen, findings.rival, -1),
        rival=findings.rival,
        p_clean=np.where(unseen, 0.5, p_clean),
        p_ood=np.where(unseen, 0.0, p_ood),
        confidence=np.where(unseen, 0.0, sure),
        reference=reference,
    )
