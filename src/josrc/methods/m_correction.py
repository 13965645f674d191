"""M-correction: mixup, and each label trusted as far as a mixture of losses says.

Arazo, Ortego, Albert, O'Connor and McGuinness, Unsupervised Label Noise Modeling and Loss
Correction, ICML 2019, its variant M-DYR; "code" is what the authors published.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from josrc.config import MethodSettings, phase
from josrc.data.loaders import Batch, Needs
from josrc.data.noise import CLEAN, ID
from josrc.data.source import Source
from josrc.distributed import batch_mean
from josrc.losses import balance_penalty, soft_cross_entropy
from josrc.methods._mixup import beta_quantiles, draw, mix
from josrc.methods._survey import Survey
from josrc.methods.base import Method, Scalars, StepResult, describe
from josrc.selection import large_loss_probability


class MCorrectionSettings(MethodSettings):
    """Settings of M-correction; "paper" and "code" name the source of a default."""

    name: str = "m-correction"
    # code: 105 of 300 epochs, five after the first decay of the learning rate
    warm_up: int = phase(105, of=300, description="epochs of mixup on the given labels")
    # paper and code: 32, so that most pairs are mixed half and half
    mixup: float = Field(32.0, gt=0, description="alpha, both parameters of the beta distribution")
    # paper: M-DYR-H, hard, is the better one up to 80 % noise
    bootstrap: Literal["hard", "soft"] = Field(
        "hard", description="the prediction as one class, or as probabilities"
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
        """The balance of classes counts once labels are in doubt."""
        return {"balance": self.settings.balance * float(epoch >= self.settings.warm_up)}

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
        classes = plain.shape[1]
        opinion = plain.softmax(dim=1)
        if self.settings.bootstrap == "hard":
            opinion = F.one_hot(opinion.argmax(dim=1), classes)
        doubt = self.noise_probability[batch.index]
        given = F.one_hot(batch.label, classes)
        # Cross-entropy is linear in its target: mixing losses or targets is the same.
        target = torch.lerp(given.float(), opinion.float(), doubt[:, None])

        partner = batch.draws[:, 0].argsort()
        share = draw(self.quantiles, batch.draws[0, 1])
        logits = self.network(mix(batch.images, partner, share)).float()
        loss = batch_mean(soft_cross_entropy(logits, mix(target, partner, share)))
        loss = loss + at["balance"] * balance_penalty(logits.softmax(dim=1))
        return StepResult(
            loss,
            **describe(plain, batch.label),
            clean_likelihood=1 - doubt,
            # The method knows no foreign samples: a label in doubt counts as ID.
            group=torch.where(doubt < 0.5, CLEAN, ID),
        )
