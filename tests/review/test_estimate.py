"""How sure a spot check is."""

from __future__ import annotations

import pytest
from scipy.stats import binomtest

from josrc.review.estimate import interval


def test_wilsons_interval() -> None:
    for draws in (1, 2, 24, 100, 1000):
        for hits in {0, 1, draws // 5, draws - 1, draws}:
            found = binomtest(hits, draws).proportion_ci(0.95, method="wilson")
            assert interval(hits, draws) == pytest.approx((found.low, found.high), abs=1e-9)
            assert 0 <= found.low <= hits / draws <= found.high <= 1


def test_before_the_first_sample_everything_is_possible() -> None:
    assert interval(0, 0) == (0, 1)
