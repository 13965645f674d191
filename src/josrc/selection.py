"""Criteria that sort samples into clean, in-distribution noisy and out of distribution."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from josrc.data.noise import CLEAN, ID, OOD
from josrc.losses import js_divergence

Values = NDArray[np.float64]


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


def forget_rate_schedule(epoch: int, ramp: int, rate: float, exponent: float = 1.0) -> float:
    """The share of a batch that Co-teaching and its successors leave out in a zero-based epoch.

    ``ramp`` evenly spaced values from 0 to ``rate ** exponent``, then ``rate``.
    """
    if epoch >= ramp:
        return rate
    return float(rate**exponent) * epoch / max(1, ramp - 1)


def kept_count(forget_rate: Tensor, count: Tensor | int) -> Tensor:
    """How many of ``count`` samples are kept: the published ``int((1 - R) * B)``, as a scalar.

    In float64, as the published codes have it: with R = 0.8 they keep 15 of 80, and not 16.

    Args:
        forget_rate: scalar; one in float32 has been rounded before it comes here.
        count: how many there are.
    """
    return ((1 - forget_rate.double()) * count).floor()


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


# --- mixtures of two: losses of right labels are small, and those of wrong ones large -------------


def small_loss_probability(losses: Tensor) -> Tensor:
    """How likely each loss belongs to the lower of two Gaussians, as DivideMix fits them.

    Args:
        losses: of all samples, ``(N,)``; brought to [0, 1] first.

    Returns:
        ``(N,)``, on the device of the losses.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    values = losses.double().cpu().numpy()
    values = (values - values.min()) / max(np.ptp(values), 1e-12)
    # The code's settings: few and loose steps are enough for two heaps on a line.
    mixture = GaussianMixture(2, max_iter=10, tol=1e-2, reg_covar=5e-4, random_state=0)
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        posterior = mixture.fit(values[:, None]).predict_proba(values[:, None])
    small = posterior[:, mixture.means_[:, 0].argmin()]
    return torch.from_numpy(small).to(losses)


# M-correction's code: losses outside these percentiles are outliers; a beta distribution has no
# density at 0 and 1; ten steps; the posterior is looked up in a table.
OUTLIER_PERCENTILES, BETA_MARGIN, EM_STEPS, TABLE_POINTS = (5, 95), 1e-3, 10, 100
PROBABILITY_MARGIN = 1e-4


def large_loss_probability(losses: Tensor) -> Tensor:
    """How likely each loss belongs to the upper of two beta distributions, as M-correction fits.

    Args:
        losses: of all samples, ``(N,)``.

    Returns:
        ``(N,)`` in [0.0001, 0.9999], never smaller for a larger loss, on the device of the losses.
    """
    values = losses.double().cpu().numpy()
    low, high = np.percentile(values, OUTLIER_PERCENTILES)
    inside = (values >= low) & (values <= high)
    values = np.clip((values - low) / max(high - low, 1e-12), BETA_MARGIN, 1 - BETA_MARGIN)
    shapes, weights = fit_beta_mixture(values[inside])
    places = np.linspace(BETA_MARGIN, 1 - BETA_MARGIN, TABLE_POINTS)
    density = beta_densities(places, shapes) * weights[:, None]
    upper = density[1] / np.maximum(density.sum(axis=0), 1e-12)
    # Far out both densities are next to nothing, and their ratio may turn around.
    upper = np.where(np.arange(TABLE_POINTS) > upper.argmax(), upper.max(), upper)
    upper = np.maximum.accumulate(upper)
    found = np.clip(np.interp(values, places, upper), PROBABILITY_MARGIN, 1 - PROBABILITY_MARGIN)
    return torch.from_numpy(found).to(losses)


def fit_beta_mixture(values: Values, steps: int = EM_STEPS) -> tuple[Values, Values]:
    """Two beta distributions by expectation and maximisation, the latter by weighted moments.

    Args:
        values: inside (0, 1).
        steps: how many; more come nearer to the likeliest mixture.

    Returns:
        Shapes, ``(2, 2)``: alpha and beta of the lower and of the upper; and their weights.
    """
    shapes, weights = np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([0.5, 0.5])
    for _ in range(steps):
        density = beta_densities(values, shapes) * weights[:, None]
        share = density / np.maximum(density.sum(axis=0), 1e-12)
        total = np.maximum(share.sum(axis=1), 1e-12)
        mean = np.clip(share @ values / total, BETA_MARGIN, 1 - BETA_MARGIN)
        variance = (share * (values - mean[:, None]) ** 2).sum(axis=1) / total
        # A heap of equal values would have a shape of infinite size.
        size = mean * (1 - mean) / np.maximum(variance, 1e-6) - 1
        size = np.maximum(size, 1e-2)
        shapes, weights = np.stack([mean * size, (1 - mean) * size], axis=1), total / total.sum()
    order = (shapes[:, 0] / shapes.sum(axis=1)).argsort()
    return shapes[order], weights[order]


def beta_densities(values: Values, shapes: Values) -> Values:
    """Densities of beta distributions, a row each."""
    from scipy.stats import beta

    return np.stack([np.asarray(beta.pdf(values, a, b), dtype=np.float64) for a, b in shapes])
