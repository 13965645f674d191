"""Two heaps are found where they are, whatever their size."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from josrc.verdicts.two_normals import fit_two_normals, log_odds_of


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_two_normals_are_found_again(share: float) -> None:
    generator = np.random.default_rng(0)
    upper = generator.random(20_000) < share
    values = np.where(upper, generator.normal(3, 0.5, 20_000), generator.normal(0, 1, 20_000))
    fit = fit_two_normals(values)
    np.testing.assert_allclose(fit.mean, [0, 3], atol=0.1)
    np.testing.assert_allclose(fit.std, [1, 0.5], atol=0.1)
    np.testing.assert_allclose(fit.share, [1 - share, share], atol=0.03)
    between = np.linspace(0.5, 2.5, 5)
    densities = norm.pdf(between[:, None], fit.mean, fit.std) * fit.share
    plain = np.log(densities[:, 1] / densities[:, 0])
    expected = plain / np.sqrt(1 + (plain / 10) ** 2)
    np.testing.assert_allclose(fit.log_odds(between), expected, atol=0.15)


def test_a_higher_value_never_speaks_for_the_lower_heap() -> None:
    generator = np.random.default_rng(0)
    values = np.concatenate([generator.normal(0, 3, 5000), generator.normal(4, 0.3, 5000)])
    odds = fit_two_normals(values).log_odds(np.linspace(-20, 20, 500))
    assert (np.diff(odds) > 0).all()
    assert odds[0] < 0 < odds[-1]


@pytest.mark.parametrize("values", [[0.3], [0.2, 0.2, 0.2], [0.0, 1.0]])
def test_hardly_any_values_give_a_number_each(values: list[float]) -> None:
    numbers = np.array(values)
    assert np.isfinite(fit_two_normals(numbers).log_odds(numbers)).all()


def test_odds_and_probabilities_are_each_others_inverse() -> None:
    chance = np.array([0.0, 0.2, 0.5, 0.9, 1.0])
    np.testing.assert_allclose(expit(log_odds_of(chance)), chance, atol=2e-6)
    assert log_odds_of(np.array([0.8]))[0] == pytest.approx(np.log(4))
