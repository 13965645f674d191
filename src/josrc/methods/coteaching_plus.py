"""Co-teaching+: Co-teaching on the samples that the two networks disagree on.

Yu, Han, Yao, Niu, Tsang and Sugiyama, ICML 2019; "code" is what the authors published.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from josrc.config import phase
from josrc.data.loaders import Batch
from josrc.data.noise import CLEAN, ID
from josrc.distributed import mean_over
from josrc.methods.base import (
    Scalars,
    SmallLossSettings,
    StepResult,
    TwoNetworks,
    describe_both,
)
from josrc.selection import kept_count, small_loss


class CoteachingPlusSettings(SmallLossSettings):
    """Settings of Co-teaching+; "paper" and "code" name the source of a default."""

    name: str = "coteaching-plus"
    # code: 5 of 200 epochs for CIFAR-100 (20 for CIFAR-10, 0 for MNIST)
    warm_up: int = phase(5, description="epochs of standard Co-teaching before disagreement counts")
    # The code gives softmax outputs p to a cross-entropy that takes the softmax again, once the
    # warm-up is over. That is nearly the loss 1 - p[y]: a label weighs as much as the network
    # believes it, and wrong ones are hardly learned. The paper means the plain cross-entropy; its
    # numbers are reached with the code's.
    double_softmax: bool = Field(False, description="take the softmax twice after the warm-up")


class CoteachingPlus(TwoNetworks):
    """Algorithm 1 of the paper.

    Two networks that teach each other grow alike, until Co-teaching is self-training. To learn only
    where they disagree keeps them apart.
    """

    Settings = CoteachingPlusSettings
    title = "Co-teaching+"
    reference = "Yu et al., How Does Disagreement Help Generalization against Label Corruption?"
    exact = frozenset({"forget_rate"})
    settings: CoteachingPlusSettings

    def schedule(self, epoch: int, epochs: int) -> dict[str, float]:
        """The share left out, and whether disagreement counts yet."""
        s = self.settings
        warm = epoch < s.warm_up
        return {"forget_rate": s.forget_rate_at(epoch), "disagreement": 0.0 if warm else 1.0}

    def step(self, batch: Batch, at: Scalars) -> StepResult:
        """Among the samples in dispute each network picks small losses for the other."""
        first, second = self.predict(batch.images)
        found = describe_both(first, second, batch.label)
        first_loss = self._losses(first, batch.label, at)
        second_loss = self._losses(second, batch.label, at)

        disputed = (found["agreement"] < 0.5) | (at["disagreement"] < 0.5)
        # Of no dispute nothing is learned. The code then trains on the whole batch early in the
        # run (while epoch times batch number is below 5000); the paper has no such step.
        count = disputed.sum()
        kept = kept_count(at["forget_rate"], count)
        kept = torch.where(kept < 1, count, kept)  # code: all of a few, rather than none
        picked_by_first = small_loss(first_loss, kept, among=disputed)
        picked_by_second = small_loss(second_loss, kept, among=disputed)
        loss = mean_over(first_loss, picked_by_second) + mean_over(second_loss, picked_by_first)

        # That two networks agree does not speak against a label: agreed samples are left out of
        # the update for teaching nothing new. The verdict is that of a small loss in the batch.
        trusted = small_loss(first_loss, kept_count(at["forget_rate"], len(batch.label)))
        return StepResult(loss, **found, group=torch.where(trusted, CLEAN, ID))

    def _losses(self, logits: Tensor, label: Tensor, at: Scalars) -> Tensor:
        """Cross-entropy of every sample, ``(batch,)``."""
        if self.settings.double_softmax:
            logits = torch.where(at["disagreement"] > 0.5, logits.softmax(dim=1), logits)
        return F.cross_entropy(logits, label, reduction="none")
