"""DivideMix written down once more in numpy and float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from torch import nn

from josrc.data.loaders import Batch
from josrc.methods._mixup import draw
from josrc.methods.dividemix import DivideMix, DivideMixSettings, sharpen

Array = np.ndarray
CLEAN, ID = 0, 1
SIZE, CLASSES, FEATURES = 6, 3, 5
generator = np.random.default_rng(0)
IMAGES = generator.normal(size=(2 * SIZE, FEATURES))
DRAWS = generator.random((SIZE, 6))
LABEL = np.array([0, 1, 2, 0, 1, 2])
TRUST = np.array([[0.9, 0.8, 0.1, 0.2, 0.6, 0.4], [0.7, 0.3, 0.3, 0.9, 0.55, 0.1]])


def dividemix(**settings: Any) -> DivideMix:
    torch.manual_seed(1)
    method = DivideMix(
        DivideMixSettings(**settings), lambda: nn.Linear(FEATURES, CLASSES, bias=False)
    )
    method.register_buffer("clean_probability", torch.tensor(TRUST, dtype=torch.float32))
    return method


def batch() -> Batch:
    images, draws = (torch.tensor(values, dtype=torch.float32) for values in (IMAGES, DRAWS))
    return Batch(torch.arange(SIZE), images, torch.tensor(LABEL), draws)


def by_hand(method: DivideMix, weight: float) -> float:
    """The loss of both networks, loop by loop."""
    weights = [n.weight.detach().double().numpy() for n in (method.network, method.second_network)]
    views = [softmax(IMAGES @ w.T, axis=1).reshape(2, SIZE, CLASSES).mean(axis=0) for w in weights]
    total = 0.0
    for place in (0, 1):
        targets, labelled = [], []
        for i in range(SIZE):
            w = TRUST[1 - place][i]
            if w > 0.5:
                q = w * np.eye(CLASSES)[LABEL[i]] + (1 - w) * views[place][i]
            else:
                q = (views[0][i] + views[1][i]) / 2
            targets.append(q**2 / (q**2).sum())
            labelled.append(w > 0.5)
        target, is_labelled = np.array(targets * 2), np.array(labelled * 2)
        numbers = DRAWS[:, 2 * place : 2 * place + 2].T.flatten()
        partner = numbers.argsort()
        share = draw(method.quantiles, torch.tensor(DRAWS[0, 4 + place])).item()
        share = max(share, 1 - share)
        mixed = share * IMAGES + (1 - share) * IMAGES[partner]
        mixed_target = share * target + (1 - share) * target[partner]
        logits = mixed @ weights[place].T
        entropy = -(mixed_target * log_softmax(logits, axis=1)).sum(axis=1)
        square = ((softmax(logits, axis=1) - mixed_target) ** 2).mean(axis=1)
        mean = softmax(logits, axis=1).mean(axis=0)
        penalty = (1 / CLASSES * np.log(1 / CLASSES / mean)).sum()
        total += entropy[is_labelled].mean() + weight * square[~is_labelled].mean() + penalty
    return total


@pytest.mark.parametrize("weight", [0.0, 30.0])
def test_the_semi_supervised_loss(weight: float) -> None:
    method = dividemix()
    result = method.step(batch(), {"unlabelled_weight": torch.tensor(weight)})
    assert result.loss.item() == pytest.approx(by_hand(method, weight), rel=1e-4)
    mean = TRUST.mean(axis=0)
    np.testing.assert_allclose(result.clean_likelihood, mean, rtol=1e-5)
    assert result.group.tolist() == [CLEAN if p > 0.5 else ID for p in mean]


def test_the_gradient_is_that_of_the_mixed_predictions_alone() -> None:
    """Guessed labels are targets: nudging a network must not move the other one's loss."""
    method = dividemix()
    loss = method._semi_supervised(
        0,
        batch(),
        torch.tensor(TRUST, dtype=torch.float32),
        [torch.full((SIZE, CLASSES), 1 / 3)] * 2,
        {"unlabelled_weight": torch.tensor(1.0)},
    )
    loss.backward()
    assert method.network.weight.grad is not None
    assert method.second_network.weight.grad is None


def test_the_warm_up_is_cross_entropy_on_the_first_view() -> None:
    method = dividemix()
    weights = [n.weight.detach().double().numpy() for n in (method.network, method.second_network)]
    expected = sum(
        -log_softmax(IMAGES[:SIZE] @ w.T, axis=1)[range(SIZE), LABEL].mean() for w in weights
    )
    result = method.step_for(0, 300)(batch(), {"unlabelled_weight": torch.tensor(0.0)})
    assert result.loss.item() == pytest.approx(expected, rel=1e-5)
    assert result.group.tolist() == [CLEAN] * SIZE
    careful = dividemix(confidence_penalty=True)
    p = [softmax(IMAGES[:SIZE] @ w.T, axis=1) for w in weights]
    expected += sum((q * np.log(q)).sum(axis=1).mean() for q in p)
    result = careful.step_for(0, 300)(batch(), {"unlabelled_weight": torch.tensor(0.0)})
    assert result.loss.item() == pytest.approx(expected, rel=1e-5)


def test_sharpening_by_hand() -> None:
    found = sharpen(torch.tensor([[0.6, 0.3, 0.1]]), 0.5)
    np.testing.assert_allclose(found, [[0.36 / 0.46, 0.09 / 0.46, 0.01 / 0.46]], rtol=1e-5)


def test_the_weight_of_unlabelled_samples_rises_after_the_warm_up() -> None:
    method = DivideMix(
        DivideMixSettings(warm_up=2, unlabelled_ramp=4, unlabelled_weight=20), nn.Identity
    )
    weights = [method.schedule(epoch, 9)["unlabelled_weight"] for epoch in range(9)]
    assert weights == [0, 0, 0, 5, 10, 15, 20, 20, 20]
    steps = [method.step_for(epoch, 9) for epoch in (1, 2)]
    assert steps == [method.warm_up_step, method.step]


class Losses:
    """A survey in which the first samples have small losses for both networks."""

    def __init__(self, *heaps: tuple[float, int]) -> None:
        self.values = torch.cat([torch.full((count,), value) for value, count in heaps])
        self.coming = torch.arange(len(self.values))

    def losses(self, network: nn.Module, index: torch.Tensor) -> torch.Tensor:
        noise = torch.linspace(-0.1, 0.1, len(self.values))
        return (self.values + noise)[index]


def test_samples_are_divided_by_their_losses_after_the_warm_up() -> None:
    method = DivideMix(DivideMixSettings(warm_up=1, loss_epochs=2), lambda: nn.Linear(2, 2))
    method.register_buffer("clean_probability", torch.ones(2, 100))
    method.register_buffer("losses", torch.zeros(2, 2, 100))
    with torch.no_grad():
        method.before_epoch(0, Losses((5.0, 100)))
        assert (method.clean_probability == 1).all()
        method.before_epoch(1, Losses((0.2, 60), (4.0, 40)))
        assert (method.clean_probability[:, :60] > 0.99).all()
        assert (method.clean_probability[:, 60:] < 0.01).all()
        # The mean of two epochs: 4.0 and 0.2 in the middle is as far from both ends.
        method.before_epoch(2, Losses((0.2, 100)))
        np.testing.assert_allclose(method.losses[:, 0, 80], [4.06, 0.26], atol=0.01)


def test_what_is_tested_is_the_ensemble() -> None:
    method = dividemix()
    images = torch.tensor(IMAGES, dtype=torch.float32)
    both = method.network(images) + method.second_network(images)
    (tested,) = method.tested
    torch.testing.assert_close(tested(images), both)
