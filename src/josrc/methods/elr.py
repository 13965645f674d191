"""ELR: early-learning regularisation, which holds on to what was predicted early.

Liu, Niles-Weed, Razavian and Fernandez-Granda, Early-Learning Regularization Prevents Memorization
of Noisy Labels, NeurIPS 2020; "code" is what the authors published.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from josrc.config import MethodSettings
from josrc.data.loaders import Batch
from josrc.data.source import Source
from josrc.distributed import batch_mean
from josrc.methods.base import Method, Scalars, StepResult, describe

# code: probabilities are kept so far from 0 and 1.
PROBABILITY_MARGIN = 1e-4


class ELRSettings(MethodSettings):
    """Settings of ELR, from memory of the paper; "C100" and "C10" are CIFAR's."""

    name: str = "elr"
    # C100: 7; C10: 3 for symmetric and 1 for asymmetric noise
    regularization: float = Field(7.0, ge=0, description="lambda, weight of the regulariser")
    # C100: 0.9; C10: 0.7 and 0.9
    momentum: float = Field(0.9, ge=0, lt=1, description="beta, share of a target kept per visit")


class ELR(Method):
    """Cross-entropy, and predictions are kept close to a mean of those before."""

    Settings = ELRSettings
    title = "ELR"
    reference = "Liu et al., Early-Learning Regularization, NeurIPS 2020"
    failure_hint = "a loss without a lower bound (method.regularization)"
    selects = False
    # C100, 150 epochs: a hundredth of the rate from 80 on, and another from 120 on
    defaults: ClassVar[dict[str, Any]] = {
        "optimizer": {
            "name": "sgd",
            "rates": [0.02] * 8 + [0.0002] * 4 + [0.000002] * 3,
            "momentum_after": None,
            "weight_decay": 1e-3,
        }
    }
    settings: ELRSettings
    target: Tensor

    def prepare(self, source: Source) -> None:
        """Targets begin at zero."""
        self.remember("target", torch.zeros(len(source), source.closed))

    def relabel(self, index: Tensor, label: Tensor) -> None:
        """What was predicted with another label is forgotten."""
        self.target[index] = 0

    def step(self, batch: Batch, at: Scalars) -> StepResult:
        """Eqs. 6 and 9: ``CE + lambda log(1 - <p, t>)``, after t has moved towards p."""
        logits = self.network(batch.images).float()
        predicted = logits.softmax(dim=1).clamp(PROBABILITY_MARGIN, 1 - PROBABILITY_MARGIN)
        seen = predicted.detach()
        seen = seen / seen.sum(dim=1, keepdim=True)
        s = self.settings
        target = s.momentum * self.target[batch.index] + (1 - s.momentum) * seen
        self.target.index_copy_(0, batch.index, target)
        entropy = F.cross_entropy(logits, batch.label, reduction="none")
        regulariser = (1 - (target * predicted).sum(dim=1)).log()
        loss = batch_mean(entropy + s.regularization * regulariser)
        return StepResult(
            loss,
            **describe(logits, batch.label),
            clean_likelihood=target.gather(1, batch.label[:, None]).squeeze(1).clamp(max=1),
        )
