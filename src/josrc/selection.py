"""Criteria that sort samples into clean, in-distribution noisy and out of distribution."""

import torch
from torch import Tensor

from josrc.data.noise import CLEAN, ID, OOD
from josrc.losses import js_divergence


def clean_likelihood(probabilities: Tensor, label: Tensor) -> Tensor:
    """How well a prediction agrees with a label distribution, Eq. 3: ``1 - JS``.

    Args:
        probabilities: predictions ``(batch, classes)``.
        label: label distributions, smoothed so that no logarithm meets a zero, same shape.

    Returns:
        ``(batch,)`` in [0, 1]; 1 is full agreement. Not monotone in confidence when the label is
        smoothed: a one-hot prediction of the label scores below one that matches the smoothing.
    """
    return 1 - js_divergence(probabilities, label)


def ood_likelihood(first: Tensor, second: Tensor) -> Tensor:
    """1 where two views' top classes differ, 0 where they agree, Eq. 4.

    Args:
        first: predictions or logits of view 1, ``(batch, classes)``.
        second: those of view 2.
    """
    difference = first.argmax(dim=1) - second.argmax(dim=1)
    return difference.abs().clamp(max=1).float()


def divide(clean: Tensor, disagree: Tensor) -> Tensor:
    """Criteria 3.1 and 3.2: clean, else OOD if the views disagree, else ID.

    Args:
        clean: which samples pass the clean test, ``(batch,)`` bool.
        disagree: ``ood_likelihood`` of every sample, ``(batch,)``.

    Returns:
        Groups ``(batch,)``, int8.
    """
    unclean = torch.where(disagree > 0.5, OOD, ID)
    return torch.where(clean, CLEAN, unclean).to(torch.int8)


def threshold_schedule(
    time: float, warm_up: int, last: int, threshold: float, maximum: float
) -> float:
    """The clean threshold at a time in epochs, Eq. 12.

    It rises from 0 to ``threshold`` over the warm-up, then to ``maximum`` at ``last``.
    """
    if time <= warm_up:
        return threshold * time / warm_up if warm_up else threshold
    return threshold + (maximum - threshold) * (time - warm_up) / (last - warm_up)


# --- small losses --------------------------------------------------------------------------------

# Added to a share before it is multiplied by a count: 0.8 of 80 is 64, and float32 must not make it
# 63. Less than 2e-7 is lost to rounding, so that a millionth is enough.
SHARE_TOLERANCE = 1e-6


def forget_rate_schedule(epoch: int, ramp: int, rate: float, exponent: float = 1.0) -> float:
    """The share of a batch that Co-teaching and its successors leave out in a zero-based epoch.

    ``ramp`` evenly spaced values from 0 to ``rate ** exponent``, then ``rate``.
    """
    if epoch >= ramp:
        return rate
    return float(rate**exponent) * epoch / max(1, ramp - 1)


def kept_count(forget_rate: Tensor, count: Tensor | int) -> Tensor:
    """How many of ``count`` samples are kept: the published ``int((1 - R) * B)``, as a scalar."""
    return ((1 - forget_rate + SHARE_TOLERANCE) * count).floor()


def small_loss(loss: Tensor, count: Tensor, among: Tensor | None = None) -> Tensor:
    """Which samples have the smallest losses.

    Args:
        loss: ``(batch,)``; of equal losses the earlier counts as smaller.
        count: how many to choose, scalar; at most as many as there are ``among``.
        among: which samples stand for choice, ``(batch,)`` bool; all unless given.

    Returns:
        ``(batch,)`` bool, without gradient.
    """
    loss = loss.detach()
    if among is not None:
        loss = torch.where(among, loss, torch.inf)
    # The place of each sample in the order, by counting who stands before it: a sort compiles to
    # far more code. Comparing places with a scalar keeps all shapes fixed.
    place = torch.arange(len(loss), device=loss.device)
    before = (loss < loss[:, None]) | ((loss == loss[:, None]) & (place < place[:, None]))
    return before.sum(dim=1) < count
