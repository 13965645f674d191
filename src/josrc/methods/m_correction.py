"""M-correction: mixup, and each label trusted as far as a mixture of losses says.

Arazo, Ortego, Albert, O'Connor and McGuinness, Unsupervised Label Noise Modeling and Loss
Correction, ICML 2019; "code" is what the authors published.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from josrc.config import LowerCase, MethodSettings, phase
from josrc.data.loaders import Batch, Needs
from josrc.data.noise import CLEAN, ID
from josrc.data.source import Source
from josrc.distributed import batch_mean
from josrc.losses import balance_penalty, soft_cross_entropy
from josrc.methods._mixup import beta_quantiles, draw, mix
from josrc.methods._survey import Survey
from josrc.methods.base import Method, Scalars, StepResult, describe
from josrc.selection import large_loss_probability

# code: what the temperature of md-dyr-sh falls to
MIN_TEMPERATURE = 0.001


class MCorrectionSettings(MethodSettings):
    """Settings of M-correction; "paper" and "code" name the source of a default."""

    name: str = "m-correction"
    # paper: both. On CIFAR-100 the authors have md-dyr-sh 5 points ahead at 20 and at 50 % noise,
    # and 7 behind at 80 %.
    variant: LowerCase[Literal["m-dyr", "md-dyr-sh"]] = Field(
        "md-dyr-sh", description="mix at random, or by how much each label is trusted"
    )
    # code: 105 of 300 epochs, five after the first decay of the learning rate
    warm_up: int = phase(105, of=300, description="epochs of mixup on the given labels")
    # paper and code: 32, so that most pairs are mixed half and half
    mixup: float = Field(32.0, gt=0, description="alpha, both parameters of the beta distribution")
    # paper: M-DYR-H, hard, is better than M-DYR-S up to 80 % noise of CIFAR-10
    bootstrap: Literal["hard", "soft"] = Field(
        "hard", description="m-dyr: the prediction as one class, or as probabilities"
    )
    # code: 5 of 300 epochs
    guided: int = phase(
        5, of=300, description="md-dyr-sh: epochs of guided mixup before predictions count"
    )
    # code: from epoch 111 to 199 of 300
    hardening: int = phase(
        88, of=300, description="md-dyr-sh: epochs in which predictions turn from soft to hard"
    )
    # paper and code: 1
    balance: float = Field(1.0, ge=0, description="weight of the term against one class for all")


class MCorrection(Method):
    """Dynamic bootstrapping with mixup: the prediction stands in for a label in doubt."""

    Settings = MCorrectionSettings
    title = "M-correction"
    reference = "Arazo et al., Unsupervised Label Noise Modeling and Loss Correction, ICML 2019"
    needs = Needs(draws=2)  # a partner and a share
    settings: MCorrectionSettings
    noise_probability: Tensor
    quantiles: Tensor

    def __init__(self, settings: MCorrectionSettings, create_network: Any) -> None:
        super().__init__(settings, create_network)
        self.register_buffer("quantiles", beta_quantiles(settings.mixup), persistent=False)

    def prepare(self, source: Source) -> None:
        """No label is in doubt during the warm-up."""
        self.remember("noise_probability", torch.zeros(len(source)))

    def schedule(self, epoch: int, epochs: int) -> dict[str, float]:
        """Whether mixup is guided by trust, whether predictions count, and how soft they are."""
        s = self.settings
        guided = s.variant == "md-dyr-sh" and epoch >= s.warm_up
        since = epoch - s.warm_up - (s.guided if guided else 0)
        cold = min(1.0, max(0, since) / max(1, s.hardening)) if guided else 0.0
        return {
            "guided": float(guided),
            "corrected": float(since >= 0),
            "temperature": 1 - (1 - MIN_TEMPERATURE) * cold,
        }

    def before_epoch(self, epoch: int, survey: Survey) -> None:
        """Fit two beta distributions to the losses of the samples to come."""
        if epoch >= self.settings.warm_up:
            found = large_loss_probability(survey.losses(self.network, survey.coming))
            self.noise_probability[survey.coming] = found

    def step(self, batch: Batch, at: Scalars) -> StepResult:
        """Mixup's loss against labels and predictions, weighted by the doubt.

        The code looks a batch's losses up in the mixture; here each sample's doubt is the one found
        before the epoch.
        """
        with torch.no_grad():
            plain = self.network(batch.images).float()
        doubt = self.noise_probability[batch.index]
        given = F.one_hot(batch.label, plain.shape[1]).float()
        # Cross-entropy is linear in its target: mixing losses or targets is the same.
        opinion = self._opinion(plain, at)
        target = torch.lerp(given, opinion, (at["corrected"] * doubt)[:, None])

        partner = batch.draws[:, 0].argsort()
        share = draw(self.quantiles, batch.draws[0, 1])
        in_image, in_target = self._shares(share, 1 - doubt, partner, at)
        logits = self.network(mix(batch.images, partner, in_image)).float()
        loss = batch_mean(soft_cross_entropy(logits, mix(target, partner, in_target)))
        balance = self.settings.balance * at["corrected"]
        loss = loss + balance * balance_penalty(logits.softmax(dim=1))
        return StepResult(
            loss,
            **describe(plain, batch.label),
            clean_likelihood=1 - doubt,
            # The method knows no foreign samples: a label in doubt counts as ID.
            group=torch.where(doubt < 0.5, CLEAN, ID),
        )

    def _opinion(self, logits: Tensor, at: Scalars) -> Tensor:
        """What the network would say instead of the labels, ``(batch, classes)``."""
        if self.settings.variant == "m-dyr" and self.settings.bootstrap == "hard":
            return F.one_hot(logits.argmax(dim=1), logits.shape[1]).float()
        return (logits / at["temperature"]).softmax(dim=1)

    def _shares(
        self, share: Tensor, trust: Tensor, partner: Tensor, at: Scalars
    ) -> tuple[Tensor, Tensor]:
        """How much of itself a sample keeps in its mixed image, and in the target of that.

        Args:
            share: drawn, scalar: that of both, unless mixup is guided.
            trust: in the label of each sample, ``(batch,)``.
            partner: number of each sample's partner, ``(batch,)``.
            at: the schedule's values.
        """
        half = torch.full_like(share, 0.5)
        if self.settings.variant == "m-dyr":
            # Code: its soft variant mixes images by the share and targets half and half.
            soft = self.settings.bootstrap == "soft"
            return share, torch.where((at["corrected"] > 0.5) & soft, half, share)
        trusted = trust / (trust + trust[partner])
        in_image = torch.where(at["guided"] > 0.5, trusted, share)
        # Code: half of each, once predictions stand in for labels.
        return in_image, torch.where(at["guided"] * at["corrected"] > 0.5, half, share)
