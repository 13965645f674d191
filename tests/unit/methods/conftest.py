"""Two networks whose logits a test writes down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from batches import batch_of
from josrc.methods.base import StepResult, TwoNetworks

Array = np.ndarray


@dataclass
class PairStep:
    """A step of two networks, and the gradient of its loss for the logits of each."""

    result: StepResult
    first_gradient: Array
    second_gradient: Array

    @property
    def learned(self) -> tuple[list[int], list[int]]:
        """Which samples the first and the second network learn from."""
        gradients = (self.first_gradient, self.second_gradient)
        first, second = (np.flatnonzero(np.abs(g).max(axis=1)).tolist() for g in gradients)
        return first, second


def take_step(
    kind: type[TwoNetworks],
    first: Array,
    second: Array,
    labels: Any,
    at: dict[str, float],
    **settings: Any,
) -> PairStep:
    """A step on images that are the logits of both networks side by side."""
    classes = first.shape[1]
    method = kind(kind.Settings(**settings), lambda: nn.Linear(2 * classes, classes, bias=False))
    with torch.no_grad():
        eye, nothing = torch.eye(classes), torch.zeros(classes, classes)
        method.network.weight.copy_(torch.cat([eye, nothing], dim=1))
        method.second_network.weight.copy_(torch.cat([nothing, eye], dim=1))
    images = torch.tensor(np.concatenate([first, second], axis=1), dtype=torch.float32)
    images.requires_grad_()
    batch = batch_of(images, torch.tensor(labels))
    scalars = {
        key: torch.tensor(value, dtype=torch.float64 if key in kind.exact else torch.float32)
        for key, value in at.items()
    }
    result = method.step(batch, scalars)
    (gradient,) = torch.autograd.grad(result.loss, images)
    return PairStep(result, gradient[:, :classes].numpy(), gradient[:, classes:].numpy())


@pytest.fixture
def step_of() -> Callable[..., PairStep]:
    return take_step
