"""Mixtures of two on data drawn from known ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import beta, norm

from josrc.selection import (
    beta_densities,
    fit_beta_mixture,
    large_loss_probability,
    small_loss_probability,
)


def test_two_gaussians_are_told_apart_as_bayes_would() -> None:
    generator = np.random.default_rng(0)
    losses = np.concatenate([generator.normal(1, 0.3, 3000), generator.normal(3, 0.5, 1000)])
    low, high = 0.75 * norm.pdf(losses, 1, 0.3), 0.25 * norm.pdf(losses, 3, 0.5)
    found = small_loss_probability(torch.tensor(losses))
    assert np.abs(found.numpy() - low / (low + high)).mean() < 0.01


def test_two_beta_distributions_are_found_again() -> None:
    generator = np.random.default_rng(0)
    values = np.concatenate([generator.beta(2, 8, 30_000), generator.beta(9, 3, 10_000)])
    shapes, weights = fit_beta_mixture(values, steps=200)
    np.testing.assert_allclose(weights, [0.75, 0.25], atol=0.03)
    means = shapes[:, 0] / shapes.sum(axis=1)
    np.testing.assert_allclose(means, [0.2, 0.75], atol=0.02)
    density = beta_densities(np.array([0.3, 0.6]), np.array([[2.0, 8.0], [9.0, 3.0]]))
    np.testing.assert_allclose(density[1], beta.pdf([0.3, 0.6], 9, 3))


def test_a_larger_loss_is_never_less_suspicious() -> None:
    generator = np.random.default_rng(1)
    losses = np.concatenate([generator.gamma(2, 0.2, 700), 3 + generator.gamma(3, 0.5, 300)])
    found = large_loss_probability(torch.tensor(losses)).numpy()
    assert (np.diff(found[losses.argsort()]) >= 0).all()
    wrong = np.arange(1000) >= 700
    assert ((found > 0.5) == wrong).mean() > 0.98
    assert found.min() >= 1e-4
    assert found.max() <= 1 - 1e-4


@pytest.mark.parametrize("find", [small_loss_probability, large_loss_probability])
def test_losses_that_are_all_alike_give_finite_probabilities(find) -> None:
    found = find(torch.full((50,), 2.0))
    assert found.isfinite().all()
    assert ((found >= 0) & (found <= 1)).all()
