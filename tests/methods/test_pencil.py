"""PENCIL against its loss in float64 and the gradients that torch finds for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.special import log_softmax, softmax
from torch import nn

import josrc
from batches import batch_of
from josrc.methods.base import StepResult
from josrc.methods.pencil import Pencil, PencilSettings
from josrc.runs.start import configure

CLEAN, ID = 0, 1
STAGE_1 = {"given": 1.0, "moving": 0.0}
STAGE_2 = {"given": 0.0, "moving": 1.0}
STAGE_3 = {"given": 0.0, "moving": 0.0}
generator = np.random.default_rng(0)
LOGITS, LABELS = generator.normal(scale=2, size=(2, 12, 4))
GIVEN = np.arange(12) % 4


def pencil(**settings: Any) -> Pencil:
    method = Pencil(PencilSettings(**settings), nn.Identity)
    method.register_buffer("label_logits", torch.tensor(LABELS, dtype=torch.float32))
    return method


def step(method: Pencil, stage: dict[str, float]) -> StepResult:
    images = torch.tensor(LOGITS, dtype=torch.float32)
    batch = batch_of(images, torch.tensor(GIVEN))
    return method.step(batch, {key: torch.tensor(value) for key, value in stage.items()})


def test_the_loss_of_each_stage() -> None:
    log_f, log_y = log_softmax(LOGITS, axis=1), log_softmax(LABELS, axis=1)
    f = np.exp(log_f)
    divergence = (f * (log_f - log_y)).sum() / 12 / 4
    entropy = -(f * log_f).sum() / 12 / 4
    cross_entropy = -log_f[range(12), GIVEN].mean()
    method = pencil(entropy=0.3)
    assert step(method, STAGE_3).loss.item() == pytest.approx(divergence, rel=1e-5)
    assert step(method, STAGE_1).loss.item() == pytest.approx(cross_entropy, rel=1e-5)
    loss = step(method, STAGE_2).loss.item()
    assert loss == pytest.approx(divergence + 0.3 * entropy, rel=1e-5)


@pytest.mark.parametrize("double", [False, True])
def test_labels_move_down_the_gradient_in_stage_2_alone(double: bool) -> None:
    method = pencil(label_rate=50.0, compatibility=0.7, double_softmax=double)
    for stage in (STAGE_1, STAGE_3):
        step(method, stage)
        torch.testing.assert_close(method.label_logits, torch.tensor(LABELS, dtype=torch.float32))
    labels = torch.tensor(LABELS, requires_grad=True)
    f, y = torch.tensor(softmax(LOGITS, axis=1)), labels.softmax(dim=1)
    divergence = F.kl_div(y.log(), f, reduction="sum") / 12 / 4
    given = torch.tensor(GIVEN)
    compatibility = F.cross_entropy(y, given) if double else F.nll_loss(y.log(), given)
    (gradient,) = torch.autograd.grad(divergence + 0.7 * compatibility, labels)
    step(method, STAGE_2)
    expected = (labels - 50 * gradient).detach().float()
    torch.testing.assert_close(method.label_logits, expected, rtol=1e-4, atol=1e-5)


def test_the_verdict_is_that_of_the_label_distribution() -> None:
    result = step(pencil(), STAGE_1)
    top = LABELS.argmax(axis=1)
    assert result.group.tolist() == [
        CLEAN if a == b else ID for a, b in zip(top, GIVEN, strict=True)
    ]
    likelihood = softmax(LABELS, axis=1)[range(12), GIVEN]
    np.testing.assert_allclose(result.clean_likelihood, likelihood, rtol=1e-5)


def test_three_epochs_have_all_three_stages() -> None:
    method = Pencil(PencilSettings(warm_up=1, correction=1), nn.Identity)
    assert [method.schedule(epoch, 3) for epoch in range(3)] == [STAGE_1, STAGE_2, STAGE_3]


def visited(classes: int, size: int, visits: int, **settings: Any) -> list[float]:
    """The share of a label that is on the given class, visit by visit.

    The network is nine tenths sure of another class each time.
    """
    method = Pencil(PencilSettings(**settings), nn.Identity)
    start = method.settings.certainty * F.one_hot(torch.zeros(size).long(), classes).double()
    method.register_buffer("label_logits", start)
    sure = torch.full((size, classes), 0.1 / (classes - 1)).double()
    sure[:, 1] = 0.9
    batch = batch_of(sure.log(), torch.zeros(size).long())
    at = {key: torch.tensor(value) for key, value in STAGE_2.items()}
    found = []
    for _ in range(visits):
        method.step(batch, at)
        found.append(method.label_logits.softmax(dim=1)[0, 0].item())
    return found


@pytest.mark.parametrize("epochs", [200, 100, 50])
@pytest.mark.parametrize(("data", "classes"), [("cifar100n-c", 100), ("cifar80n-o", 80)])
def test_labels_turn_within_stage_2_of_cifar_in_runs_of_any_length(
    data: str, classes: int, epochs: int
) -> None:
    run = configure(data, method="pencil", noise="symmetric", rate=0.2, epochs=epochs)
    settings = run.method
    assert isinstance(settings, PencilSettings)
    assert settings.label_rate == pytest.approx(1000 * 320 / epochs)
    shares = visited(classes, run.batch_size, settings.correction, label_rate=settings.label_rate)
    assert shares[-1] < 0.3
    unscaled = visited(classes, run.batch_size, settings.correction, label_rate=1000.0)
    assert (unscaled[-1] > 0.7) == (epochs < 200)


@pytest.mark.slow
def test_digits_show_labels_turning_epoch_by_epoch(tmp_path: Path) -> None:
    run = josrc.train(
        "digits-o", method="pencil", noise="symmetric", rate=0.5, epochs=6, out=tmp_path / "r",
        settings={"model.width": 0.1, "method.label_rate": 1e5}, device="cpu",
    )  # fmt: skip
    shares = [row["labels_turned"] for row in run.metrics]
    settings = run.config.method
    assert isinstance(settings, PencilSettings)
    assert shares[: settings.warm_up] == [0] * settings.warm_up
    assert shares[settings.warm_up] > 0
    assert shares[-1] == pytest.approx(run.summary["labels_turned"], abs=1e-3)
    assert run.metrics[-1]["turned_right"] is not None


def test_the_published_pull_lets_no_label_of_100_classes_turn() -> None:
    """It rests where the pulls are equal: a tenth, times p (1 - p), and a hundredth of p."""
    for double, rest in ((True, 0.9), (False, 0.1 / (0.1 + 0.01))):
        settings = {"compatibility": 0.1, "label_rate": 5000.0, "double_softmax": double}
        assert visited(100, 128, 400, **settings)[-1] == pytest.approx(rest, abs=0.01)


def test_labels_of_clothing1m_turn_and_stay_with_the_softmax_taken_twice() -> None:
    """Taken once they swing, and ten epochs end where they began."""
    recipe = {"compatibility": 0.08, "label_rate": 3000.0}
    twice, once = (visited(14, 32, 10, **recipe, double_softmax=d) for d in (True, False))
    assert max(twice) < 0.25
    assert twice[-1] == pytest.approx(twice[-2], abs=0.01)
    assert once[-1] > 0.9
    assert min(once) < 0.1


def test_turned_labels_are_those_of_the_distribution() -> None:
    assert pencil().labels.tolist() == LABELS.argmax(axis=1).tolist()
