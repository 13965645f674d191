"""GCE: a loss between cross-entropy, which learns wrong labels, and the mean absolute error.

Zhang and Sabuncu, Generalized Cross Entropy Loss for Training Deep Neural Networks with Noisy
Labels, NeurIPS 2018. The loss L_q; its truncated form is not here.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from pydantic import Field

from josrc.config import MethodSettings
from josrc.data.loaders import Batch
from josrc.distributed import batch_mean
from josrc.methods.base import Method, Scalars, StepResult, describe


class GCESettings(MethodSettings):
    """Settings of GCE."""

    name: str = "gce"
    # paper: 0.7
    q: float = Field(0.7, gt=0, le=1, description="near 0 cross-entropy, at 1 absolute error")


class GCE(Method):
    """``(1 - p(y)^q) / q``: a label that is predicted to be unlikely pulls less."""

    Settings = GCESettings
    title = "GCE"
    reference = "Zhang and Sabuncu, Generalized Cross Entropy Loss, NeurIPS 2018"
    selects = False
    # paper, CIFAR: SGD, a tenth of the rate after each third of the epochs (from memory)
    defaults: ClassVar[dict[str, Any]] = {
        "optimizer": {
            "name": "sgd",
            "rates": [0.01, 0.001, 0.0001],
            "momentum_after": None,
            "weight_decay": 1e-4,
        }
    }
    settings: GCESettings

    def step(self, batch: Batch, at: Scalars) -> StepResult:
        """The loss of Eq. 6, mean over the batch."""
        logits = self.network(batch.images).float()
        given = torch.log_softmax(logits, dim=1).gather(1, batch.label[:, None]).squeeze(1)
        q = self.settings.q
        # In this form it is exact where the label is nearly certain: 1 - p^q would be all rounding.
        loss = batch_mean(-torch.expm1(q * given) / q)
        return StepResult(loss, **describe(logits, batch.label))
