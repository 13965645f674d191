"""Decoupling by hand, and against a loop in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import log_softmax

from josrc.config import RunConfig
from josrc.methods.decoupling import Decoupling, DecouplingSettings
from josrc.runs.start import configure

# Probabilities of two networks and the given label. The networks disagree on samples 1 and 3.
SAMPLES = [
    ([0.8, 0.1, 0.1], [0.6, 0.3, 0.1], 1),  # both are sure that the label is wrong
    ([0.5, 0.3, 0.2], [0.2, 0.7, 0.1], 1),
    ([0.1, 0.2, 0.7], [0.2, 0.2, 0.6], 2),
    ([0.4, 0.5, 0.1], [0.1, 0.4, 0.5], 0),
]
FIRST, SECOND = (np.log([sample[network] for sample in SAMPLES]) for network in (0, 1))
LABELS = [sample[2] for sample in SAMPLES]
AFTER, DURING = {"learn_all": 0.0}, {"learn_all": 1.0}


def test_only_disagreement_teaches_and_the_given_label_is_what_is_taught(step_of) -> None:
    step = step_of(Decoupling, FIRST, SECOND, LABELS, AFTER)
    expected = -(math.log(0.3) + math.log(0.4)) / 2 - (math.log(0.7) + math.log(0.1)) / 2
    assert step.result.loss.item() == pytest.approx(expected, rel=1e-5)
    assert step.learned == ([1, 3], [1, 3])
    np.testing.assert_allclose(step.first_gradient[1], np.array([0.5, -0.7, 0.2]) / 2, atol=1e-6)


def test_in_the_warm_up_every_sample_teaches(step_of) -> None:
    step = step_of(Decoupling, FIRST, SECOND, LABELS, DURING)
    label_probabilities = [(0.1, 0.3), (0.3, 0.7), (0.7, 0.6), (0.4, 0.1)]
    expected = -sum(math.log(p) + math.log(q) for p, q in label_probabilities) / 4
    assert step.result.loss.item() == pytest.approx(expected, rel=1e-5)
    assert step.learned == ([0, 1, 2, 3], [0, 1, 2, 3])


@pytest.mark.parametrize("least_share", [0.1, 0.0, 1.0])
def test_few_disagreements_are_divided_by_a_share_of_the_batch(step_of, least_share) -> None:
    # One disagreement among 40 samples.
    first = np.tile(FIRST[2], (40, 1))
    second = first.copy()
    second[7] = SECOND[1]
    step = step_of(Decoupling, first, second, [1] * 40, AFTER, least_share=least_share)
    expected = -(math.log(0.2) + math.log(0.7)) / max(1, 40 * least_share)
    assert step.result.loss.item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("least_share", [0.1, 0.0])
def test_without_disagreement_nothing_is_learned(step_of, least_share) -> None:
    step = step_of(Decoupling, FIRST, FIRST * 2, LABELS, AFTER, least_share=least_share)
    assert step.result.loss.item() == 0
    assert step.learned == ([], [])
    assert np.isfinite(step.first_gradient).all()


@pytest.mark.parametrize("least_share", [0.1, 0.9])
def test_a_random_batch_is_that_of_a_loop(step_of, least_share) -> None:
    generator = np.random.default_rng(0)
    first, second = generator.normal(size=(2, 50, 4)) * 2
    labels = generator.integers(0, 4, 50).tolist()
    total, count = 0.0, 0
    for z, z2, label in zip(first, second, labels, strict=True):
        if z.argmax() != z2.argmax():
            total -= log_softmax(z)[label] + log_softmax(z2)[label]
            count += 1
    assert 5 < count < 45
    step = step_of(Decoupling, first, second, labels, AFTER, least_share=least_share)
    expected = total / max(least_share * 50, count)
    assert step.result.loss.item() == pytest.approx(expected, rel=1e-5)


def test_nothing_is_called_clean(step_of) -> None:
    assert not Decoupling.selects
    assert step_of(Decoupling, FIRST, SECOND, LABELS, AFTER).result.group is None


def test_the_warm_up_is_none_unless_asked_for_and_scales_when_a_recipe_has_one() -> None:
    def warm_up(run: RunConfig) -> int:
        assert isinstance(run.method, DecouplingSettings)
        return run.method.warm_up

    assert warm_up(configure("cifar100n-c", method="decoupling", epochs=3)) == 0
    layers = [{"method": {"warm_up": 2}}]
    assert warm_up(configure("cifar100n-c", method="decoupling", epochs=3, layers=layers)) == 2
