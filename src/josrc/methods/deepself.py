"""DeepSelf: labels corrected by the prototypes of each class, found by the network itself.

Han, Luo and Wang, Deep Self-Learning From Noisy Labels, ICCV 2019. There is no published code; the
paper's values are quoted from memory.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from josrc.config import MethodSettings, phase
from josrc.data.loaders import Batch
from josrc.data.noise import CLEAN, ID
from josrc.data.source import Source
from josrc.distributed import batch_mean
from josrc.methods._survey import Survey
from josrc.methods.base import Method, Scalars, StepResult, describe


class DeepSelfSettings(MethodSettings):
    """Settings of DeepSelf; "paper" names the source of a default."""

    name: str = "deepself"
    # ours: the paper begins with a network trained on the given labels and does not say how long
    warm_up: int = phase(10, description="epochs on the given labels before they are corrected")
    # paper: 0.5
    alpha: float = Field(0.5, ge=0, le=1, description="weight of the corrected label")
    # paper: 8
    prototypes: int = Field(8, ge=1, description="p, prototypes per class")
    # paper: 1280
    class_samples: int = Field(1280, ge=1, description="m, samples per class to choose them from")
    # Paper: S_c ranks in the top 40 % of the similarities of a class. That is the share of pairs
    # of right samples on Clothing1M, 0.62 squared, where some 62 % of a class are right. With a
    # lower bar the densest samples are those in the middle of all classes, which belong to none.
    close_share: float = Field(
        0.4, gt=0, le=1, description="share of a class's similarities that count as close"
    )
    # paper: 0.95
    similarity_limit: float = Field(
        0.95, description="largest similarity of a prototype to a denser sample"
    )


class DeepSelf(Method):
    """Each epoch corrects the labels with the present features and trains on both labels."""

    Settings = DeepSelfSettings
    title = "DeepSelf"
    reference = "Han et al., Deep Self-Learning From Noisy Labels, ICCV 2019"
    settings: DeepSelfSettings
    corrected: Tensor
    likelihood: Tensor

    def prepare(self, source: Source) -> None:
        """No label is corrected before the first look at all of them."""
        self.classes = source.closed
        self.remember("corrected", torch.from_numpy(source.given).clone())
        self.remember("likelihood", torch.ones(len(source)))

    def relabel(self, index: Tensor, label: Tensor) -> None:
        """A label that is changed from outside is taken for right until the next look."""
        self.corrected[index] = label
        self.likelihood[index] = 1.0

    def schedule(self, epoch: int, epochs: int) -> dict[str, float]:
        """Corrected labels count after the warm-up."""
        return {"alpha": self.settings.alpha * float(epoch >= self.settings.warm_up)}

    def before_epoch(self, epoch: int, survey: Survey) -> None:
        """The label correction phase: the class whose prototypes are most like a sample."""
        if epoch < self.settings.warm_up:
            return
        features = F.normalize(survey.features(self.network), dim=1)
        similarity = self._similarity(features, survey)
        self.corrected.copy_(similarity.argmax(dim=1))
        own = similarity.gather(1, survey.labels[:, None]).squeeze(1)
        low, high = similarity.amin(dim=1), similarity.amax(dim=1)
        self.likelihood.copy_((own - low) / (high - low).clamp(min=1e-6))

    def step(self, batch: Batch, at: Scalars) -> StepResult:
        """The training phase: cross-entropy with the given and with the corrected label."""
        logits = self.network(batch.images).float()
        corrected = self.corrected[batch.index]
        given_loss = F.cross_entropy(logits, batch.label, reduction="none")
        corrected_loss = F.cross_entropy(logits, corrected, reduction="none")
        return StepResult(
            batch_mean(torch.lerp(given_loss, corrected_loss, at["alpha"])),
            **describe(logits, batch.label),
            clean_likelihood=self.likelihood[batch.index],
            # The method knows no foreign samples: a label that was corrected counts as ID.
            group=torch.where(corrected == batch.label, CLEAN, ID),
        )

    @property
    def labels(self) -> Tensor:
        """The corrected labels; the loss has the given ones beside them."""
        return self.corrected

    def _similarity(self, features: Tensor, survey: Survey) -> Tensor:
        """Mean cosine of every sample with each class's prototypes, ``(N, classes)``."""
        s = self.settings
        generator = torch.Generator().manual_seed(survey.seed)
        found = features.new_full((len(features), self.classes), -1.0)
        for number in range(self.classes):
            members = (survey.labels == number).nonzero().squeeze(1)
            if len(members) == 0:
                continue
            some = torch.randperm(len(members), generator=generator)[: s.class_samples]
            chosen = features[members[some.to(members.device)]]
            best = choose_prototypes(chosen, s.prototypes, s.close_share, s.similarity_limit)
            # The mean of cosines is the product with the mean of unit vectors.
            found[:, number] = features @ chosen[best].mean(dim=0)
        return found


def choose_prototypes(features: Tensor, count: int, share: float, limit: float) -> Tensor:
    """Samples amid many others, but not all amid the same ones.

    Args:
        features: of one class, each of length 1, ``(samples, features)``.
        count: how many to choose.
        share: of all similarities that count as close, the largest.
        limit: a prototype's similarity to any denser sample is smaller, as long as there are such.

    Returns:
        Numbers of the chosen samples, the densest first.
    """
    similarity = features @ features.t()
    place = max(1, round((1 - share) * similarity.numel()))
    close = similarity.flatten().kthvalue(place).values
    density = (similarity - close).sign().sum(dim=1)
    denser = density[None, :] > density[:, None]
    to_denser = torch.where(denser, similarity, -torch.inf).amax(dim=1)
    # The densest sample has no denser one: its distance is that to the sample least like it.
    to_denser = torch.where(denser.any(dim=1), to_denser, similarity.amin(dim=1))
    # Those beyond the limit come last, in case a class has too few others.
    order = torch.where(to_denser < limit, density, density - 2 * len(features) - 1)
    return order.argsort(descending=True, stable=True)[:count]
