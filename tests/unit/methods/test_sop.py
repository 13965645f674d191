"""SOP against its formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from torch import nn

from josrc.methods.sop import SOP, SOPSettings, gradients
from peers import CLASSES, GENERATOR, LABEL, ROWS, SIZE, STRONG, WEAK, batch, made


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
