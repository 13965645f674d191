"""Standard: cross-entropy on the given labels, as if all of them were right."""

from __future__ import annotations

import torch.nn.functional as F

from josrc.config import MethodSettings
from josrc.data.loaders import Batch
from josrc.distributed import batch_mean
from josrc.methods.base import Method, Scalars, StepResult, describe


class StandardSettings(MethodSettings):
    """Nothing to set."""

    name: str = "standard"


class Standard(Method):
    """The baseline of every table of the paper."""

    Settings = StandardSettings
    title = "Standard"
    reference = "plain cross-entropy training"
    selects = False

    def step(self, batch: Batch, at: Scalars) -> StepResult:
        """Mean cross-entropy of the batch."""
        logits = self.network(batch.images).float()
        loss = batch_mean(F.cross_entropy(logits, batch.label, reduction="none"))
        return StepResult(loss, **describe(logits, batch.label))
