"""Learning rates over a run."""

from __future__ import annotations

import math

import pytest

from josrc.config import OptimizerConfig


def test_step_decay_takes_a_tenth_once() -> None:
    optimizer = OptimizerConfig(lr=0.02, decay="step", decay_start=2)
    rates = [optimizer.at(epoch, 4)[0] for epoch in range(4)]
    assert rates == pytest.approx([0.02, 0.02, 0.002, 0.002])


def test_cosine_decay_follows_half_a_wave() -> None:
    optimizer = OptimizerConfig(lr=0.002, decay="cosine", decay_start=0)
    for epoch in range(15):
        rate = 0.001 * (1 + math.cos(math.pi * epoch / 15))
        assert optimizer.at(epoch, 15) == pytest.approx((rate, 0.9))


def test_without_decay_rate_and_momentum_stay() -> None:
    optimizer = OptimizerConfig(lr=0.1, decay="none", decay_start=1, momentum_after=0.1)
    assert {optimizer.at(epoch, 5) for epoch in range(5)} == {(0.1, 0.9)}


@pytest.mark.parametrize("decay_start", [0, 1, 3, 10])
def test_the_learning_rate_of_a_short_run_stays_positive(decay_start: int) -> None:
    optimizer = OptimizerConfig(lr=0.1, decay_start=decay_start)
    rates = [optimizer.at(epoch, 3)[0] for epoch in range(3)]
    assert all(0 < rate <= 0.1 for rate in rates)
    assert rates == sorted(rates, reverse=True)
