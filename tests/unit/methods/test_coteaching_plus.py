"""Co-teaching+ by hand, and against a loop in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax, softmax
from torch import nn

from josrc.methods.coteaching import Coteaching
from josrc.methods.coteaching_plus import CoteachingPlus, CoteachingPlusSettings
from josrc.runs.start import configure

CLEAN, ID = 0, 1

# The probability that each network gives the label of six samples with two classes. The networks
# disagree on samples 1 to 4, where one is above a half and the other below.
FIRST_P = [0.95, 0.8, 0.7, 0.3, 0.4, 0.1]
SECOND_P = [0.9, 0.2, 0.4, 0.6, 0.7, 0.05]
FIRST, SECOND = (np.log([[p, 1 - p] for p in network]) for network in (FIRST_P, SECOND_P))
LABELS = [0] * 6


def at(rate: float, disagreement: bool = True) -> dict[str, float]:
    return {"forget_rate": rate, "disagreement": float(disagreement)}


def test_small_losses_among_the_disputed_samples_are_exchanged(step_of) -> None:
    step = step_of(CoteachingPlus, FIRST, SECOND, LABELS, at(0.5))
    # Half of four: the first network picks 1 and 2, the second 3 and 4.
    first = -(math.log(0.3) + math.log(0.4)) / 2
    second = -(math.log(0.2) + math.log(0.4)) / 2
    assert step.result.loss.item() == pytest.approx(first + second, rel=1e-5)
    assert step.learned == ([3, 4], [1, 2])


def test_clean_is_a_small_loss_in_the_batch_disputed_or_not(step_of) -> None:
    step = step_of(CoteachingPlus, FIRST, SECOND, LABELS, at(0.5))
    assert step.result.group.tolist() == [CLEAN, CLEAN, CLEAN, ID, ID, ID]


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("rate", [0.0, 0.3, 0.5])
def test_before_disagreement_counts_it_is_co_teaching(step_of, rate: float, double: bool) -> None:
    early = step_of(CoteachingPlus, FIRST, SECOND, LABELS, at(rate, False), double_softmax=double)
    plain = step_of(Coteaching, FIRST, SECOND, LABELS, {"forget_rate": rate})
    assert early.result.loss.item() == plain.result.loss.item()
    assert early.learned == plain.learned


def test_too_few_for_a_share_are_all_kept(step_of) -> None:
    step = step_of(CoteachingPlus, FIRST, SECOND, LABELS, at(0.8))  # 0.2 of four is none
    assert step.learned == ([1, 2, 3, 4], [1, 2, 3, 4])


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("rate", [0.0, 0.5, 1.0])
def test_without_disagreement_nothing_is_learned(step_of, rate: float, double: bool) -> None:
    step = step_of(CoteachingPlus, FIRST, FIRST * 2, LABELS, at(rate), double_softmax=double)
    assert step.result.loss.item() == 0
    assert step.learned == ([], [])
    assert np.isfinite(step.first_gradient).all()
    assert np.isfinite(step.second_gradient).all()


@pytest.mark.parametrize("settings", [{}, {"double_softmax": True}], ids=str)
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5, 0.8])
def test_a_random_batch_is_that_of_a_loop(step_of, rate: float, settings: dict[str, Any]) -> None:
    generator = np.random.default_rng(0)
    first, second = generator.normal(size=(2, 60, 3)) * 2
    labels = generator.integers(0, 3, 60).tolist()
    outputs = [softmax(z, axis=1) if settings else z for z in (first, second)]
    losses = [-log_softmax(output, axis=1)[range(60), labels] for output in outputs]
    disputed = [i for i in range(60) if first[i].argmax() != second[i].argmax()]
    count = int((1 - rate) * len(disputed))
    first_picks, second_picks = (sorted(disputed, key=own.__getitem__)[:count] for own in losses)
    assert 0 < count < 60
    expected = sum(losses[0][i] for i in second_picks) / count
    expected += sum(losses[1][i] for i in first_picks) / count

    step = step_of(CoteachingPlus, first, second, labels, at(rate), **settings)
    assert step.result.loss.item() == pytest.approx(expected, rel=1e-5)
    assert step.learned == (sorted(second_picks), sorted(first_picks))


def test_disagreement_counts_after_the_warm_up() -> None:
    method = CoteachingPlus(CoteachingPlusSettings(forget_rate=0.2), nn.Identity)
    counts = [method.schedule(epoch, 200)["disagreement"] for epoch in range(200)]
    assert counts == [0] * 5 + [1] * 195


def test_the_warm_up_scales_with_the_run() -> None:
    settings = configure("cifar100n-c", method="coteaching-plus", epochs=3).method
    assert isinstance(settings, CoteachingPlusSettings)
    assert settings.warm_up == 1
