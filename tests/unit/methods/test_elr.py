"""ELR against its formula."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from josrc.methods.elr import ELR, ELRSettings
from peers import CLASSES, LABEL, ROWS, SIZE, STRONG, WEAK, batch, made


def test_elr_adds_the_logarithm_of_what_differs_from_earlier_predictions() -> None:
    method = made(ELR, ELRSettings(regularization=3, momentum=0.6))
    target = np.zeros((SIZE, CLASSES))
    for logits in (STRONG, WEAK):
        loss = method.step(batch(logits), {}).loss
        predicted = softmax(logits, axis=1).clip(1e-4, 1 - 1e-4)
        target = 0.6 * target + 0.4 * predicted / predicted.sum(axis=1, keepdims=True)
        entropy = -log_softmax(logits, axis=1)[ROWS, LABEL]
        expected = (entropy + 3 * np.log(1 - (target * predicted).sum(axis=1))).mean()
        assert loss.item() == pytest.approx(expected, rel=1e-4)
    np.testing.assert_allclose(method.target, target, atol=1e-5)
