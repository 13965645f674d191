"""F-correction: learn how labels are confused, and correct the loss forward by it.

Patrini, Rozza, Menon, Nock and Qu, CVPR 2017; "code" is what the authors published.
"""

from __future__ import annotations

import math

import torch
from pydantic import Field
from torch import Tensor

from josrc.config import MethodSettings, phase
from josrc.data.loaders import Batch
from josrc.data.noise import CLEAN, ID
from josrc.data.source import Source
from josrc.distributed import batch_mean
from josrc.methods._survey import Survey
from josrc.methods.base import Method, Scalars, StepResult, describe


class FCorrectionSettings(MethodSettings):
    """Settings of F-correction; "paper" and "code" name the source of a default."""

    name: str = "f-correction"
    # ours: 20 of 200. Paper and code train once to the end, take the weights that were best on
    # noisy labels held out, and train again from there. Nothing is held out here; on noisy labels
    # that best epoch comes early, before the wrong ones are learned by heart.
    warm_up: int = phase(20, description="epochs of cross-entropy before the matrix is estimated")
    # code: 100 for CIFAR-100, 97 elsewhere. The very surest sample of a class may be an outlier.
    anchor_percentile: float = Field(
        100.0, gt=0, le=100, description="samples surer of a class than this are no example of it"
    )


class FCorrection(Method):
    """The forward procedure of the paper, its matrix estimated by the network itself."""

    Settings = FCorrectionSettings
    title = "F-correction"
    reference = "Patrini et al., Making Deep Neural Networks Robust to Label Noise, CVPR 2017"
    settings: FCorrectionSettings
    transitions: Tensor

    def prepare(self, source: Source) -> None:
        """No label is taken for confused until the matrix is estimated: plain cross-entropy."""
        self.remember("transitions", torch.eye(source.closed))

    def before_epoch(self, epoch: int, survey: Survey) -> None:
        """Estimate the matrix once, after the warm-up."""
        if epoch == self.settings.warm_up:
            predictions = survey.logits(self.network).softmax(dim=1)
            found = estimate_transitions(predictions, self.settings.anchor_percentile)
            self.transitions.copy_(found)

    def step(self, batch: Batch, at: Scalars) -> StepResult:
        """Mean cross-entropy of the given labels, as the confused network would predict them."""
        logits = self.network(batch.images).float()
        joint = true_and_given(logits, batch.label, self.transitions)
        found = joint.detach()
        # Bayes' rule: how likely each class is the true one, now that the given label is known.
        truth = found.softmax(dim=1).gather(1, batch.label[:, None]).squeeze(1)
        return StepResult(
            -batch_mean(joint.logsumexp(dim=1)),
            **describe(logits, batch.label),
            clean_likelihood=truth,
            # The method knows no foreign samples.
            group=torch.where(found.argmax(dim=1) == batch.label, CLEAN, ID),
        )


def true_and_given(logits: Tensor, label: Tensor, transitions: Tensor) -> Tensor:
    """``log p(true class j, given label)`` of every class, ``(batch, classes)``.

    Its logarithm of the sum of exponentials is the log-likelihood of the given label.

    Args:
        logits: ``(batch, classes)``.
        label: given labels, ``(batch,)``.
        transitions: probability of each given label (column) for each true class (row).
    """
    return torch.log_softmax(logits, dim=1) + transitions.log().t()[label]


def estimate_transitions(predictions: Tensor, percentile: float) -> Tensor:
    """The paper's Eq. 12: each class's row is the prediction of the sample surest of it.

    Args:
        predictions: of all samples, ``(N, classes)``.
        percentile: samples at or above it, class by class, stand for no class; 100 leaves all.
    """
    sureness = predictions
    if percentile < 100:
        place = math.ceil(percentile / 100 * (len(predictions) - 1)) + 1
        limit = predictions.kthvalue(place, dim=0).values
        sureness = torch.where(predictions >= limit, 0, predictions)
    rows = predictions[sureness.argmax(dim=0)]
    return rows / rows.sum(dim=1, keepdim=True)
