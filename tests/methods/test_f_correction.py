"""F-correction by hand: the matrix, the loss, and what it makes of a label."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch import nn

from batches import batch_of
from josrc.methods.base import StepResult
from josrc.methods.f_correction import FCorrection, FCorrectionSettings, estimate_transitions

CLEAN, ID = 0, 1


def step(logits: np.ndarray, label: list[int], transitions: np.ndarray) -> StepResult:
    method = FCorrection(FCorrectionSettings(), nn.Identity)
    method.register_buffer("transitions", torch.tensor(transitions, dtype=torch.float32))
    images = torch.tensor(logits, dtype=torch.float32)
    return method.step(batch_of(images, torch.tensor(label)), {})


def test_a_confused_label_is_read_as_the_class_it_stands_for() -> None:
    # Half of class 0 is labelled 1. The network is sure of class 0, the given label is 1.
    transitions = np.array([[0.5, 0.5], [0.0, 1.0]])
    result = step(np.log([[0.9, 0.1]]), [1], transitions)
    assert result.loss.item() == pytest.approx(-math.log(0.9 * 0.5 + 0.1), rel=1e-5)
    assert result.clean_likelihood.item() == pytest.approx(0.1 / 0.55, rel=1e-5)
    assert result.group.item() == ID


def test_the_loss_is_that_of_the_confused_prediction() -> None:
    generator = np.random.default_rng(0)
    logits, label = generator.normal(scale=3, size=(20, 4)), np.arange(20) % 4
    transitions = generator.dirichlet(np.ones(4), size=4)
    expected = -np.log((softmax(logits, axis=1) @ transitions)[range(20), label]).mean()
    result = step(logits, label.tolist(), transitions)
    assert result.loss.item() == pytest.approx(expected, rel=1e-5)


def test_before_the_estimate_it_is_cross_entropy_with_a_finite_gradient() -> None:
    logits = torch.tensor([[3.0, -1.0, 0.5], [-40.0, 60.0, 0.0]], requires_grad=True)
    method = FCorrection(FCorrectionSettings(), nn.Identity)
    method.register_buffer("transitions", torch.eye(3))
    label = torch.tensor([2, 0])
    loss = method.step(batch_of(logits, label), {}).loss
    (gradient,) = torch.autograd.grad(loss, logits)
    expected = torch.nn.functional.cross_entropy(logits, label)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, logits)[0])


def test_each_row_is_the_prediction_of_the_sample_surest_of_the_class() -> None:
    predictions = torch.tensor([[0.7, 0.3], [0.9, 0.1], [0.4, 0.6], [0.2, 0.8]])
    surest = estimate_transitions(predictions, 100)
    torch.testing.assert_close(surest, torch.tensor([[0.9, 0.1], [0.2, 0.8]]))
    # Without the surest of four (the 97th percentile, rounded up) it is the second.
    second = estimate_transitions(predictions, 97)
    torch.testing.assert_close(second, torch.tensor([[0.7, 0.3], [0.4, 0.6]]))
