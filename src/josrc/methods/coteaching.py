"""Co-teaching: two networks, each trained on the samples whose loss is small for the other.

Han, Yao, Yu, Niu, Xu, Hu, Tsang and Sugiyama, NeurIPS 2018; "code" is what the authors published.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

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


class CoteachingSettings(SmallLossSettings):
    """Settings of Co-teaching: those of every small-loss method."""

    name: str = "coteaching"


class Coteaching(TwoNetworks):
    """Algorithm 1 of the paper.

    A network fits right labels before wrong ones, so a small loss speaks for the label. The errors
    of a network that chose for itself would add up; two networks filter different errors.
    """

    Settings = CoteachingSettings
    title = "Co-teaching"
    reference = "Han et al., Co-teaching: Robust Training with Extremely Noisy Labels, NeurIPS 2018"
    exact = frozenset({"forget_rate"})
    settings: CoteachingSettings

    def schedule(self, epoch: int, epochs: int) -> dict[str, float]:
        """R(T): the share left out grows to the noise rate over the first epochs."""
        return {"forget_rate": self.settings.forget_rate_at(epoch)}

    def step(self, batch: Batch, at: Scalars) -> StepResult:
        """Each network picks its small losses, and the other one learns them."""
        first, second = self.predict(batch.images)
        first_loss = F.cross_entropy(first, batch.label, reduction="none")
        second_loss = F.cross_entropy(second, batch.label, reduction="none")
        kept = kept_count(at["forget_rate"], len(batch.label))
        picked_by_first = small_loss(first_loss, kept)
        picked_by_second = small_loss(second_loss, kept)
        # A mean over the picks. The code divides this mean by their number once more; as long as
        # that number stays the same, Adam undoes it and SGD does not.
        loss = mean_over(first_loss, picked_by_second) + mean_over(second_loss, picked_by_first)
        return StepResult(
            loss,
            **describe_both(first, second, batch.label),
            # The method knows no foreign samples: what the first network leaves out counts as ID.
            group=torch.where(picked_by_first, CLEAN, ID),
        )
