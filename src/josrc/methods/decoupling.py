"""Decoupling "when to update" from "how to update": two networks learn where they disagree.

Malach and Shalev-Shwartz, NIPS 2017. "Code" is what the authors published: an experiment on faces
with two classes, whose optimizer and class weights do not apply here.
"""

from __future__ import annotations

import torch.nn.functional as F
from pydantic import Field

from josrc.config import MethodSettings, phase
from josrc.data.loaders import Batch
from josrc.distributed import batch_size, mean_over
from josrc.methods.base import Scalars, StepResult, TwoNetworks, describe_both


class DecouplingSettings(MethodSettings):
    """Settings of Decoupling; "paper" and "code" name the source of a default."""

    name: str = "decoupling"
    # code: 0, since two untrained networks disagree often enough
    warm_up: int = phase(0, description="epochs of training on every sample")
    # code: 0.1. The paper waits for a full batch of disagreements; the code divides by no less than
    # this share of the batch, so that a few odd samples don't move the networks by a whole step.
    least_share: float = Field(
        0.1, ge=0, le=1, description="smallest share of the batch that the loss is divided by"
    )


class Decoupling(TwoNetworks):
    """A sample on which both agree teaches nothing, be its label right or wrong."""

    Settings = DecouplingSettings
    title = "Decoupling"
    reference = 'Malach and Shalev-Shwartz, Decoupling "when to update" from "how to update", 2017'
    # Disagreement says that a sample is worth learning, not that its label is right: there is no
    # clean group, and no precision of one.
    selects = False
    settings: DecouplingSettings

    def schedule(self, epoch: int, epochs: int) -> dict[str, float]:
        """All samples are learned during the warm-up."""
        return {"learn_all": float(epoch < self.settings.warm_up)}

    def step(self, batch: Batch, at: Scalars) -> StepResult:
        """Cross-entropy of both networks on the samples they disagree on."""
        first, second = self.predict(batch.images)
        found = describe_both(first, second, batch.label)
        learned = (found["agreement"] < 0.5) | (at["learn_all"] > 0.5)
        loss = F.cross_entropy(first, batch.label, reduction="none")
        loss = loss + F.cross_entropy(second, batch.label, reduction="none")
        # At least 1: that changes no count of samples, and makes 0 of an empty sum, not 0/0.
        least = max(self.settings.least_share * batch_size(len(batch.label)), 1.0)
        return StepResult(mean_over(loss, learned, at_least=least), **found)
