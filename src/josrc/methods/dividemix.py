"""DivideMix: wrong labels are dropped, and their images learned as if they had none.

Li, Socher and Hoi, DivideMix: Learning with Noisy Labels as Semi-supervised Learning, ICLR 2020;
"code" is what the authors published.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from josrc.config import MethodSettings, phase
from josrc.data.loaders import Batch, Needs
from josrc.data.noise import CLEAN, ID
from josrc.data.source import Source
from josrc.distributed import batch_mean, mean_over
from josrc.losses import balance_penalty, soft_cross_entropy
from josrc.methods._mixup import beta_quantiles, draw, mix
from josrc.methods._survey import Survey
from josrc.methods.base import Scalars, Step, StepResult, TwoNetworks, describe_both
from josrc.selection import small_loss_probability


class DivideMixSettings(MethodSettings):
    """Settings of DivideMix; "paper" and "code" name the source of a default."""

    name: str = "dividemix"
    # paper and code: 30 of 300 epochs for CIFAR-100 (10 for CIFAR-10)
    warm_up: int = phase(30, of=300, description="epochs of cross-entropy on all labels")
    # code: on for asymmetric noise, where networks grow sure of wrong labels early
    confidence_penalty: bool = Field(False, description="reward uncertainty during the warm-up")
    # paper and code: 0.5 (0.6 at 90 % noise)
    threshold: float = Field(0.5, ge=0, le=1, description="tau, least probability of a right label")
    # code: 5 at 90 % noise, else the last epoch alone
    loss_epochs: int = Field(
        1, ge=1, description="the mixture sees the mean loss of so many epochs"
    )
    # paper and code: 0.5
    temperature: float = Field(0.5, gt=0, description="T, sharpens guessed labels")
    # paper and code: 4 (0.5 for Clothing1M)
    mixup: float = Field(4.0, gt=0, description="alpha, both parameters of the beta distribution")
    # code: 25. Paper, CIFAR-100: 25 at 20 % symmetric noise, 150 from 50 % on (from memory; 150 is
    # confirmed by the authors); 0 for asymmetric noise.
    unlabelled_weight: float = Field(25.0, ge=0, description="lambda_u")
    # code: 16 epochs of 300
    unlabelled_ramp: int = phase(16, of=300, description="epochs in which lambda_u rises from 0")


class DivideMix(TwoNetworks):
    """Algorithm 1 of the paper, in batches drawn from all samples.

    The code draws as many labelled as unlabelled samples for a batch, and trains one network for an
    epoch and then the other. Here a batch holds both kinds as they come, each averaged by itself,
    and a step moves both networks.
    """

    Settings = DivideMixSettings
    title = "DivideMix"
    reference = "Li et al., DivideMix: Learning with Noisy Labels as Semi-supervised Learning, 2020"
    needs = Needs(views=2, draws=6)  # for each network: a partner for both views, and a share
    settings: DivideMixSettings
    clean_probability: Tensor
    losses: Tensor
    quantiles: Tensor

    def __init__(self, settings: DivideMixSettings, create_network: Any) -> None:
        super().__init__(settings, create_network)
        self.register_buffer("quantiles", beta_quantiles(settings.mixup), persistent=False)

    def prepare(self, source: Source) -> None:
        """Every label is trusted during the warm-up; a row for each network."""
        self.remember("clean_probability", torch.ones(2, len(source)))
        self.remember("losses", torch.zeros(self.settings.loss_epochs, 2, len(source)))

    def forward(self, images: Tensor) -> Tensor:
        """The ensemble: what is tested is the sum of both networks' logits."""
        first, second = self.predict(images)
        return first + second

    @property
    def tested(self) -> list[nn.Module]:
        """The ensemble of both networks."""
        return [self]

    def schedule(self, epoch: int, epochs: int) -> dict[str, float]:
        """The weight of unlabelled samples."""
        s = self.settings
        ramp = (epoch - s.warm_up) / max(1, s.unlabelled_ramp)
        return {"unlabelled_weight": s.unlabelled_weight * min(max(ramp, 0.0), 1.0)}

    def step_for(self, epoch: int, epochs: int) -> Step:
        """Plain training, then training on divided samples."""
        return self.warm_up_step if epoch < self.settings.warm_up else self.step

    def before_epoch(self, epoch: int, survey: Survey) -> None:
        """Co-divide: each network fits a mixture to the losses of the samples to come."""
        seen = epoch - self.settings.warm_up
        if seen < 0:
            return
        # As the code on Clothing1M: what an epoch leaves out needs no verdict for it.
        slots, coming = len(self.losses), survey.coming
        for place, network in enumerate((self.network, self.second_network)):
            self.losses[seen % slots, place, coming] = survey.losses(network, coming)
            mean = self.losses[: seen + 1, place, coming].mean(dim=0)
            self.clean_probability[place, coming] = small_loss_probability(mean)

    def step(self, batch: Batch, at: Scalars) -> StepResult:
        """The semi-supervised loss of both networks on divided samples."""
        with torch.no_grad():
            first, second = self.predict(batch.images)
        opinions = [_mean_of_views(first), _mean_of_views(second)]
        trust = self.clean_probability[:, batch.index]
        loss = self._semi_supervised(0, batch, trust, opinions, at)
        loss = loss + self._semi_supervised(1, batch, trust, opinions, at)
        found = describe_both(first.chunk(2)[0], second.chunk(2)[0], batch.label)
        likelihood = trust.mean(dim=0)
        group = torch.where(likelihood > self.settings.threshold, CLEAN, ID)
        return StepResult(loss, **found | {"clean_likelihood": likelihood}, group=group)

    def warm_up_step(self, batch: Batch, at: Scalars) -> StepResult:
        """Cross-entropy of both networks on the given labels."""
        first, second = self.predict(batch.images.chunk(2)[0])
        losses = F.cross_entropy(first, batch.label, reduction="none")
        losses = losses + F.cross_entropy(second, batch.label, reduction="none")
        if self.settings.confidence_penalty:
            for logits in (first, second):
                losses = losses - soft_cross_entropy(logits, logits.softmax(dim=1))
        found = describe_both(first, second, batch.label)
        group = torch.full_like(batch.label, CLEAN)
        return StepResult(batch_mean(losses), **found, group=group)

    def _semi_supervised(
        self, place: int, batch: Batch, trust: Tensor, opinions: list[Tensor], at: Scalars
    ) -> Tensor:
        """The loss of one network, by MixMatch.

        Args:
            place: which network learns, 0 or 1.
            batch: two views of every sample.
            trust: how likely each label is right in the eyes of each network, ``(2, batch)``.
            opinions: what each predicts, ``(batch, classes)``.
            at: the schedule's values.
        """
        s = self.settings
        network = (self.network, self.second_network)[place]
        # Each network learns from what the other one takes for clean.
        weight = trust[1 - place][:, None]
        labelled = weight > s.threshold
        given = F.one_hot(batch.label, opinions[0].shape[1])
        refined = sharpen(weight * given + (1 - weight) * opinions[place], s.temperature)
        guessed = sharpen((opinions[0] + opinions[1]) / 2, s.temperature)
        target = torch.where(labelled, refined, guessed).repeat(2, 1)

        partner = batch.draws[:, 2 * place : 2 * place + 2].t().flatten().argsort()
        share = draw(self.quantiles, batch.draws[0, 4 + place])
        share = torch.maximum(share, 1 - share)  # a mixed sample stays nearer to its first
        target = mix(target, partner, share)
        logits = network(mix(batch.images, partner, share)).float()

        prediction, labelled = logits.softmax(dim=1), labelled.squeeze(1).repeat(2)
        supervised = mean_over(soft_cross_entropy(logits, target), labelled)
        unsupervised = mean_over((prediction - target).square().mean(dim=1), ~labelled)
        return supervised + at["unlabelled_weight"] * unsupervised + balance_penalty(prediction)


def sharpen(probabilities: Tensor, temperature: float) -> Tensor:
    """Powers of ``1 / temperature``, normalised, ``(batch, classes)``."""
    powers = probabilities ** (1 / temperature)
    return powers / powers.sum(dim=1, keepdim=True)


def _mean_of_views(logits: Tensor) -> Tensor:
    first, second = logits.softmax(dim=1).chunk(2)
    return (first + second) / 2
