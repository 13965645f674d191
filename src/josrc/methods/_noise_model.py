"""How labels came about, as Posterior has it, and what it makes of a sample.

A sample has a true class z, or none. Of class z it is labelled y with probability T[z, y]; of no
class it gets any label. From the opinions p(z | x) of a network and the given labels alone follow T
and, where opinions are doubtful, how many samples have no class.

All rests on one observation. A label drawn evenly stands anywhere in the ranking of the classes by
the network's opinion, while a right label hardly ever stands at its lower end, however weak the
network. So that end shows how many labels are even. Labels that are confused systematically do not
stand there while a network has learned them, and may later; they show among sure opinions, and are
left out of the count.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from josrc.losses import PROBABILITY_FLOOR

# The lower share of the ranking that shows even noise.
EVEN_NOISE_SHARE = 0.4
# An opinion is sure if it is this share of the mean confidence of its class.
MIN_CONFIDENCE = 0.9
# What is given to a class less often than this, relative to the right label, or within this many
# standard deviations of even noise, is an error of the network and not a habit of the labels.
MIN_FLIP, MIN_DEVIATIONS = 0.15, 4.0
# Labels that are learned by heart rise in the ranking: even noise may fall this slowly. And what is
# learned of right labels makes samples with wrong ones look doubtful: foreign ones may grow so.
FORGETTING = 0.99
# Pseudo-counts of a row of T, how much of T the next fit keeps, and how many steps align opinions.
PSEUDO_COUNT, KEPT_SHARE, ALIGNMENTS = 10.0, 0.5, 3
POWERS = (0.5, 0.7, 1.0, 1.4, 2.0)
# Heaps of like confidence, and the share of the surest samples, in which foreign ones are rare.
CONFIDENCE_HEAPS, SUREST_SHARE = 10, 0.3


class NoiseModel(NamedTuple):
    """What is known of the labels; all are tensors of a method's memory.

    Attributes:
        transitions: T, probability of a given label (column) by true class (row).
        even: share of labels of samples with a class that are drawn evenly, scalar.
        power: g, which opinions are raised to, scalar.
        bias: brings the mean opinion to the frequencies of the labels, ``(classes,)``.
        target_mean: mean confidence of targets by their top class, ``(classes,)``.
        target_variance: its variance, ``(classes,)``.
        usual: mean log-odds of opinions' confidence by their top class, ``(classes,)``.
        spread: its standard deviation, ``(classes,)``.
        edges: between heaps of like confidence, ``(CONFIDENCE_HEAPS - 1,)``.
        foreign: share of samples without a class in each heap, the doubtful first,
            ``(CONFIDENCE_HEAPS,)``.
    """

    transitions: Tensor
    even: Tensor
    power: Tensor
    bias: Tensor
    target_mean: Tensor
    target_variance: Tensor
    usual: Tensor
    spread: Tensor
    edges: Tensor
    foreign: Tensor

    @classmethod
    def trusting(cls, classes: int) -> NoiseModel:
        """Nearly all labels are right, and no sample is foreign."""
        wrong = 0.01
        transitions = torch.eye(classes) * (1 - wrong) + wrong / classes
        one, ones = torch.ones(()), torch.ones(classes)
        return cls(
            transitions, one * wrong, one.clone(), ones * 0, ones / classes, ones.clone(),
            ones * 0, ones.clone(),
            torch.zeros(CONFIDENCE_HEAPS - 1), torch.zeros(CONFIDENCE_HEAPS),
        )  # fmt: skip


class Belief(NamedTuple):
    """What opinions, labels and noise model say together.

    Attributes:
        classes: probability of each true class if it has one, ``(batch, classes)``.
        none: probability that it has none, ``(batch,)``.
        doubtful: the same before its label was looked at, ``(batch,)``.
    """

    classes: Tensor
    none: Tensor
    doubtful: Tensor


def believe(model: NoiseModel, opinions: Tensor, label: Tensor) -> Belief:
    """The posterior of samples: ``p(z | x, y) ~ p(z | x)^g T[z, y]``.

    Args:
        model: how labels come about.
        opinions: ``(batch, classes)``.
        label: given labels, ``(batch,)``.
    """
    prior = aligned(opinions, model.power, model.bias)
    joint = prior * model.transitions.t()[label]
    evidence = joint.sum(dim=1)
    doubtful = model.foreign[heap_of(model, prior)]
    foreign = doubtful / opinions.shape[1]
    none = foreign / (foreign + (1 - doubtful) * evidence).clamp(min=PROBABILITY_FLOOR)
    return Belief(joint / evidence[:, None].clamp(min=PROBABILITY_FLOOR), none, doubtful)


def weight_of(model: NoiseModel, belief: Belief) -> Tensor:
    """How much targets count, ``(batch,)``: a Gaussian below their class's mean confidence."""
    confidence, top = belief.classes.max(dim=1)
    below = (confidence - model.target_mean[top]).clamp(max=0)
    # SoftMatch and SED: twice the width that the variance has.
    return torch.exp(-2 * below.square() / model.target_variance[top])


def aligned(opinions: Tensor, power: Tensor | float, bias: Tensor) -> Tensor:
    """Opinions to a power, and so biased that all classes come to their own, normalised."""
    logits = power * (opinions + PROBABILITY_FLOOR).log() + bias
    return logits.softmax(dim=1)


def heap_of(model: NoiseModel, opinions: Tensor) -> Tensor:
    """In which heap of like confidence aligned opinions are, ``(batch,)``."""
    odds, top = _confidence(opinions)
    standing = (odds - model.usual[top]) / model.spread[top]
    return (standing[:, None] > model.edges).sum(dim=1)


def _confidence(opinions: Tensor) -> tuple[Tensor, Tensor]:
    """Log-odds of the top class, and which it is, each ``(batch,)``."""
    highest, top = opinions.clamp(max=1 - 1e-6).max(dim=1)
    return torch.logit(highest), top


# --- fitting -------------------------------------------------------------------------------------


def fit_noise_model(
    opinions: Tensor,
    label: Tensor,
    before: NoiseModel | None,
    *,
    flips: bool = True,
    foreign: bool = True,
) -> NoiseModel:
    """The noise model of all samples that have been seen.

    Args:
        opinions: ``(N, classes)``.
        label: their given labels, ``(N,)``.
        before: of the last epoch; none at the first time.
        flips: whether labels may be confused systematically.
        foreign: whether samples may belong to no class.
    """
    classes = opinions.shape[1]
    frequency = label.bincount(minlength=classes) / len(label)
    model = NoiseModel(*(part.to(opinions.device) for part in NoiseModel.trusting(classes)))
    plain, bias = _align(opinions, 1.0, frequency)

    odds, top = _confidence(plain)
    usual, variance = _by_class(odds, top, classes)
    model = model._replace(usual=usual, spread=variance.sqrt().clamp(min=1e-3))
    marks = even_noise(plain, label)
    if flips:
        habits = _habits(plain, label, marks.mean().clamp(0, 0.98))
        marks = torch.where(habits[top, label], 0.0, marks)
    heaps, edges, share = _find_foreign(model, plain, marks)
    if not foreign:
        share = torch.zeros_like(share)
    elif before is not None:
        share = torch.lerp(before.foreign, share, 1 - KEPT_SHARE)
        most = before.foreign[heaps].mean() / FORGETTING
        share = share * (most / share[heaps].mean().clamp(min=PROBABILITY_FLOOR)).clamp(max=1)
    # All labels of foreign samples are even; of the others as many as make up the rest.
    all_foreign = share[heaps].mean()
    even = ((marks.mean() - all_foreign) / (1 - all_foreign)).clamp(0, 0.98)
    if before is not None:
        even = torch.maximum(even, FORGETTING * before.even)
    model = model._replace(edges=edges, even=even, foreign=share)

    own = 1 - model.foreign[heaps]  # samples of no class are no evidence of T
    transitions = estimate_transitions(plain, label, even, own, flips=flips)
    if before is not None:
        transitions = torch.lerp(before.transitions, transitions, 1 - KEPT_SHARE)
    model = model._replace(transitions=transitions)

    power = _likeliest_power(model, opinions, label, frequency)
    if before is not None:
        power = math.sqrt(power * float(before.power))
    _, bias = _align(opinions, power, frequency)
    model = model._replace(power=torch.full_like(even, power), bias=bias)

    confidence, top = believe(model, opinions, label).classes.max(dim=1)
    mean, variance = _by_class(confidence, top, classes)
    if before is not None:
        mean = torch.lerp(before.target_mean, mean, 1 - KEPT_SHARE)
        variance = torch.lerp(before.target_variance, variance, 1 - KEPT_SHARE)
    return model._replace(target_mean=mean, target_variance=variance.clamp(min=1e-4))


def even_noise(opinions: Tensor, label: Tensor) -> Tensor:
    """Whose mean is the share of evenly drawn labels, ``(N,)``.

    A label counts if it is among the classes at the lower end of the ranking, of which there are
    as many as not, so an even label counts once on average.
    """
    classes = opinions.shape[1]
    lower = max(1, int(EVEN_NOISE_SHARE * classes))
    above = (opinions > opinions.gather(1, label[:, None])).sum(dim=1)
    return (above >= classes - lower).to(opinions.dtype) * (classes / lower)


def _habits(opinions: Tensor, label: Tensor, even: Tensor) -> Tensor:
    """Which labels (column) are given to a class (row) systematically, ``(classes, classes)``."""
    found = estimate_transitions(opinions, label, even, torch.ones_like(opinions[:, 0]))
    return (found > 1.001 * even / len(found) + 1e-6).fill_diagonal_(False)


def _find_foreign(
    model: NoiseModel, opinions: Tensor, even: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Heaps of like confidence, their edges, and the share of foreign samples in each.

    Noise is no different where the network is sure and where it hesitates. Where more labels are
    even there, images belong to no class: those have any label.
    """
    odds, top = _confidence(opinions)
    standing = (odds - model.usual[top]) / model.spread[top]
    ordered, size = standing.sort().values, len(standing)
    cuts = [min(size - 1, size * place // CONFIDENCE_HEAPS) for place in range(1, CONFIDENCE_HEAPS)]
    edges = ordered[cuts]
    heaps = (standing[:, None] > edges).sum(dim=1)
    sure = standing >= ordered[int((1 - SUREST_SHARE) * (size - 1))]
    least = even[sure].mean().clamp(0, 0.98)
    count = heaps.bincount(minlength=CONFIDENCE_HEAPS).clamp(min=1)
    found = torch.zeros(CONFIDENCE_HEAPS, device=even.device).index_add_(0, heaps, even) / count
    # What chance could do is not evidence: two standard deviations.
    chance = 2 * (found.clamp(min=1 / size) / EVEN_NOISE_SHARE / count).sqrt()
    share = ((found - chance - least) / (1 - least)).clamp(0, 0.98)
    # The surer, the fewer: each heap has at most what all that are more doubtful have.
    return heaps, edges, share.cummin(dim=0).values


def estimate_transitions(
    opinions: Tensor, label: Tensor, even: Tensor, weight: Tensor, *, flips: bool = True
) -> Tensor:
    """T from even noise, and from the labels of sure opinions, ``(classes, classes)``.

    Args:
        opinions: aligned, ``(N, classes)``.
        label: given labels, ``(N,)``.
        even: share of evenly drawn labels, scalar.
        weight: how much each sample counts, ``(N,)``.
        flips: whether there is anything besides even noise and right labels.
    """
    classes = opinions.shape[1]
    confidence, top = opinions.max(dim=1)
    mean, _ = _by_class(confidence, top, classes)
    sure = weight * (confidence >= MIN_CONFIDENCE * mean[top])
    # In double precision, in which the order of the summands is hardly seen.
    place = top * classes + label
    counts = place.bincount(sure.double(), minlength=classes**2).view(classes, classes)
    counts = counts.to(opinions.dtype) + PSEUDO_COUNT / classes
    size = counts.sum(dim=1, keepdim=True)
    rest = (counts / size - even / classes).clamp(min=0)
    right = rest.diagonal().clamp(min=0.01)
    least = torch.maximum(
        MIN_FLIP * right[:, None], MIN_DEVIATIONS * (even / classes / size).sqrt()
    )
    rest = torch.where((rest >= least) & flips, rest, 0.0).diagonal_scatter(right)
    return rest / rest.sum(dim=1, keepdim=True) * (1 - even) + even / classes


def _align(opinions: Tensor, power: float, frequency: Tensor) -> tuple[Tensor, Tensor]:
    """Opinions whose mean is the frequency of the labels, nearly, and the bias that does it."""
    bias = torch.zeros_like(frequency)
    for _ in range(ALIGNMENTS):
        mean = aligned(opinions, power, bias).mean(dim=0)
        bias = bias + (frequency + PROBABILITY_FLOOR).log() - (mean + PROBABILITY_FLOOR).log()
    return aligned(opinions, power, bias), bias


def _likeliest_power(
    model: NoiseModel, opinions: Tensor, label: Tensor, frequency: Tensor
) -> float:
    """The power of opinions under which the given labels are likeliest."""
    rows = model.transitions.t()[label]
    fits = [
        (_align(opinions, power, frequency)[0] * rows).sum(dim=1).clamp(min=1e-12).log().mean()
        for power in POWERS
    ]
    return POWERS[int(torch.stack(fits).argmax())]


def _by_class(values: Tensor, top: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Mean and variance of values by class; those of all for a class with fewer than two."""
    count = top.bincount(minlength=classes)
    mean = top.bincount(values.double(), minlength=classes) / count.clamp(min=1)
    squares = (values.double() - mean[top]).square()
    variance = top.bincount(squares, minlength=classes) / (count - 1).clamp(min=1)
    many = count > 1
    mean = torch.where(many, mean, values.double().mean())
    variance = torch.where(many, variance, values.double().var())
    return mean.to(values.dtype), variance.to(values.dtype)
