"""SED by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax

from josrc.methods.sed import SED, SEDSettings
from peers import CLASSES, LABEL, ROWS, SIZE, STRONG, WEAK, batch, made


def test_sed_rewards_the_entropy_of_positive_logits_in_its_warm_up() -> None:
    loss = made(SED, SEDSettings()).warm_up_step(batch(WEAK, STRONG), {}).loss
    positive = np.maximum(WEAK, 0)
    entropy = -(softmax(positive, axis=1) * log_softmax(positive, axis=1)).sum(axis=1)
    expected = (-log_softmax(WEAK, axis=1)[ROWS, LABEL] - entropy).mean()
    assert loss.item() == pytest.approx(expected, rel=1e-5)


def test_sed_selects_and_weighs_by_hand() -> None:
    method = made(SED, SEDSettings(threshold_momentum=0.9, weight_momentum=0.8))
    predicted, taught = softmax(WEAK, axis=1), softmax(STRONG, axis=1)
    method._select(torch.tensor(predicted).float(), torch.tensor(LABEL))
    method._weigh(torch.tensor(taught).float())
    given = predicted[ROWS, LABEL]
    threshold = min(0.9 / CLASSES + 0.1 * np.quantile(given, 0.8), 0.95)
    local = 0.9 / CLASSES + 0.1 * predicted.mean(axis=0)
    clean = given >= threshold * (local / local.max())[LABEL]
    assert method.clean.bool().tolist() == clean.tolist()

    confidence, top = taught.max(axis=1), taught.argmax(axis=1)
    mean, variance = np.zeros(CLASSES), np.ones(CLASSES)
    for c in range(CLASSES):
        own = confidence[top == c]
        if len(own) > 1:
            mean[c], variance[c] = own.mean(), own.var(ddof=1)
    mean, variance = 0.8 / CLASSES + 0.2 * mean, 0.8 + 0.2 * variance
    below = np.minimum(confidence - mean[top], 0)
    weight = np.exp(-(below**2) / (2 * variance[top] / 4))
    np.testing.assert_allclose(method.weight, weight, rtol=1e-4)

    method.weight.copy_(torch.linspace(0, 1, SIZE))
    loss = method.step(batch(WEAK, STRONG), {}).loss
    entropy = -log_softmax(WEAK, axis=1)[ROWS, LABEL]
    corrected = -log_softmax(STRONG, axis=1)[ROWS, top] * np.linspace(0, 1, SIZE)
    assert loss.item() == pytest.approx(entropy[clean].mean() + corrected.mean(), rel=1e-5)
