"""JoCoR by hand, against a loop in float64, and its gradient against differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import log_softmax

from josrc.methods.jocor import JoCoR

CLEAN, ID = 0, 1
Array = np.ndarray


def joint_loss(z: Array, z2: Array, label: int, weight: float) -> float:
    """The loss of one sample, as the paper writes it."""
    log_p, log_q = log_softmax(z), log_softmax(z2)
    supervised = -log_p[label] - log_q[label]
    forth = sum(math.exp(a) * (a - b) for a, b in zip(log_p, log_q, strict=True))
    back = sum(math.exp(b) * (b - a) for a, b in zip(log_p, log_q, strict=True))
    return float((1 - weight) * supervised + weight * (forth + back))


def random_batch() -> tuple[Array, Array, list[int]]:
    generator = np.random.default_rng(0)
    first, second = generator.normal(size=(2, 40, 4)) * 2
    return first, second, generator.integers(0, 4, 40).tolist()


def test_agreement_with_each_other_and_with_the_label_is_kept(step_of) -> None:
    # Agree on the label; agree on another class; disagree.
    first = np.log([[0.8, 0.2], [0.2, 0.8], [0.9, 0.1]])
    second = np.log([[0.8, 0.2], [0.2, 0.8], [0.1, 0.9]])
    step = step_of(JoCoR, first, second, [0, 0, 0], {"forget_rate": 0.34})
    # Sample 0: two cross-entropies. Sample 2: log 9 of 0.8 more and of 0.8 less, in both ways.
    own = [0.15 * -2 * math.log(0.8), 0.15 * -2 * math.log(0.2), 0.85 * 2 * 0.8 * math.log(9)]
    assert own[0] < own[1] < own[2]
    assert step.result.loss.item() == pytest.approx(own[0], rel=1e-5)
    assert step.result.group.tolist() == [CLEAN, ID, ID]
    two = step_of(JoCoR, first, second, [0, 0, 0], {"forget_rate": 0.3})
    assert two.result.loss.item() == pytest.approx((own[0] + own[1]) / 2, rel=1e-5)


@pytest.mark.parametrize("weight", [0.0, 0.1, 0.85, 1.0])
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.36, 0.8])
def test_a_random_batch_is_that_of_a_loop(step_of, rate: float, weight: float) -> None:
    first, second, labels = random_batch()
    own = [
        joint_loss(z, z2, label, weight) for z, z2, label in zip(first, second, labels, strict=True)
    ]
    count = int((1 - rate) * 40)
    kept = sorted(range(40), key=own.__getitem__)[:count]
    step = step_of(JoCoR, first, second, labels, {"forget_rate": rate}, co_regularization=weight)
    assert step.result.loss.item() == pytest.approx(sum(own[i] for i in kept) / count, rel=1e-5)
    assert np.flatnonzero(step.result.group == CLEAN).tolist() == sorted(kept)
    assert step.learned == (sorted(kept), sorted(kept))


def test_the_gradient_flows_through_both_networks_and_both_divergences(step_of) -> None:
    first, second, labels = random_batch()
    step = step_of(JoCoR, first, second, labels, {"forget_rate": 0.5})
    sample = int(np.flatnonzero(step.result.group == CLEAN)[0])
    z, z2, label = first[sample], second[sample], labels[sample]
    shift, nudges = 1e-5, 1e-5 * np.eye(4)
    by_first = [
        joint_loss(z + n, z2, label, 0.85) - joint_loss(z - n, z2, label, 0.85) for n in nudges
    ]
    by_second = [
        joint_loss(z, z2 + n, label, 0.85) - joint_loss(z, z2 - n, label, 0.85) for n in nudges
    ]
    scale = 2 * shift * 20  # the mean over 20 kept samples
    np.testing.assert_allclose(step.first_gradient[sample], np.divide(by_first, scale), atol=1e-6)
    np.testing.assert_allclose(step.second_gradient[sample], np.divide(by_second, scale), atol=1e-6)


def test_opposite_certainties_stay_finite(step_of) -> None:
    first = np.array([[500.0, -500.0], [500.0, -500.0]])
    step = step_of(JoCoR, first, -first, [0, 1], {"forget_rate": 0.0})
    assert step.result.loss.isfinite()
    assert np.isfinite(step.first_gradient).all()


def test_a_batch_of_which_nothing_is_kept_teaches_nothing(step_of) -> None:
    first, second, labels = random_batch()
    step = step_of(JoCoR, first, second, labels, {"forget_rate": 1.0})
    assert step.result.loss.item() == 0
    assert step.learned == ([], [])
