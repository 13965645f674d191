"""Mixtures of two: losses of right labels are small and those of wrong ones large."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Values = NDArray[np.float64]


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
PERCENTILES, MARGIN, STEPS, TABLE = (5, 95), 1e-3, 10, 100
MOST_CERTAIN = 1e-4


def large_loss_probability(losses: Tensor) -> Tensor:
    """How likely each loss belongs to the upper of two beta distributions, as M-correction fits.

    Args:
        losses: of all samples, ``(N,)``.

    Returns:
        ``(N,)`` in [0.0001, 0.9999], never smaller for a larger loss, on the device of the losses.
    """
    values = losses.double().cpu().numpy()
    low, high = np.percentile(values, PERCENTILES)
    inside = (values >= low) & (values <= high)
    values = np.clip((values - low) / max(high - low, 1e-12), MARGIN, 1 - MARGIN)
    shapes, weights = fit_beta_mixture(values[inside])
    places = np.linspace(MARGIN, 1 - MARGIN, TABLE)
    density = beta_densities(places, shapes) * weights[:, None]
    upper = density[1] / np.maximum(density.sum(axis=0), 1e-12)
    # Far out both densities are next to nothing, and their ratio may turn around.
    upper = np.where(np.arange(TABLE) > upper.argmax(), upper.max(), upper)
    upper = np.maximum.accumulate(upper)
    found = np.clip(np.interp(values, places, upper), MOST_CERTAIN, 1 - MOST_CERTAIN)
    return torch.from_numpy(found).to(losses)


def fit_beta_mixture(values: Values, steps: int = STEPS) -> tuple[Values, Values]:
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
        mean = np.clip(share @ values / total, MARGIN, 1 - MARGIN)
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
