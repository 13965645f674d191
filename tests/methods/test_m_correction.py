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


def step(method: MCorrection, at: dict[str, float]) -> StepResult:
    images, draws = (torch.tensor(values, dtype=torch.float32) for values in (IMAGES, DRAWS))
    batch = Batch(torch.arange(SIZE), images, torch.tensor(LABEL), draws)
    return method.step(batch, {key: torch.tensor(value) for key, value in at.items()})


@pytest.mark.parametrize("bootstrap", ["hard", "soft"])
def test_the_loss_weighs_label_and_prediction_of_both_partners(bootstrap: str) -> None:
    method = method_of(DOUBT, variant="m-dyr", bootstrap=bootstrap, balance=0.7)
    share = draw(method.quantiles, torch.tensor(DRAWS[0, 1])).item()
    partner = DRAWS[:, 0].argsort()
    log_p = log_softmax(share * IMAGES + (1 - share) * IMAGES[partner], axis=1)
    opinion = softmax(IMAGES, axis=1)
    if bootstrap == "hard":
        opinion = np.eye(CLASSES)[opinion.argmax(axis=1)]

    def corrected(i: int, of: int) -> float:
        own = -log_p[i, LABEL[of]]
        return float((1 - DOUBT[of]) * own - DOUBT[of] * opinion[of] @ log_p[i])

    own = share if bootstrap == "hard" else 0.5  # of its target; images are mixed by the share
    losses = [own * corrected(i, i) + (1 - own) * corrected(i, j) for i, j in enumerate(partner)]
    mean = np.exp(log_p).mean(axis=0)
    balance = (1 / CLASSES * np.log(1 / CLASSES / mean)).sum()
    result = step(method, method.schedule(200, 300))
    assert result.loss.item() == pytest.approx(np.mean(losses) + 0.7 * balance, rel=1e-5)
    np.testing.assert_allclose(result.clean_likelihood, 1 - DOUBT, atol=1e-6)
    assert result.group.tolist() == [CLEAN if doubt < 0.5 else ID for doubt in DOUBT]
    assert result.prediction.tolist() == IMAGES.argmax(axis=1).tolist(), "of the image unmixed"


def test_the_warm_up_is_mixup_alone() -> None:
    method = method_of(np.zeros(SIZE), variant="m-dyr", warm_up=3)
    assert [method.schedule(epoch, 5)["corrected"] for epoch in range(5)] == [0, 0, 0, 1, 1]
    share = draw(method.quantiles, torch.tensor(DRAWS[0, 1])).item()
    partner = DRAWS[:, 0].argsort()
    log_p = log_softmax(share * IMAGES + (1 - share) * IMAGES[partner], axis=1)
    rows = range(SIZE)
    expected = -(share * log_p[rows, LABEL] + (1 - share) * log_p[rows, LABEL[partner]]).mean()
    for variant in ("m-dyr", "md-dyr-sh"):
        method = method_of(np.zeros(SIZE), variant=variant, warm_up=3)
        found = step(method, method.schedule(2, 5))
        assert found.loss.item() == pytest.approx(expected, rel=1e-5)


def guided(partner: np.ndarray) -> np.ndarray:
    """The mixed images of MD-DYR-SH: each sample counts as its label is trusted."""
    trust = 1 - DOUBT
    share = (trust / (trust + trust[partner]))[:, None]
    return share * IMAGES + (1 - share) * IMAGES[partner]


def test_guided_mixup_learns_given_labels_before_predictions_count() -> None:
    method = method_of(DOUBT, warm_up=3, guided=2, hardening=4)
    share = draw(method.quantiles, torch.tensor(DRAWS[0, 1])).item()
    partner = DRAWS[:, 0].argsort()
    log_p = log_softmax(guided(partner), axis=1)
    rows = range(SIZE)
    expected = -(share * log_p[rows, LABEL] + (1 - share) * log_p[rows, LABEL[partner]]).mean()
    assert step(method, method.schedule(4, 20)).loss.item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("epoch", "temperature"), [(5, 1.0), (7, 1 - 0.999 / 2), (15, 0.001)])
def test_predictions_then_stand_in_and_turn_from_soft_to_hard(
    epoch: int, temperature: float
) -> None:
    method = method_of(DOUBT, warm_up=3, guided=2, hardening=4, balance=0.7)
    at = method.schedule(epoch, 20)
    assert at["temperature"] == pytest.approx(temperature)
    partner = DRAWS[:, 0].argsort()
    log_p = log_softmax(guided(partner), axis=1)
    opinion = softmax(IMAGES / temperature, axis=1)
    given = -np.eye(CLASSES)[LABEL] * log_p, -np.eye(CLASSES)[LABEL[partner]] * log_p
    said = -opinion * log_p, -opinion[partner] * log_p
    losses = sum(
        0.5 * ((1 - doubt) * own.sum(axis=1) + doubt * other.sum(axis=1))
        for doubt, own, other in zip((DOUBT, DOUBT[partner]), given, said, strict=True)
    )
    mean = np.exp(log_p).mean(axis=0)
    balance = (1 / CLASSES * np.log(1 / CLASSES / mean)).sum()
    found = step(method, at).loss.item()
    assert found == pytest.approx(np.mean(losses) + 0.7 * balance, rel=1e-4)


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
