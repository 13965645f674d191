"""Mixup by hand, and its shares against scipy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import beta

from josrc.methods._mixup import beta_quantiles, draw, mix


@pytest.mark.parametrize("alpha", [0.5, 1.0, 4.0, 32.0])
def test_shares_are_those_of_the_beta_distribution(alpha: float) -> None:
    shares = draw(beta_quantiles(alpha), torch.linspace(0, 1, 100_001)[:-1]).double().numpy()
    for value in (0.1, 0.3, 0.5, 0.8):
        assert (shares <= value).mean() == pytest.approx(beta.cdf(value, alpha, alpha), abs=1e-3)


def test_a_row_is_mixed_with_its_partner() -> None:
    values = torch.tensor([[1.0, 0.0], [0.0, 1.0], [4.0, 4.0]])
    mixed = mix(values, torch.tensor([1, 2, 2]), torch.tensor(0.75))
    np.testing.assert_allclose(mixed, [[0.75, 0.25], [1.0, 1.75], [4.0, 4.0]])
