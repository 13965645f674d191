"""SOP: every sample has numbers of its own that explain a wrong label, and the network need not.

Liu, Zhu, Qu and You, Robust Training under Label Noise by Over-parameterization, ICML 2022; "code"
is what the authors published.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from josrc.config import MethodSettings
from josrc.data.loaders import Batch, Needs
from josrc.data.noise import CLEAN, ID
from josrc.data.source import Source
from josrc.distributed import batch_mean, batch_size
from josrc.losses import balance_penalty, soft_cross_entropy
from josrc.methods.base import Method, Scalars, StepResult, describe

# code: the standard deviation of first values, and the least probability.
INITIAL_DEVIATION, MIN_PROBABILITY = 1e-8, 1e-4


class SOPSettings(MethodSettings):
    """Settings of SOP, from memory of the paper's table for CIFAR-100."""

    name: str = "sop"
    rate_u: float = Field(1.0, ge=0, description="learning rate of u, which lifts the given label")
    # symmetric noise: 10; asymmetric: 100
    rate_v: float = Field(10.0, ge=0, description="learning rate of v, which lowers the others")
    # SOP+ has 0.9 and 0.1, the plain method neither.
    consistency: float = Field(0.9, ge=0, description="weight of the consistency of two views")
    balance: float = Field(0.1, ge=0, description="weight of even predictions over the classes")


class SOP(Method):
    """A prediction, corrected by ``u^2`` at the label and ``-v^2`` elsewhere, meets the label."""

    Settings = SOPSettings
    title = "SOP+"
    reference = "Liu et al., Robust Training under Label Noise by Over-parameterization, ICML 2022"
    needs = Needs(views=2)
    # paper: 300 epochs, cosine
    defaults: ClassVar[dict[str, Any]] = {
        "views": {"strong": "last", "policy": "autoaugment"},
        "optimizer": {
            "name": "sgd",
            "lr": 0.02,
            "momentum_after": None,
            "weight_decay": 1e-3,
            "decay": "cosine",
            "decay_start": 0,
            "end": 0.0002,
        },
    }
    settings: SOPSettings
    u: Tensor
    v: Tensor

    def prepare(self, source: Source) -> None:
        """Nothing is explained at first; from exact zeros nothing would ever move."""
        draw = torch.Generator().manual_seed(0)
        samples, classes = len(source), source.closed
        self.remember("u", INITIAL_DEVIATION * torch.randn(samples, 1, generator=draw))
        self.remember("v", INITIAL_DEVIATION * torch.randn(samples, classes, generator=draw))

    def relabel(self, index: Tensor, label: Tensor) -> None:
        """What explained another label starts over."""
        self.u[index], self.v[index] = INITIAL_DEVIATION, INITIAL_DEVIATION

    def step(self, batch: Batch, at: Scalars) -> StepResult:
        """The loss of the network, and a step of the samples' own numbers."""
        s = self.settings
        first, second = self.network(batch.images).float().chunk(2)
        u, v = self.u[batch.index], self.v[batch.index]
        given = F.one_hot(batch.label, first.shape[1]).to(first.dtype)
        excess = explain_labels(u, v, given)

        predicted = first.softmax(dim=1)
        corrected = (predicted + excess).clamp(min=MIN_PROBABILITY)
        corrected = corrected / corrected.sum(dim=1, keepdim=True)
        log = corrected.gather(1, batch.label[:, None]).squeeze(1).log()
        loss = -batch_mean(log)
        if s.consistency:
            consistency = soft_cross_entropy(second, predicted.detach()) - soft_cross_entropy(
                first.detach(), predicted.detach()
            )
            loss = loss + s.consistency * batch_mean(consistency)
        # code: it is what remains to the network and the samples together that is even.
        lift = torch.zeros_like(corrected[0])
        if s.balance:
            loss = loss + s.balance * balance_penalty(corrected)
            lift = s.balance / len(lift) / batch_mean(corrected.detach())

        change_u, change_v = gradients(predicted.detach(), u, v, given, lift)
        size = batch_size(len(batch.label))
        self.u.index_copy_(0, batch.index, u - s.rate_u * change_u / size)
        self.v.index_copy_(0, batch.index, v - s.rate_v * change_v / size)
        likelihood = 1 - (u * u).squeeze(1).clamp(0, 1)
        return StepResult(
            loss,
            **describe(first, batch.label),
            clean_likelihood=likelihood,
            # The method knows no foreign samples.
            group=torch.where(likelihood > 0.5, CLEAN, ID),
            agreement=(first.argmax(dim=1) == second.argmax(dim=1)).float(),
        )


def explain_labels(u: Tensor, v: Tensor, given: Tensor) -> Tensor:
    """What of the labels the samples explain themselves, ``(batch, classes)``.

    Args:
        u: ``(batch, 1)``.
        v: ``(batch, classes)``.
        given: labels, one hot, ``(batch, classes)``.
    """
    return (u * u * given).clamp(0, 1) - (v * v * (1 - given)).clamp(0, 1)


def gradients(
    predicted: Tensor, u: Tensor, v: Tensor, given: Tensor, lift: Tensor
) -> tuple[Tensor, Tensor]:
    """Derivatives of each sample's losses, as the code has them, for its u and v.

    u moves by the cross-entropy of the corrected prediction, by the balance of the classes and by
    the squared distance of the corrected top class from the label; v by that distance alone.

    Args:
        predicted: by the network, ``(batch, classes)``.
        u: of the samples, ``(batch, 1)``.
        v: likewise, ``(batch, classes)``.
        given: labels, one hot, ``(batch, classes)``.
        lift: by how much the balance falls as the corrected probability of a class rises,
            ``(classes,)``.
    """
    excess = explain_labels(u, v, given)
    raw = predicted + excess
    clipped = raw.clamp(min=MIN_PROBABILITY)
    own, total = (clipped * given).sum(dim=1, keepdim=True), clipped.sum(dim=1, keepdim=True)
    inside = ((raw > MIN_PROBABILITY) * given).sum(dim=1, keepdim=True) * (u * u < 1)
    by_entropy = (1 / total - 1 / own) * inside * 2 * u
    lifted = (clipped / total * lift).sum(dim=1, keepdim=True)
    own_lift = (given * lift).sum(dim=1, keepdim=True)
    by_balance = (lifted - own_lift) / total * inside * 2 * u

    hard = F.one_hot(predicted.argmax(dim=1), predicted.shape[1]).to(predicted.dtype)
    distance = 2 * (hard + excess - given)
    by_distance = (distance * given).sum(dim=1, keepdim=True) * 2 * u * (u * u < 1)
    change_v = -distance * (1 - given) * 2 * v * (v * v < 1)
    return by_entropy + by_balance + by_distance, change_v
