"""Standard training against float64 cross-entropy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from torch import nn

from batches import batch_of
from josrc.methods.base import StepResult
from josrc.methods.standard import Standard, StandardSettings


@pytest.fixture
def logits() -> np.ndarray:
    return np.random.default_rng(0).normal(scale=3, size=(20, 5))


LABEL = torch.arange(20) % 5


def step(logits: np.ndarray) -> tuple[Standard, StepResult]:
    """A step of a network that hands its input on: the images are the logits."""
    method = Standard(StandardSettings(), lambda: nn.Linear(5, 5))
    with torch.no_grad():
        method.network.weight.copy_(torch.eye(5))
        method.network.bias.zero_()
    images = torch.tensor(logits, dtype=torch.float32)
    return method, method.step(batch_of(images, LABEL), {})


def test_the_loss_is_the_mean_cross_entropy(logits: np.ndarray) -> None:
    method, result = step(logits)
    log_p = log_softmax(logits, axis=1)
    assert result.loss.item() == pytest.approx(-log_p[range(20), LABEL].mean(), rel=1e-5)
    result.loss.backward()
    gradient = np.exp(log_p) - np.eye(5)[LABEL]
    np.testing.assert_allclose(method.network.bias.grad, gradient.mean(axis=0), atol=1e-6)


def test_the_findings_are_those_of_each_sample(logits: np.ndarray) -> None:
    _, result = step(logits)
    log_p = log_softmax(logits, axis=1)
    own = log_p[range(20), LABEL]
    np.testing.assert_array_equal(result.prediction, logits.argmax(axis=1))
    np.testing.assert_allclose(result.mean_probabilities, np.exp(log_p), rtol=1e-5)
    np.testing.assert_allclose(result.label_probability, np.exp(own), rtol=1e-5)
    np.testing.assert_allclose(result.sample_loss, -own, rtol=1e-5, atol=1e-6)


def test_nothing_is_selected_and_no_finding_carries_a_gradient(logits: np.ndarray) -> None:
    method, result = step(logits)
    assert not method.selects
    assert result.group is None
    for finding in ("prediction", "mean_probabilities", "label_probability", "sample_loss"):
        assert not getattr(result, finding).requires_grad


def test_half_precision_logits_are_reduced_in_float32(logits: np.ndarray) -> None:
    method = Standard(StandardSettings(), nn.Identity)
    images = torch.tensor(logits).bfloat16()
    result = method.step(batch_of(images, LABEL), {})
    log_p = log_softmax(images.double().numpy(), axis=1)
    assert result.loss.dtype == torch.float32
    assert result.loss.item() == pytest.approx(-log_p[range(20), LABEL].mean(), rel=1e-5)
