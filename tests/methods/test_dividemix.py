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
from josrc.methods.dividemix import DivideMix, DivideMixSettings, in_evaluation, sharpen

Array = np.ndarray
CLEAN, ID = 0, 1
# Sixteen samples: four times labelled and unlabelled of the first, then of the second network.
SIZE, HALF, CLASSES, FEATURES = 16, 4, 3, 5
generator = np.random.default_rng(0)
IMAGES = generator.normal(size=(2 * SIZE, FEATURES))
DRAWS = generator.random((SIZE, 3))
LABEL = np.arange(SIZE) % 3
TRUST = generator.random((2, SIZE))


class Doubling(nn.Module):
    """Linear; in training mode its logits are twice as large, so that it shows which it is in."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(CLASSES, FEATURES))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images @ self.weight.T * (2 if self.training else 1)


def dividemix(**settings: Any) -> DivideMix:
    torch.manual_seed(1)
    method = DivideMix(DivideMixSettings(**settings), Doubling)
    method.register_buffer("clean_probability", torch.tensor(TRUST, dtype=torch.float32))
    method.register_buffer("steps_done", torch.zeros(()))
    method.register_buffer("steps", torch.ones(()))
    method._resting = (in_evaluation(method.network), in_evaluation(method.second_network))
    return method


def batch() -> Batch:
    images, draws = (torch.tensor(values, dtype=torch.float32) for values in (IMAGES, DRAWS))
    return Batch(torch.arange(SIZE), images, torch.tensor(LABEL), draws)


def weights_of(method: DivideMix) -> list[Array]:
    return [n.weight.detach().double().numpy() for n in (method.network, method.second_network)]


def by_hand(method: DivideMix, place: int, weight: float) -> float:
    """The loss of a network, loop by loop."""
    own, other = weights_of(method)[:: 1 - 2 * place]
    labelled = [4 * j + 2 * place for j in range(HALF)]
    unlabelled = [i + 1 for i in labelled]
    refined, guessed = [], []
    for i in labelled:  # the learner in training mode, on both views
        p = np.mean([softmax(2 * IMAGES[i + v] @ own.T) for v in (0, SIZE)], axis=0)
        w = TRUST[1 - place][i]
        q = w * np.eye(CLASSES)[LABEL[i]] + (1 - w) * p
        refined.append(q**2 / (q**2).sum())
    for i in unlabelled:  # and the other one at rest
        views = [IMAGES[i], IMAGES[i + SIZE]]
        guesses = [softmax(2 * x @ own.T) for x in views] + [softmax(x @ other.T) for x in views]
        q = np.mean(guesses, axis=0)
        guessed.append(q**2 / (q**2).sum())
    target = np.array([*refined, *refined, *guessed, *guessed])
    rows = [i + v for part in (labelled, unlabelled) for v in (0, SIZE) for i in part]
    images = IMAGES[rows]
    drawn = DRAWS[labelled + unlabelled]
    partner = drawn[:, :2].T.flatten().argsort()
    share = draw(method.quantiles, torch.tensor(drawn[0, 2])).item()
    share = max(share, 1 - share)
    mixed = share * images + (1 - share) * images[partner]
    target = share * target + (1 - share) * target[partner]
    logits = 2 * mixed @ own.T
    entropy = -(target * log_softmax(logits, axis=1)).sum(axis=1)[: 2 * HALF].mean()
    square = ((softmax(logits, axis=1) - target) ** 2).mean(axis=1)[2 * HALF :].mean()
    mean = softmax(logits, axis=1).mean(axis=0)
    penalty = (1 / CLASSES * np.log(1 / CLASSES / mean)).sum()
    return float(entropy + weight * square + penalty)


@pytest.mark.parametrize("weight", [0.0, 30.0])
def test_the_semi_supervised_loss(weight: float) -> None:
    method = dividemix(unlabelled_weight=weight, unlabelled_ramp=4)
    result = method.step(batch(), {"since": torch.tensor(9.0)})
    expected = by_hand(method, 0, weight) + by_hand(method, 1, weight)
    assert result.loss.item() == pytest.approx(expected, rel=1e-4)


def test_findings_are_of_the_first_networks_samples() -> None:
    method = dividemix()
    result = method.step(batch(), {"since": torch.tensor(1.0)})
    seen = [0, 4, 8, 12, 1, 5, 9, 13]
    assert result.index.tolist() == seen
    mean = TRUST.mean(axis=0)[seen]
    np.testing.assert_allclose(result.clean_likelihood, mean, rtol=1e-5)
    assert result.group.tolist() == [CLEAN if p > 0.5 else ID for p in mean]
    own, other = weights_of(method)
    assert result.prediction.tolist() == (IMAGES[seen] @ own.T).argmax(axis=1).tolist()
    assert result.second_prediction.tolist() == (IMAGES[seen] @ other.T).argmax(axis=1).tolist()


def test_the_gradient_is_that_of_the_mixed_predictions_alone() -> None:
    """Guessed labels are targets: nudging a network must not move the other one's loss."""
    method = dividemix()
    loss, _ = method._semi_supervised(0, batch(), torch.tensor(1.0))
    loss.backward()
    assert method.network.weight.grad is not None
    assert method.second_network.weight.grad is None


def test_a_network_at_rest_has_the_weights_and_statistics_of_the_other() -> None:
    network = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    twin = in_evaluation(network)
    network(torch.randn(8, 3))
    with torch.no_grad():
        network[0].weight.fill_(2)
    assert not twin[1].training
    assert network[1].training
    for value, other in zip(network.state_dict().values(), twin.state_dict().values(), strict=True):
        assert torch.equal(value, other)


class Walks:
    """A survey of 100 samples in batches of 20."""

    coming, batch_size, seed = torch.arange(100), 20, 7


def test_each_network_has_as_many_labelled_as_unlabelled_samples_and_sees_all_labelled() -> None:
    method = dividemix(warm_up=3)
    trust = torch.zeros(2, 100)
    trust[0, :70], trust[1, 10:40] = 1, 1  # the second network learns from 70, the first from 30
    method.clean_probability = trust
    assert method.order(2, Walks()) is None, "the warm-up has all samples"
    order = method.order(3, Walks())
    # 70 // 10 + 1 steps, each with ten samples of four kinds.
    assert order.size == 40
    assert len(order.index) == 8 * 40
    first, first_not, second, second_not = order.index.view(-1, 4).T
    assert set(first.tolist()) == set(range(10, 40)), "again and again"
    assert sorted(first.tolist()[:30]) == list(range(10, 40))
    assert sorted(second.tolist()[:70]) == list(range(70))
    assert set(first_not.tolist()) == set(range(10)) | set(range(40, 100))
    assert set(second_not.tolist()) == set(range(70, 100))
    again = method.order(3, Walks())
    assert torch.equal(order.index, again.index), "a resumed run goes on with it"


def test_where_nothing_is_doubted_all_samples_are_unlabelled_too() -> None:
    method = dividemix(warm_up=0)
    method.clean_probability = torch.ones(2, 100)
    first_not = method.order(0, Walks()).index.view(-1, 4)[:, 1]
    assert set(first_not.tolist()) == set(range(100))


def test_the_warm_up_is_cross_entropy_on_the_first_view() -> None:
    method = dividemix()
    weights = [2 * w for w in weights_of(method)]
    expected = sum(
        -log_softmax(IMAGES[:SIZE] @ w.T, axis=1)[range(SIZE), LABEL].mean() for w in weights
    )
    result = method.step_for(0, 300)(batch(), {"since": torch.tensor(0.0)})
    assert result.loss.item() == pytest.approx(expected, rel=1e-5)
    assert result.group.tolist() == [CLEAN] * SIZE
    careful = dividemix(confidence_penalty=True)
    p = [softmax(IMAGES[:SIZE] @ w.T, axis=1) for w in weights]
    expected += sum((q * np.log(q)).sum(axis=1).mean() for q in p)
    result = careful.step_for(0, 300)(batch(), {"since": torch.tensor(0.0)})
    assert result.loss.item() == pytest.approx(expected, rel=1e-5)


def test_sharpening_by_hand() -> None:
    found = sharpen(torch.tensor([[0.6, 0.3, 0.1]]), 0.5)
    np.testing.assert_allclose(found, [[0.36 / 0.46, 0.09 / 0.46, 0.01 / 0.46]], rtol=1e-5)


def test_the_weight_of_unlabelled_samples_rises_from_step_to_step() -> None:
    """The code's ramp: (epoch + batch / batches - warm-up) / length, between 0 and 1."""
    method = dividemix(warm_up=2, unlabelled_ramp=4, unlabelled_weight=20.0)
    method.losses = torch.zeros(1, 2, SIZE)
    method.steps.fill_(5)
    found = []
    for epoch in range(1, 8):
        method.steps_done.zero_()
        since = torch.tensor(method.schedule(epoch, 9)["since"])
        for _ in range(5):
            found.append(method._unlabelled_weight(since).item())
            method.steps_done += 1
    expected = [
        20 * min(max(epoch + step / 5 - 2, 0), 4) / 4 for epoch in range(2, 8) for step in range(5)
    ]
    assert found[5:] == pytest.approx(expected)
    method.before_epoch(1, None)
    assert method.steps_done == 0
    steps = [method.step_for(epoch, 9) for epoch in (1, 2)]
    assert steps == [method.warm_up_step, method.step]


def test_a_step_counts_itself() -> None:
    method = dividemix(unlabelled_ramp=2, unlabelled_weight=8.0)
    method.steps.fill_(4)
    at = {"since": torch.tensor(0.0)}
    losses = [method.step(batch(), at).loss.item() for _ in range(3)]
    expected = [by_hand(method, 0, w) + by_hand(method, 1, w) for w in (0.0, 1.0, 2.0)]
    assert losses == pytest.approx(expected, rel=1e-4)


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
    method.prepare(range(100))
    with torch.no_grad():
        method.before_epoch(0, Losses((5.0, 100)))
        assert (method.clean_probability == 1).all()
        method.before_epoch(1, Losses((0.2, 60), (4.0, 40)))
        assert (method.clean_probability[:, :60] > 0.99).all()
        assert (method.clean_probability[:, 60:] < 0.01).all()
        # Of either epoch from 0 to 1: 4.06 of 0.1 to 4.1, and 0.26 of 0.1 to 0.3.
        method.before_epoch(2, Losses((0.2, 100)))
        np.testing.assert_allclose(method.losses[:, 0, 80], [0.99, 0.81], atol=0.01)


def test_what_is_tested_is_the_ensemble() -> None:
    method = dividemix()
    images = torch.tensor(IMAGES, dtype=torch.float32)
    both = method.network(images) + method.second_network(images)
    (tested,) = method.tested
    torch.testing.assert_close(tested(images), both)
