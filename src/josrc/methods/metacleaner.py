"""Meta-Cleaner: of several images of one label, learn how much each is worth, and train on the sum.

Zhang, Wang and Qiao, MetaCleaner: Learning to Hallucinate Clean Representations for Noisy-Labeled
Visual Recognition, CVPR 2019. There is no published code: sizes that are not known are ours.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import nn

from josrc.config import MethodSettings
from josrc.data.loaders import Batch, Needs
from josrc.data.source import Source
from josrc.distributed import mean_over
from josrc.methods.base import Method, Scalars, StepResult, describe
from josrc.models import Classifier
from josrc.models.factory import feature_extractor


class MetaCleanerSettings(MethodSettings):
    """Settings of Meta-Cleaner."""

    name: str = "metacleaner"
    # paper: about 5 (from memory, uncertain). Ours: 4, which divides a batch of 128.
    group_size: int = Field(
        4, ge=2, description="K, images of one label that are weighted together"
    )
    # ours: as wide as the features; the paper's width is not known
    hidden: int | None = Field(
        None, ge=1, description="width of the weighting layer; null: number of features"
    )


class MetaCleaner(Method):
    """Noisy weighting, then clean hallucinating; both fall away when the network is used."""

    Settings = MetaCleanerSettings
    title = "Meta-Cleaner"
    reference = (
        "Zhang et al., MetaCleaner: Learning to Hallucinate Clean Representations, CVPR 2019"
    )
    selects = False
    settings: MetaCleanerSettings
    network: Classifier
    weigher: nn.Sequential

    def __init__(
        self, settings: MetaCleanerSettings, create_network: Callable[[], nn.Module]
    ) -> None:
        super().__init__(settings, create_network)
        self.needs = Needs(group_size=settings.group_size)

    def prepare(self, source: Source) -> None:
        """The layers that weigh a group, from its features side by side."""
        size, features = self.settings.group_size, self.network.num_features
        hidden = self.settings.hidden or features
        layers = nn.Linear(size * features, hidden), nn.ReLU(), nn.Linear(hidden, size)
        self.remember("weigher", nn.Sequential(*layers))

    def step(self, batch: Batch, at: Scalars) -> StepResult:
        """Cross-entropy of the weighted sum of each group's features."""
        size = self.settings.group_size
        features = feature_extractor(self.network)(batch.images).float()
        rest = len(batch.label) % size
        whole = len(batch.label) - rest
        label = batch.label[:whole].view(-1, size)
        # What a class has over stands together with others, and teaches nothing in this epoch.
        alike = (label == label[:, :1]).all(dim=1)
        groups = features[:whole].view(-1, size, features.shape[1])
        weight = self.weigher(groups.flatten(1)).float().softmax(dim=1)
        clean = (weight[:, :, None] * groups).sum(dim=1)
        losses = F.cross_entropy(self.network.head(clean).float(), label[:, 0], reduction="none")
        loss = mean_over(losses, alike)

        with torch.no_grad():
            logits = self.network.head(features).float()
        found = describe(logits, batch.label)
        # How much a sample counts beside the one of its group that counts most.
        worth = (weight / weight.amax(dim=1, keepdim=True)).detach()
        worth = torch.where(alike[:, None], worth, 1.0).flatten()
        worth = torch.cat([worth, torch.ones_like(found["label_probability"][whole:])])
        return StepResult(loss, **found, clean_likelihood=worth)
