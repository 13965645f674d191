"""F-correction by hand: the matrix, the loss, and what it makes of a label."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch import nn

from batches import batch_of
from josrc.errors import UserError
from josrc.methods.base import StepResult
from josrc.methods.f_correction import (
    FCorrection,
    FCorrectionSettings,
    estimate_transitions,
    read_matrix,
)

CLEAN, ID = 0, 1


def method_of(samples: int, classes: int, **settings: Any) -> FCorrection:
    method = FCorrection(
        FCorrectionSettings(**settings), lambda: nn.Linear(classes, classes, bias=False)
    )
    with torch.no_grad():
        method.network.weight.copy_(torch.eye(classes))
    torch.manual_seed(0)
    method.prepare(Samples(samples, classes))
    return method


class Samples:
    """As many samples of as many classes, of which nothing else is asked."""

    def __init__(self, samples: int, classes: int) -> None:
        self.samples, self.closed = samples, classes

    def __len__(self) -> int:
        return self.samples


def step(
    logits: np.ndarray, label: list[int], transitions: np.ndarray, **settings: Any
) -> StepResult:
    method = method_of(*logits.shape, **({"holdout": 0} | settings))
    method._correct_by(torch.tensor(transitions, dtype=torch.float32))
    images = torch.tensor(logits, dtype=torch.float32)
    return method.step(batch_of(images, torch.tensor(label)), {})


def test_a_confused_label_is_read_as_the_class_it_stands_for() -> None:
    # Half of class 0 is labelled 1. The network is sure of class 0, the given label is 1.
    transitions = np.array([[0.5, 0.5], [0.0, 1.0]])
    result = step(np.log([[0.9, 0.1]]), [1], transitions)
    assert result.loss.item() == pytest.approx(-math.log(0.9 * 0.5 + 0.1), rel=1e-5)
    assert result.clean_likelihood.item() == pytest.approx(0.1 / 0.55, rel=1e-5)
    assert result.group.item() == ID


def test_the_loss_is_that_of_the_confused_prediction() -> None:
    generator = np.random.default_rng(0)
    logits, label = generator.normal(scale=3, size=(20, 4)), np.arange(20) % 4
    transitions = generator.dirichlet(np.ones(4), size=4)
    expected = -np.log((softmax(logits, axis=1) @ transitions)[range(20), label]).mean()
    result = step(logits, label.tolist(), transitions)
    assert result.loss.item() == pytest.approx(expected, rel=1e-5)


def test_before_the_estimate_it_is_cross_entropy_with_a_finite_gradient() -> None:
    logits = torch.tensor([[3.0, -1.0, 0.5], [-40.0, 60.0, 0.0]], requires_grad=True)
    method = method_of(2, 3, holdout=0)
    label = torch.tensor([2, 0])
    loss = method.step(batch_of(logits, label), {}).loss
    (gradient,) = torch.autograd.grad(loss, logits)
    expected = torch.nn.functional.cross_entropy(logits, label)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, logits)[0])


def test_each_row_is_the_prediction_of_the_sample_surest_of_the_class() -> None:
    predictions = torch.tensor([[0.7, 0.3], [0.9, 0.1], [0.4, 0.6], [0.2, 0.8]])
    surest = estimate_transitions(predictions, 100)
    torch.testing.assert_close(surest, torch.tensor([[0.9, 0.1], [0.2, 0.8]]))
    # Without the surest of four (the 97th percentile, rounded up) it is the second.
    second = estimate_transitions(predictions, 97)
    torch.testing.assert_close(second, torch.tensor([[0.7, 0.3], [0.4, 0.6]]))


def test_the_backward_loss_is_the_inverse_of_the_matrix_times_the_losses() -> None:
    generator = np.random.default_rng(0)
    logits, label = generator.normal(scale=2, size=(20, 4)), np.arange(20) % 4
    transitions = 0.6 * np.eye(4) + 0.4 * generator.dirichlet(np.ones(4), size=4)
    log_p = np.log(softmax(logits, axis=1))
    inverse = np.linalg.inv(transitions)
    expected = np.mean([-inverse[y] @ row for y, row in zip(label, log_p, strict=True)])
    result = step(logits, label.tolist(), transitions, variant="backward")
    assert result.loss.item() == pytest.approx(expected, rel=1e-4)


def test_over_confused_labels_the_backward_loss_is_that_of_the_true_class() -> None:
    """The paper's Theorem 1, with the label drawn in its whole distribution."""
    transitions, logits = np.array([[0.7, 0.3], [0.2, 0.8]]), np.log([[0.9, 0.1]])
    given = [step(logits, [y], transitions, variant="backward").loss.item() for y in (0, 1)]
    assert 0.7 * given[0] + 0.3 * given[1] == pytest.approx(-math.log(0.9), rel=1e-4)


def test_images_held_out_teach_nothing() -> None:
    method = method_of(40, 3, holdout=0.25)
    assert method.held.sum() == 10
    images = torch.randn(40, 3, requires_grad=True)
    loss = method.step(batch_of(images, torch.arange(40) % 3), {}).loss
    (gradient,) = torch.autograd.grad(loss, images)
    assert ((gradient == 0).all(dim=1) == method.held).all()


class Answers:
    """A survey of a network that is as good as it is told to be."""

    def __init__(self, method: FCorrection) -> None:
        self.labels = torch.arange(len(method.held)) % 3
        self.forgot = 0

    def logits(self, network: nn.Module, index: torch.Tensor | None = None) -> torch.Tensor:
        labels = self.labels if index is None else self.labels[index]
        return network.weight[0, 0] * torch.nn.functional.one_hot(labels, 3)

    def reset_optimizer(self) -> None:
        self.forgot += 1


def test_each_training_keeps_its_best_epoch_and_the_second_begins_with_that_of_the_first() -> None:
    method = method_of(40, 3, warm_up=3)
    survey = Answers(method)
    tested = []
    # How right each epoch's network is; the second training has the fourth to the sixth.
    for epoch, quality in enumerate((1.0, 3.0, 2.0, 0.5, 1.5, 0.0)):
        with torch.no_grad():
            method.before_epoch(epoch, survey)
            if epoch == 3:
                assert method.network.weight[0, 0] == 3.0, "the best of the first training"
                likeliest = math.exp(3) / (math.exp(3) + 2)
                assert method.transitions[0, 0].item() == pytest.approx(likeliest, rel=1e-5)
            method.network.weight[0, 0] = quality
            method.after_epoch(epoch, survey)
        (network,) = method.tested
        tested.append(network.weight[0, 0].item())
    assert tested == [1.0, 3.0, 3.0, 0.5, 1.5, 1.5]
    assert survey.forgot == 1


def test_without_images_held_out_the_second_training_goes_on_with_a_fresh_optimizer() -> None:
    method = method_of(40, 3, warm_up=2, holdout=0)
    survey = Answers(method)
    weight = method.network.weight.clone()
    forgot = []
    for epoch in range(4):
        with torch.no_grad():
            method.before_epoch(epoch, survey)
        forgot.append(survey.forgot)
    assert forgot == [0, 0, 1, 1]
    assert torch.equal(method.network.weight, weight)


def test_a_given_matrix_corrects_from_the_first_epoch(tmp_path: Path) -> None:
    known = np.array([[0.8, 0.2], [0.4, 0.6]])
    np.save(tmp_path / "t.npy", known)
    np.savetxt(tmp_path / "t.csv", known, delimiter=",")
    for name in ("t.npy", "t.csv"):
        method = method_of(4, 2, matrix=tmp_path / name, warm_up=0, holdout=0)
        method.before_epoch(0, None)
        np.testing.assert_allclose(method.transitions, known, rtol=1e-6)
    logits = torch.tensor([[0.9, 0.1]]).log()
    result = method.step(batch_of(logits, torch.tensor([1])), {})
    assert result.loss.item() == pytest.approx(-math.log(0.9 * 0.2 + 0.1 * 0.6), rel=1e-5)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("0.5,0.5\n", r"is 1 x 2; the data has 2 classes"),
        ("0.5,0.6\n0,1\n", "does not hold probabilities"),
        ("1.5,-0.5\n0,1\n", "does not hold probabilities"),
        ("a,b\nc,d\n", "can't be read as a matrix"),
    ],
)
def test_what_is_no_matrix_is_explained(tmp_path: Path, rows: str, message: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(rows)
    with pytest.raises(UserError, match=message):
        read_matrix(path, 2)
    with pytest.raises(UserError, match="can't be read"):
        read_matrix(tmp_path / "none.npy", 2)


def test_weights_of_a_run_that_chose_no_epoch_are_tested_as_they_are() -> None:
    method = method_of(4, 2)
    method.load_weights({"network.weight": torch.full((2, 2), 3.0)})
    (network,) = method.tested
    assert (network.weight == 3).all()
