"""MLNT on a linear network, whose step on wrong labels can be written down."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from torch import nn

from josrc.data.loaders import Batch
from josrc.methods.mlnt import MLNT, MLNTSettings, nearest
from josrc.models import Classifier

Array = np.ndarray
SIZE, FEATURES, CLASSES = 6, 4, 3
generator = np.random.default_rng(0)
IMAGES = generator.normal(size=(SIZE, FEATURES))
WEIGHT, TAUGHT = generator.normal(size=(2, CLASSES, FEATURES))
LABEL = np.array([0, 1, 2, 0, 1, 2])
DRAWS = generator.random((SIZE, 4))
RATE = 0.5


def method_of(**settings: Any) -> MLNT:
    values = {"synthetic": 2, "neighbours": 2, "meta_rate": RATE, **settings}
    method = MLNT(
        MLNTSettings(**values),
        lambda: Classifier(nn.Identity(), nn.Linear(FEATURES, CLASSES, bias=False)),
    )
    with torch.no_grad():
        method.network.head.weight.copy_(torch.tensor(WEIGHT))
        method.mean_teacher.head.weight.copy_(torch.tensor(TAUGHT))
    return method


def batch() -> Batch:
    images, draws = (torch.tensor(values, dtype=torch.float32) for values in (IMAGES, DRAWS))
    return Batch(torch.arange(SIZE), images, torch.tensor(LABEL), draws)


def wrong_labels(number: int) -> Array:
    """Half of the batch carries the label of one of its two nearest."""
    distance = ((IMAGES[:, None] - IMAGES[None]) ** 2).sum(axis=2)
    np.fill_diagonal(distance, np.inf)
    near = distance.argsort(axis=1)[:, :2]
    who, which = DRAWS[:, 2 * number], DRAWS[:, 2 * number + 1]
    labels = LABEL.copy()
    for i in who.argsort()[:3]:
        labels[i] = LABEL[near[i, int(which[i] * 2)]]
    return labels


def by_hand(weight: Array, consistency: float) -> float:
    log_p = log_softmax(IMAGES @ weight.T, axis=1)
    taught = softmax(IMAGES @ TAUGHT.T, axis=1)
    harm = 0.0
    for number in range(2):
        error = np.exp(log_p) - np.eye(CLASSES)[wrong_labels(number)]
        moved = weight - RATE * error.T @ IMAGES / SIZE
        after = log_softmax(IMAGES @ moved.T, axis=1)
        harm += (taught * (np.log(taught) - after)).sum(axis=1).mean()
    return float(-log_p[range(SIZE), LABEL].mean() + consistency * harm / 2)


def test_the_loss_is_cross_entropy_and_the_harm_of_steps_on_wrong_labels() -> None:
    method = method_of()
    result = method.step(batch(), {"consistency": torch.tensor(0.8)})
    assert result.loss.item() == pytest.approx(by_hand(WEIGHT, 0.8), rel=1e-5)
    top = (IMAGES @ TAUGHT.T).argmax(axis=1)
    assert result.second_prediction.tolist() == top.tolist()


def test_the_gradient_goes_through_the_step_that_is_tried() -> None:
    method = method_of()
    method.step(batch(), {"consistency": torch.tensor(0.8)}).loss.backward()
    expected = np.zeros_like(WEIGHT)
    for place in np.ndindex(*WEIGHT.shape):
        nudge = np.zeros_like(WEIGHT)
        nudge[place] = 1e-5
        rise = by_hand(WEIGHT + nudge, 0.8) - by_hand(WEIGHT - nudge, 0.8)
        expected[place] = rise / 2e-5
    np.testing.assert_allclose(method.network.head.weight.grad, expected, atol=1e-5)
    simple = method_of(second_order=False)
    simple.step(batch(), {"consistency": torch.tensor(0.8)}).loss.backward()
    assert np.abs(simple.network.head.weight.grad.numpy() - expected).max() > 1e-3


def test_the_warm_up_is_cross_entropy() -> None:
    method = method_of(warm_up=2, ramp=2, consistency=4.0)
    steps = [method.step_for(epoch, 5) for epoch in (1, 2)]
    assert steps == [method.warm_up_step, method.step]
    weights = [method.schedule(epoch, 5)["consistency"] for epoch in range(5)]
    assert weights == pytest.approx([0, 0, 4 * np.exp(-5), 4 * np.exp(-1.25), 4])
    loss = steps[0](batch(), {"consistency": torch.tensor(0.0)}).loss.item()
    assert loss == pytest.approx(by_hand(WEIGHT, 0.0), rel=1e-5)


def test_the_mentor_is_the_network_after_the_warm_up() -> None:
    method = method_of(warm_up=2)
    for epoch, same in ((1, False), (2, True)):
        method.before_epoch(epoch, None)
        assert torch.equal(method.mentor.head.weight, method.network.head.weight) == same
    assert not method.mentor.training


def test_a_step_that_is_tried_leaves_running_statistics_alone() -> None:
    norm = nn.Sequential(nn.BatchNorm1d(FEATURES), nn.Linear(FEATURES, CLASSES))
    method = MLNT(MLNTSettings(synthetic=3), lambda: Classifier(nn.Identity(), norm))
    assert method.needs.draws == 6
    draws = torch.rand(SIZE, 6)
    whole = Batch(batch().index, batch().images, batch().label, draws)
    method.step(whole, {"consistency": torch.tensor(1.0)}).loss.backward()
    mean = 0.1 * IMAGES.mean(axis=0)
    np.testing.assert_allclose(method.network.head[0].running_mean, mean, rtol=1e-5)


def test_a_step_that_tries_few_label_sets_is_compiled() -> None:
    assert [method_of(synthetic=number).compiles for number in (1, 2, 10)] == [True, True, False]


def test_the_nearest_are_others() -> None:
    features = torch.tensor([[0.0], [1.0], [3.0], [3.5]])
    assert nearest(features, 1).squeeze(1).tolist() == [1, 0, 3, 2]
    assert nearest(features, 9).shape == (4, 3)
