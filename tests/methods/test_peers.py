"""GCE, ELR, SOP and SED against their formulas in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from torch import nn

from batches import batch_of
from josrc.methods.elr import ELR, ELRSettings
from josrc.methods.gce import GCE, GCESettings
from josrc.methods.sed import SED, SEDSettings
from josrc.methods.sop import SOP, SOPSettings, gradients
from josrc.runs.start import configure

SIZE, CLASSES = 12, 5
LABEL = np.arange(SIZE) % CLASSES
GENERATOR = np.random.default_rng(0)
WEAK, STRONG = GENERATOR.normal(scale=2, size=(2, SIZE, CLASSES))
ROWS = np.arange(SIZE)


class Source:
    """What the methods ask of data."""

    closed = CLASSES
    given = LABEL

    def __len__(self) -> int:
        return SIZE


def made(kind, settings):
    method = kind(settings, nn.Identity)
    method.prepare(Source())
    return method


def batch(*views: np.ndarray):
    return batch_of(torch.tensor(np.concatenate(views)).float(), torch.tensor(LABEL))


@pytest.mark.parametrize("q", [0.01, 0.7, 1.0])
def test_gce_is_1_less_a_power_of_the_labels_probability(q: float) -> None:
    loss = GCE(GCESettings(q=q), nn.Identity).step(batch(WEAK), {}).loss
    given = softmax(WEAK, axis=1)[ROWS, LABEL]
    assert loss.item() == pytest.approx(((1 - given**q) / q).mean(), rel=1e-5)


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


def sop_losses(predicted, u, v, given):
    """What the code lets u and v descend: v is held in the first loss."""
    lifted, lowered = (u * u * given).clamp(0, 1), (v * v * (1 - given)).clamp(0, 1)
    corrected = (predicted + lifted - lowered.detach()).clamp(min=1e-4)
    corrected = corrected / corrected.sum(dim=1, keepdim=True)
    hard = nn.functional.one_hot(predicted.argmax(dim=1), CLASSES)
    entropy = -(given * corrected.log()).sum()
    balance = -0.1 * corrected.mean(dim=0).log().mean() * SIZE
    return entropy + balance + (hard + lifted - lowered - given).square().sum(), corrected


def test_sop_moves_its_numbers_along_their_gradients() -> None:
    u = torch.tensor(GENERATOR.normal(scale=0.5, size=(SIZE, 1)), requires_grad=True)
    v = torch.tensor(GENERATOR.normal(scale=0.5, size=(SIZE, CLASSES)), requires_grad=True)
    predicted = torch.tensor(softmax(WEAK, axis=1))
    given = nn.functional.one_hot(torch.tensor(LABEL), CLASSES).double()
    loss, corrected = sop_losses(predicted, u, v, given)
    wanted = torch.autograd.grad(loss, (u, v))
    lift = 0.1 / CLASSES / corrected.detach().mean(dim=0)
    found = gradients(predicted, u.detach(), v.detach(), given, lift)
    for mine, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-8, atol=1e-10)


def test_sop_lets_a_sample_explain_its_label_itself() -> None:
    method = made(SOP, SOPSettings(rate_u=0.5, rate_v=2, consistency=0.9, balance=0.1))
    u, v = GENERATOR.normal(scale=0.3, size=(SIZE, 1)), np.zeros((SIZE, CLASSES))
    method.u.copy_(torch.tensor(u))
    method.v.copy_(torch.tensor(v))
    loss = method.step(batch(WEAK, STRONG), {}).loss
    predicted, given = softmax(WEAK, axis=1), np.eye(CLASSES)[LABEL]
    corrected = (predicted + u**2 * given).clip(1e-4)
    corrected /= corrected.sum(axis=1, keepdims=True)
    entropy = -np.log(corrected[ROWS, LABEL]).mean()
    divergence = predicted * (log_softmax(WEAK, axis=1) - log_softmax(STRONG, axis=1))
    balance = -np.log(CLASSES) - np.log(corrected.mean(axis=0)).mean()
    expected = entropy + 0.9 * divergence.sum(axis=1).mean() + 0.1 * balance
    assert loss.item() == pytest.approx(expected, rel=1e-4)
    assert not torch.equal(method.u, torch.tensor(u).float())


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


def test_peers_bring_their_rates_along_at_every_length() -> None:
    def rates(method: str, epochs: int) -> list[float]:
        config = configure("cifar100n-c", noise="symmetric", rate=0.2, method=method, epochs=epochs)
        return [config.optimizer.at(epoch, epochs)[0] for epoch in range(epochs)]

    sed = rates("sed", 100)
    assert sed[:20] == [0.05] * 20
    assert sed[20] == pytest.approx(0.01)
    cosine = 0.0005 + 0.0095 * 0.5 * (1 + np.cos(np.arange(80) / 80 * np.pi))
    np.testing.assert_allclose(sed[20:], cosine)
    assert rates("gce", 3) == [0.01, 0.001, 0.0001]
    assert rates("elr", 150)[::40] == [0.02, 0.02, 0.0002, 0.000002]
    posterior = rates("posterior", 10)
    assert posterior[:4] == [0.05] * 4
    assert posterior[-1] < 0.005
