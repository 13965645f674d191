"""Meta-Cleaner in numpy, and the groups it needs."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from torch import nn

from batches import batch_of
from josrc.errors import UserError
from josrc.methods.metacleaner import MetaCleaner, MetaCleanerSettings
from josrc.models import Classifier
from josrc.runs.start import train

FEATURES, CLASSES = 5, 3


# Two groups of two, one pair of which is none, and a sample left over.
LABEL = np.array([1, 1, 0, 0, 2, 1, 2])


IMAGES = np.random.default_rng(0).normal(size=(7, FEATURES))


def method_of() -> MetaCleaner:
    torch.manual_seed(0)
    settings = MetaCleanerSettings(group_size=2, hidden=4)
    method = MetaCleaner(settings, lambda: Classifier(nn.Identity(), nn.Linear(FEATURES, CLASSES)))
    method.prepare(SimpleNamespace())
    return method


def test_the_loss_is_that_of_the_weighted_sum_of_each_group() -> None:
    method = method_of()
    numbers = [p.detach().double().numpy() for p in method.parameters()]
    head, bias, first, first_bias, second, second_bias = numbers
    losses, worth = [], []
    for a, b in ((0, 1), (2, 3)):
        hidden = np.maximum(first @ np.concatenate([IMAGES[a], IMAGES[b]]) + first_bias, 0)
        weight = softmax(second @ hidden + second_bias)
        clean = weight[0] * IMAGES[a] + weight[1] * IMAGES[b]
        losses.append(-log_softmax(head @ clean + bias)[LABEL[a]])
        worth += (weight / weight.max()).tolist()
    batch = batch_of(torch.tensor(IMAGES, dtype=torch.float32), torch.tensor(LABEL))
    result = method.step(batch, {})
    assert result.loss.item() == pytest.approx(np.mean(losses), rel=1e-5)
    np.testing.assert_allclose(result.clean_likelihood, [*worth, 1, 1, 1], rtol=1e-5)
    assert result.prediction.tolist() == (IMAGES @ head.T + bias).argmax(axis=1).tolist()


def test_a_batch_must_hold_whole_groups() -> None:
    settings = {"method.group_size": 5}
    with pytest.raises(UserError, match=r"batch_size=128 .*group_size=5.*multiple of 5"):
        train("digits-o", method="metacleaner", epochs=1, settings=settings)
