"""Joint-Optim: its loss in float64, and the life of its labels by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from scipy.stats import entropy
from torch import nn

from batches import batch_of
from josrc.methods.base import StepResult
from josrc.methods.joint_optim import JointOptim, JointOptimSettings

CLEAN, ID = 0, 1
GIVEN = np.array([0, 1, 2, 0])
PRIOR = np.array([0.5, 0.25, 0.25])


class Forgetting:
    """A survey that is only asked to forget."""

    def __init__(self) -> None:
        self.forgot = 0

    def reset_optimizer(self) -> None:
        self.forgot += 1


def method_of(labels: np.ndarray, **settings: Any) -> JointOptim:
    method = JointOptim(JointOptimSettings(**settings), lambda: nn.Linear(3, 3))
    with torch.no_grad():
        method.network.weight.copy_(torch.eye(3))
        method.network.bias.zero_()
    method.register_buffer("soft_label", torch.tensor(labels, dtype=torch.float32))
    shape = (method.settings.history_epochs, *labels.shape)
    method.register_buffer("history", torch.zeros(shape, dtype=torch.float16))
    method.register_buffer("prior", torch.tensor(PRIOR, dtype=torch.float32))
    return method


def step(method: JointOptim, logits: np.ndarray, **at: float) -> StepResult:
    images = torch.tensor(logits, dtype=torch.float32)
    batch = batch_of(images, torch.tensor(GIVEN))
    return method.step(batch, {key: torch.tensor(float(value)) for key, value in at.items()})


def test_the_loss_of_both_steps() -> None:
    generator = np.random.default_rng(0)
    logits, labels = generator.normal(size=(4, 3)), generator.dirichlet(np.ones(3), size=4)
    p = softmax(logits, axis=1)
    plain = -(labels * log_softmax(logits, axis=1)).sum(axis=1).mean()
    balance = entropy(PRIOR, p.mean(axis=0))
    method = method_of(labels, alpha=1.2, beta=0.8)
    joint = step(method, logits, slot=0, joint=1).loss.item()
    assert joint == pytest.approx(plain + 1.2 * balance + 0.8 * entropy(p, axis=1).mean(), rel=1e-5)
    assert step(method, logits, slot=0, joint=0).loss.item() == pytest.approx(plain, rel=1e-5)


@pytest.mark.parametrize(("prior", "expected"), [("labels", PRIOR), ("uniform", np.full(3, 1 / 3))])
def test_the_prior_is_that_of_the_labels_unless_it_is_uniform(
    prior: str, expected: np.ndarray
) -> None:
    method = JointOptim(JointOptimSettings(prior=prior), lambda: nn.Linear(3, 3))
    method.prepare(SimpleNamespace(given=GIVEN, closed=3))
    np.testing.assert_allclose(method.prior, expected, rtol=1e-6)
    assert "prior" not in method.weights(), "it is of the samples, and not of the network"


def test_classes_as_rare_as_their_labels_cost_nothing() -> None:
    """Which a uniform prior would push towards equal shares."""
    logits = np.log(np.tile(PRIOR, (4, 1)))
    method = method_of(np.eye(3)[GIVEN], alpha=1.0, beta=0.0)
    joint, plain = (step(method, logits, slot=0, joint=j).loss.item() for j in (1, 0))
    assert joint == pytest.approx(plain, abs=1e-6)


def test_a_label_becomes_the_mean_of_the_last_epochs_and_then_stays() -> None:
    method = method_of(np.eye(3)[GIVEN], history_epochs=2, update_from=2, first_step=4)
    survey = Forgetting()
    logits = np.random.default_rng(1).normal(size=(6, 4, 3))
    p = softmax(logits, axis=2)
    expected = {0: np.eye(3)[GIVEN], 1: np.eye(3)[GIVEN], 2: (p[0] + p[1]) / 2}
    expected |= {3: (p[1] + p[2]) / 2, 4: (p[2] + p[3]) / 2, 5: (p[2] + p[3]) / 2}
    for epoch in range(6):
        with torch.no_grad():
            method.before_epoch(epoch, survey)
            method.network.weight.copy_(torch.eye(3))
            method.network.bias.zero_()
        np.testing.assert_allclose(method.soft_label, expected[epoch], atol=1e-3)
        found = step(method, logits[epoch], **method.schedule(epoch, 6))
        moved = [a != b for a, b in zip(expected[epoch].argmax(axis=1), GIVEN, strict=True)]
        assert found.group.tolist() == [ID if m else CLEAN for m in moved]
    assert survey.forgot == 1


def test_the_second_step_begins_with_the_first_weights() -> None:
    method = method_of(np.eye(3)[GIVEN], first_step=5)
    survey = Forgetting()
    method.before_epoch(4, survey)
    assert torch.equal(method.network.weight, torch.eye(3))
    method.before_epoch(5, survey)
    assert torch.equal(method.network.weight, method.first_network.weight)
    assert not torch.equal(method.network.weight, torch.eye(3))
    assert not any(p.requires_grad for p in method.first_network.parameters())
