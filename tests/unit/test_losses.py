"""Losses against values by hand and against float64 formulas of scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.special import log_softmax, rel_entr, softmax
from torch import Tensor

from josrc.losses import (
    balance_penalty,
    js_divergence,
    log_probabilities,
    smooth_labels,
    soft_cross_entropy,
    symmetric_divergence,
)

HALVES = [torch.float16, torch.bfloat16]


def random_logits(scale: float, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(scale=scale, size=(50, 9))


def tensor(values: object) -> Tensor:
    return torch.tensor(np.asarray(values), dtype=torch.float32)


# --- smooth_labels, Eq. 5 ------------------------------------------------------------------------


def test_smoothed_labels_are_equation_5_by_hand() -> None:
    smoothed = smooth_labels(torch.tensor([2, 0]), classes=4, epsilon=0.6)
    np.testing.assert_allclose(smoothed, [[0.2, 0.2, 0.4, 0.2], [0.4, 0.2, 0.2, 0.2]], rtol=1e-6)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.6, 0.99])
@pytest.mark.parametrize("classes", [2, 14, 100])
def test_smoothed_labels_are_distributions(classes: int, epsilon: float) -> None:
    smoothed = smooth_labels(torch.arange(classes), classes, epsilon).double()
    np.testing.assert_allclose(smoothed.sum(dim=1), 1, rtol=1e-6)
    np.testing.assert_allclose(smoothed.diagonal(), 1 - epsilon, rtol=1e-6)
    off_diagonal = smoothed[~torch.eye(classes, dtype=torch.bool)]
    np.testing.assert_allclose(off_diagonal, epsilon / (classes - 1), rtol=1e-6)


def test_labels_without_smoothing_are_one_hot() -> None:
    assert smooth_labels(torch.tensor([1]), 3, 0.0).tolist() == [[0, 1, 0]]


# --- soft_cross_entropy, Eqs. 1 and 11 -----------------------------------------------------------


def test_cross_entropy_of_a_uniform_prediction_is_the_logarithm_of_the_classes() -> None:
    target = tensor([[1, 0, 0, 0], [0.1, 0.2, 0.3, 0.4]])
    loss = soft_cross_entropy(torch.full((2, 4), 7.0), target)
    np.testing.assert_allclose(loss, [math.log(4)] * 2, rtol=1e-6)


@pytest.mark.parametrize("scale", [0.1, 3, 50])
def test_cross_entropy_equals_the_float64_formula(scale: float) -> None:
    logits, target = random_logits(scale), softmax(random_logits(1, seed=1), axis=1)
    expected = -(target * log_softmax(logits, axis=1)).sum(axis=1)
    loss = soft_cross_entropy(tensor(logits), tensor(target))
    assert loss.shape == (50,)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_cross_entropy_of_huge_logits_is_their_difference() -> None:
    logits = torch.tensor([[1000.0, -1000.0]] * 2, requires_grad=True)
    loss = soft_cross_entropy(logits, tensor([[0, 1], [1, 0]]))
    assert loss.tolist() == [2000, 0]
    loss.sum().backward()
    assert logits.grad is not None
    assert logits.grad.tolist() == [[1, -1], [0, 0]]


@pytest.mark.parametrize("dtype", HALVES)
def test_cross_entropy_of_half_precision_is_computed_in_float32(dtype: torch.dtype) -> None:
    logits = torch.tensor(random_logits(3)).to(dtype)
    target = np.full((50, 9), 1 / 9)
    loss = soft_cross_entropy(logits, tensor(target))
    expected = -(target * log_softmax(logits.double().numpy(), axis=1)).sum(axis=1)
    assert loss.dtype == torch.float32
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


# --- log_probabilities ---------------------------------------------------------------------------


def test_logarithms_of_ordinary_logits_are_those_of_the_softmax() -> None:
    logits = random_logits(2)
    expected = log_softmax(logits, axis=1)
    np.testing.assert_allclose(log_probabilities(tensor(logits)), expected, atol=1e-5)


def test_the_floor_bounds_the_logarithms() -> None:
    logits = tensor([[1000, -1000], [0, 30]])
    expected = [[0, math.log(1e-7)], [math.log(1e-7), 0]]
    np.testing.assert_allclose(log_probabilities(logits), expected, atol=1e-6)


@pytest.mark.parametrize("dtype", HALVES)
def test_logarithms_of_half_precision_are_computed_in_float32(dtype: torch.dtype) -> None:
    logits = torch.tensor(random_logits(2)).to(dtype)
    logarithms = log_probabilities(logits)
    assert logarithms.dtype == torch.float32
    np.testing.assert_allclose(logarithms, log_softmax(logits.double().numpy(), axis=1), atol=1e-5)


# --- symmetric_divergence, the bracket of Eq. 9 --------------------------------------------------


def test_symmetric_divergence_by_hand() -> None:
    # KL both ways: 1/2 * log2(2) + 1/4 * log2(1/2) = 1/4, on mirrored distributions.
    p, q = tensor([[0.5, 0.25, 0.25]]), tensor([[0.25, 0.5, 0.25]])
    assert symmetric_divergence(p.log(), q.log()).item() == pytest.approx(0.5)
    nats = symmetric_divergence(p.log(), q.log(), math.e).item()
    assert nats == pytest.approx(0.5 * math.log(2))


@pytest.mark.parametrize("base", [2.0, math.e, 10.0])
def test_symmetric_divergence_equals_the_float64_formula(base: float) -> None:
    first, second = random_logits(2), random_logits(2, seed=1)
    p, q = softmax(first, axis=1), softmax(second, axis=1)
    expected = (rel_entr(p, q) + rel_entr(q, p)).sum(axis=1) / math.log(base)
    log_p, log_q = log_probabilities(tensor(first)), log_probabilities(tensor(second))
    divergence = symmetric_divergence(log_p, log_q, base)
    assert divergence.shape == (50,)
    np.testing.assert_allclose(divergence, expected, rtol=1e-4)


def test_symmetric_divergence_is_zero_for_equals_and_the_same_both_ways() -> None:
    log_p = log_probabilities(tensor(random_logits(5)))
    log_q = log_probabilities(tensor(random_logits(5, seed=1)))
    assert symmetric_divergence(log_p, log_p).count_nonzero() == 0
    assert torch.equal(symmetric_divergence(log_p, log_q), symmetric_divergence(log_q, log_p))
    assert (symmetric_divergence(log_p, log_q) > 0).all()


# Three classes: where both views give a class no probability, 0 * (inf - inf) is not a number.
OPPOSITE = [[1000.0, -1000.0, -1000.0]], [[-1000.0, 1000.0, -1000.0]]


def test_opposite_predictions_have_a_finite_divergence_and_gradient() -> None:
    first = torch.tensor(OPPOSITE[0], requires_grad=True)
    log_p, log_q = log_probabilities(first), log_probabilities(torch.tensor(OPPOSITE[1]))
    divergence = symmetric_divergence(log_p, log_q)
    divergence.sum().backward()
    assert first.grad is not None
    assert divergence.item() == pytest.approx(2 * (1 - 1e-7) * math.log2(1e7), rel=1e-5)
    assert first.grad.isfinite().all()


# --- js_divergence, Eq. 2 ------------------------------------------------------------------------

ONE_HOT, OTHER, UNIFORM = [1.0, 0, 0, 0], [0, 0, 1.0, 0], [0.25] * 4


@pytest.mark.parametrize(
    ("p", "q", "expected"),
    [
        (ONE_HOT, ONE_HOT, 0),
        (UNIFORM, UNIFORM, 0),
        (ONE_HOT, OTHER, 1),
        ([0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5], 1),
        # middle (5/8, 1/8, 1/8, 1/8): half of log2(8/5), and half of log2(2/5)/4 + 3/4
        (ONE_HOT, UNIFORM, (math.log2(8 / 5) + math.log2(2 / 5) / 4 + 3 / 4) / 2),
        ([1, 1e-45, 0, 0], [1e-45, 1, 0, 0], 1),
    ],
    ids=["one-hot", "uniform", "disjoint", "disjoint pairs", "one-hot and uniform", "underflow"],
)
def test_js_divergence_by_hand(p: list[float], q: list[float], expected: float) -> None:
    assert js_divergence(tensor([p]), tensor([q])).item() == pytest.approx(expected, abs=1e-6)
    assert js_divergence(tensor([q]), tensor([p])).item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1, 10, 200])
def test_js_divergence_equals_the_float64_formula_and_stays_within_bounds(scale: float) -> None:
    p = softmax(random_logits(scale), axis=1)
    q = softmax(random_logits(scale, seed=1), axis=1)
    divergence = js_divergence(tensor(p), tensor(q))
    assert divergence.shape == (50,)
    assert ((divergence >= 0) & (divergence <= 1)).all()
    np.testing.assert_allclose(divergence, jensenshannon(p, q, base=2, axis=1) ** 2, atol=1e-6)


@pytest.mark.parametrize("dtype", HALVES)
def test_js_divergence_of_half_precision_is_computed_in_float32(dtype: torch.dtype) -> None:
    p = torch.tensor(softmax(random_logits(2), axis=1)).to(dtype)
    q = torch.full((50, 9), 1 / 9, dtype=torch.float32)
    divergence = js_divergence(p, q)
    assert divergence.dtype == torch.float32
    rounded, middle = p.double().numpy(), (p.double() + q.double()).numpy() / 2
    expected = (rel_entr(rounded, middle) + rel_entr(q.double().numpy(), middle)).sum(axis=1)
    np.testing.assert_allclose(divergence, expected / (2 * math.log(2)), atol=1e-6)


def test_js_divergence_keeps_float64() -> None:
    p = softmax(random_logits(2), axis=1)
    q = softmax(random_logits(2, seed=1), axis=1)
    divergence = js_divergence(torch.tensor(p), torch.tensor(q))
    np.testing.assert_allclose(divergence, jensenshannon(p, q, base=2, axis=1) ** 2, rtol=1e-12)


def test_the_balance_penalty_is_a_divergence_from_the_uniform_distribution() -> None:
    even = torch.tensor([[0.9, 0.1], [0.1, 0.9]])
    assert balance_penalty(even).item() == pytest.approx(0, abs=1e-6)
    odd = torch.tensor([[0.9, 0.1], [0.7, 0.3]])
    expected = 0.5 * math.log(0.5 / 0.8) + 0.5 * math.log(0.5 / 0.2)
    assert balance_penalty(odd).item() == pytest.approx(expected, rel=1e-5)
    assert balance_penalty(torch.tensor([[1.0, 0.0]])).isfinite()
