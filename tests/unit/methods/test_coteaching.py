"""Co-teaching by hand, and against a loop in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import log_softmax
from torch import nn

from josrc.methods.coteaching import Coteaching, CoteachingSettings

CLEAN, ID = 0, 1

# The probability that each network gives the label of six samples with two classes.
FIRST_P = [0.9, 0.8, 0.7, 0.3, 0.2, 0.1]  # picks 0, 1, 2 of them
SECOND_P = [0.2, 0.9, 0.3, 0.8, 0.1, 0.7]  # picks 1, 3, 5
FIRST, SECOND = (np.log([[p, 1 - p] for p in network]) for network in (FIRST_P, SECOND_P))
LABELS = [0] * 6
HALF = {"forget_rate": 0.5}


def test_each_network_learns_what_the_other_picked(step_of) -> None:
    step = step_of(Coteaching, FIRST, SECOND, LABELS, HALF)
    first = -(math.log(0.8) + math.log(0.3) + math.log(0.1)) / 3  # samples 1, 3, 5
    second = -(math.log(0.2) + math.log(0.9) + math.log(0.3)) / 3  # samples 0, 1, 2
    assert step.result.loss.item() == pytest.approx(first + second, rel=1e-5)
    assert step.learned == ([1, 3, 5], [0, 1, 2])


def test_the_loss_is_a_mean_over_the_picks_divided_once(step_of) -> None:
    step = step_of(Coteaching, FIRST, SECOND, LABELS, HALF)
    # The gradient of a mean cross-entropy over three samples.
    np.testing.assert_allclose(step.first_gradient[3], [(0.3 - 1) / 3, 0.7 / 3], atol=1e-6)
    np.testing.assert_allclose(step.second_gradient[2], [(0.3 - 1) / 3, 0.7 / 3], atol=1e-6)


def test_clean_is_what_the_first_network_picked(step_of) -> None:
    step = step_of(Coteaching, FIRST, SECOND, LABELS, HALF)
    assert step.result.group.tolist() == [CLEAN, CLEAN, CLEAN, ID, ID, ID]


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.36, 0.5, 0.8, 0.99])
def test_a_random_batch_is_that_of_a_loop(step_of, rate: float) -> None:
    generator = np.random.default_rng(0)
    first, second = generator.normal(size=(2, 50, 4)) * 2
    labels = generator.integers(0, 4, 50).tolist()
    first_losses, second_losses = (
        [-log_softmax(z)[label] for z, label in zip(logits, labels, strict=True)]
        for logits in (first, second)
    )
    count = int((1 - rate) * 50)
    first_picks = sorted(range(50), key=lambda i: first_losses[i])[:count]
    second_picks = sorted(range(50), key=lambda i: second_losses[i])[:count]
    expected = sum(first_losses[i] for i in second_picks) / max(1, count)
    expected += sum(second_losses[i] for i in first_picks) / max(1, count)

    step = step_of(Coteaching, first, second, labels, {"forget_rate": rate})
    assert step.result.loss.item() == pytest.approx(expected, rel=1e-5)
    assert step.learned == (sorted(second_picks), sorted(first_picks))
    assert np.flatnonzero(step.result.group == CLEAN).tolist() == sorted(first_picks)


def test_a_batch_of_which_nothing_is_kept_teaches_nothing(step_of) -> None:
    step = step_of(Coteaching, FIRST, SECOND, LABELS, {"forget_rate": 1.0})
    assert step.result.loss.item() == 0
    assert step.learned == ([], [])


def test_the_forget_rate_rises_to_the_noise_rate() -> None:
    method = Coteaching(CoteachingSettings(forget_rate=0.45), nn.Identity)
    rates = [method.schedule(epoch, 200)["forget_rate"] for epoch in range(200)]
    assert rates == pytest.approx([*np.linspace(0, 0.45, 10), *[0.45] * 190])
