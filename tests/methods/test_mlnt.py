"""MLNT on a linear network, whose step on wrong labels can be written down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from torch import nn

import josrc
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
    method.prepare(range(SIZE))
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


def test_mentor_and_teacher_begin_as_the_network_after_the_warm_up() -> None:
    method = method_of(warm_up=2, ramp=3)
    for epoch, same in ((1, False), (2, True)):
        method.before_epoch(epoch, None)
        for other in (method.mentor, method.mean_teacher):
            assert torch.equal(other.head.weight, method.network.head.weight) == same
    assert not method.mentor.training
    # From there on it is the running mean of the network alone: a fast one during the ramp.
    start = method.network.head.weight.clone()
    with torch.no_grad():
        method.network.head.weight.add_(1)
    method.after_update()
    torch.testing.assert_close(method.mean_teacher.head.weight, start + 0.01)
    for epoch in (3, 4, 5):
        method.before_epoch(epoch, None)
    method.after_update()
    torch.testing.assert_close(method.mean_teacher.head.weight, start + 0.01 + 0.00099)


def test_the_summary_says_how_many_rounds_there_were() -> None:
    rounds = [method_of(round_epochs=length).facts(9) for length in (0, 9, 4, 3)]
    assert rounds == [{"rounds": count} for count in (1, 1, 3, 3)]


@pytest.mark.slow
def test_rounds_are_trained_to_their_end_and_stand_in_the_summary(tmp_path: Path) -> None:
    settings = {"method.round_epochs": 1, "method.warm_up": 0, "method.synthetic": 1}
    run = josrc.train(
        "digits-o", method="mlnt", noise="symmetric", rate=0.5, epochs=3, out=tmp_path / "r",
        settings=settings | {"model.width": 0.1}, device="cpu",
    )  # fmt: skip
    assert run.summary["rounds"] == 3
    # Each round starts over: the network of its only epoch has learned for one epoch.
    assert len(run.metrics) == 3


class Beliefs:
    """A survey in which the mentor believes all labels but those of two samples."""

    labels = torch.tensor(LABEL)

    def __init__(self) -> None:
        self.asked: list[nn.Module] = []
        self.forgot = 0

    def probabilities(self, networks: list[nn.Module]) -> torch.Tensor:
        self.asked += networks
        found = torch.full((SIZE, CLASSES), 0.3)
        found[[1, 4], LABEL[[1, 4]]] = 0.001
        return found

    def reset_optimizer(self) -> None:
        self.forgot += 1


def test_a_later_round_begins_anew_with_the_last_teacher_as_mentor_and_filter() -> None:
    method = method_of(warm_up=1, ramp=1, round_epochs=4, consistency=2.0)
    survey = Beliefs()
    plan = [method.schedule(epoch, 8) for epoch in range(8)]
    assert [at["consistency"] for at in plan[4:]] == [at["consistency"] for at in plan[:4]]
    assert [at["mentor_share"] for at in plan] == [0] * 4 + [0.5] * 4
    meta = [method.step_for(epoch, 8) == method.step for epoch in range(8)]
    assert meta == [False, True, True, True] * 2
    with torch.no_grad():
        method.before_epoch(3, survey)
        assert not survey.forgot
        method.before_epoch(4, survey)
    assert survey.forgot == 1
    assert survey.asked == [method.mentor]
    np.testing.assert_allclose(method.mentor.head.weight, TAUGHT, rtol=1e-6)
    assert torch.equal(method.network.head.weight, method.first_network.head.weight)
    assert method.kept.tolist() == [1, 0, 1, 1, 0, 1]
    with torch.no_grad():
        method.before_epoch(5, survey)
    np.testing.assert_allclose(method.mentor.head.weight, TAUGHT, rtol=1e-6, err_msg="stays")


def test_samples_that_are_left_out_count_nowhere_and_the_mentor_teaches_too() -> None:
    method = method_of(round_epochs=4)
    kept = np.array([1, 0, 1, 1, 0, 1])
    mentored = generator.normal(size=(CLASSES, FEATURES))
    with torch.no_grad():
        method.kept.copy_(torch.tensor(kept))
        method.mentor.head.weight.copy_(torch.tensor(mentored))
    at = {"consistency": torch.tensor(0.8), "mentor_share": torch.tensor(0.25)}
    log_p = log_softmax(IMAGES @ WEIGHT.T, axis=1)
    taught = 0.75 * softmax(IMAGES @ TAUGHT.T, axis=1) + 0.25 * softmax(IMAGES @ mentored.T, axis=1)
    harm = 0.0
    for number in range(2):
        error = (np.exp(log_p) - np.eye(CLASSES)[wrong_labels(number)]) * kept[:, None]
        moved = WEIGHT - RATE * error.T @ IMAGES / 4
        after = log_softmax(IMAGES @ moved.T, axis=1)
        harm += ((taught * (np.log(taught) - after)).sum(axis=1) * kept).sum() / 4
    own = -(log_p[range(SIZE), LABEL] * kept).sum() / 4
    assert method.step(batch(), at).loss.item() == pytest.approx(own + 0.8 * harm / 2, rel=1e-5)


def test_a_step_that_is_tried_leaves_running_statistics_alone() -> None:
    norm = nn.Sequential(nn.BatchNorm1d(FEATURES), nn.Linear(FEATURES, CLASSES))
    method = MLNT(MLNTSettings(synthetic=3), lambda: Classifier(nn.Identity(), norm))
    method.prepare(range(SIZE))
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
