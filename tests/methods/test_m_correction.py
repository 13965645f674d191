"""M-correction in numpy and float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from torch import nn

from josrc.data.loaders import Batch
from josrc.methods._mixup import draw
from josrc.methods.base import StepResult
from josrc.methods.m_correction import MCorrection, MCorrectionSettings

CLEAN, ID = 0, 1
SIZE, CLASSES = 7, 3
generator = np.random.default_rng(0)
IMAGES = generator.normal(scale=2, size=(SIZE, CLASSES))
DRAWS = generator.random((SIZE, 2))
LABEL = np.array([0, 1, 2, 0, 1, 2, 0])
DOUBT = np.array([0.0, 0.9, 0.3, 0.6, 0.1, 0.999, 0.5])


def method_of(doubt: np.ndarray, **settings: Any) -> MCorrection:
    method = MCorrection(MCorrectionSettings(**settings), nn.Identity)
    method.register_buffer("noise_probability", torch.tensor(doubt, dtype=torch.float32))
    return method


def step(method: MCorrection, balance: float) -> StepResult:
    images, draws = (torch.tensor(values, dtype=torch.float32) for values in (IMAGES, DRAWS))
    batch = Batch(torch.arange(SIZE), images, torch.tensor(LABEL), draws)
    return method.step(batch, {"balance": torch.tensor(balance)})


@pytest.mark.parametrize("bootstrap", ["hard", "soft"])
def test_the_loss_weighs_label_and_prediction_of_both_partners(bootstrap: str) -> None:
    method = method_of(DOUBT, bootstrap=bootstrap)
    share = draw(method.quantiles, torch.tensor(DRAWS[0, 1])).item()
    partner = DRAWS[:, 0].argsort()
    log_p = log_softmax(share * IMAGES + (1 - share) * IMAGES[partner], axis=1)
    opinion = softmax(IMAGES, axis=1)
    if bootstrap == "hard":
        opinion = np.eye(CLASSES)[opinion.argmax(axis=1)]

    def corrected(i: int, of: int) -> float:
        own = -log_p[i, LABEL[of]]
        return float((1 - DOUBT[of]) * own - DOUBT[of] * opinion[of] @ log_p[i])

    losses = [
        share * corrected(i, i) + (1 - share) * corrected(i, j) for i, j in enumerate(partner)
    ]
    mean = np.exp(log_p).mean(axis=0)
    balance = (1 / CLASSES * np.log(1 / CLASSES / mean)).sum()
    result = step(method, 0.7)
    assert result.loss.item() == pytest.approx(np.mean(losses) + 0.7 * balance, rel=1e-5)
    np.testing.assert_allclose(result.clean_likelihood, 1 - DOUBT, atol=1e-6)
    assert result.group.tolist() == [CLEAN if doubt < 0.5 else ID for doubt in DOUBT]
    assert result.prediction.tolist() == IMAGES.argmax(axis=1).tolist(), "of the image unmixed"


def test_the_warm_up_is_mixup_alone() -> None:
    method = method_of(np.zeros(SIZE), warm_up=3)
    assert [method.schedule(epoch, 5)["balance"] for epoch in range(5)] == [0, 0, 0, 1, 1]
    share = draw(method.quantiles, torch.tensor(DRAWS[0, 1])).item()
    partner = DRAWS[:, 0].argsort()
    log_p = log_softmax(share * IMAGES + (1 - share) * IMAGES[partner], axis=1)
    rows = range(SIZE)
    expected = -(share * log_p[rows, LABEL] + (1 - share) * log_p[rows, LABEL[partner]]).mean()
    assert step(method, 0.0).loss.item() == pytest.approx(expected, rel=1e-5)


class Losses:
    """A survey of 60 small and 40 large losses."""

    coming = torch.arange(100)

    def losses(self, network: nn.Module, index: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.linspace(0.1, 0.5, 60), torch.linspace(3, 4, 40)])[index]


def test_doubt_comes_from_the_losses_after_the_warm_up() -> None:
    method = method_of(np.zeros(100), warm_up=2)
    method.before_epoch(1, Losses())
    assert (method.noise_probability == 0).all()
    method.before_epoch(2, Losses())
    assert (method.noise_probability[:60] < 0.1).all()
    assert (method.noise_probability[60:] > 0.9).all()
