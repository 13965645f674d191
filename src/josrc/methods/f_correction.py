"""F-correction: learn how labels are confused, and correct the loss by it.

Patrini, Rozza, Menon, Nock and Qu, CVPR 2017; "code" is what the authors published.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from josrc._io import UNREADABLE, readable
from josrc._reading import read_array, regular
from josrc.config import File, LowerCase, MethodSettings, phase
from josrc.data.loaders import Batch
from josrc.data.noise import CLEAN, ID
from josrc.data.source import Source
from josrc.distributed import mean_over
from josrc.errors import UserError
from josrc.losses import log_probabilities
from josrc.methods._survey import Survey
from josrc.methods.base import Method, Scalars, StepResult, describe

# How far the sum of a row of a given matrix may be from 1.
ROW_TOLERANCE = 1e-3


class FCorrectionSettings(MethodSettings):
    """Settings of F-correction; "paper" and "code" name the source of a default."""

    name: str = "f-correction"
    # paper: both; forward is the better one nearly everywhere
    variant: LowerCase[Literal["forward", "backward"]] = Field(
        "forward", description="correct the prediction, or the loss"
    )
    # ours: half of the run. Paper and code train twice, each time to the end.
    warm_up: int = phase(100, description="epochs of cross-entropy before the matrix is estimated")
    # code: 0.1
    holdout: float = Field(
        0.1, ge=0, lt=1, description="share of noisy images by which the best epoch is chosen"
    )
    # code: 100 for CIFAR-100, 97 elsewhere. The very surest sample of a class may be an outlier.
    anchor_percentile: float = Field(
        100.0,
        gt=0,
        le=100,
        description="percentile of confidence at which the example of a class is taken",
    )
    matrix: File | None = Field(
        None, description="a known matrix, .npy or .csv, a row per true class; null: estimate it"
    )


class FCorrection(Method):
    """Train, estimate how labels are confused, and train on with that in the loss.

    Each of the two trainings keeps the epoch that explains noisy labels of images held out best.
    The second begins with what the first kept; what it keeps is tested.
    """

    Settings = FCorrectionSettings
    title = "F-correction"
    reference = "Patrini et al., Making Deep Neural Networks Robust to Label Noise, CVPR 2017"
    settings: FCorrectionSettings
    chosen: nn.Module
    transitions: Tensor
    inverse: Tensor
    held: Tensor
    least_loss: Tensor

    def __init__(
        self, settings: FCorrectionSettings, create_network: Callable[[], nn.Module]
    ) -> None:
        super().__init__(settings, create_network)
        if settings.holdout:
            self.chosen = copy.deepcopy(self.network).requires_grad_(False)

    def check(self, source: Source, noisy: bool) -> None:
        """A given matrix must be one, and of these classes."""
        if self.settings.matrix is not None:
            read_matrix(self.settings.matrix, source.closed)

    def prepare(self, source: Source) -> None:
        """Hold images out; no label is taken for confused until a matrix is there."""
        self.remember("transitions", torch.eye(source.closed))
        self.remember("inverse", torch.eye(source.closed))
        self.remember("least_loss", torch.tensor(math.inf))
        drawn = torch.randperm(len(source))[: round(self.settings.holdout * len(source))]
        held = torch.zeros(len(source), dtype=torch.bool)
        self.remember("held", held.index_fill(0, drawn, True))
        if self.settings.matrix is not None:
            self._correct_by(read_matrix(self.settings.matrix, source.closed))

    def before_epoch(self, epoch: int, survey: Survey) -> None:
        """After the first training: go back to its best epoch, and estimate the matrix there."""
        if epoch != self.settings.warm_up or self.settings.matrix is not None:
            return
        if epoch:
            if self.settings.holdout:
                self.network.load_state_dict(self.chosen.state_dict())
            survey.reset_optimizer()
        predictions = survey.logits(self.network).softmax(dim=1)
        self._correct_by(estimate_transitions(predictions, self.settings.anchor_percentile))
        self.least_loss.fill_(math.inf)

    def after_epoch(self, epoch: int, survey: Survey) -> None:
        """Keep the network if it explains noisy labels of images held out better than before."""
        if not self.settings.holdout:
            return
        held = self.held.nonzero().squeeze(1)
        logits, label = survey.logits(self.network, held), survey.labels[held]
        loss = self._losses(logits, label).mean() if len(held) else torch.tensor(-math.inf)
        if loss < self.least_loss or epoch == 0 or not len(held):
            self.chosen.load_state_dict(self.network.state_dict())
            self.least_loss.copy_(loss)

    def step(self, batch: Batch, at: Scalars) -> StepResult:
        """Mean corrected loss of the given labels, but those of images held out."""
        logits = self.network(batch.images).float()
        joint = true_and_given(logits.detach(), batch.label, self.transitions)
        # Bayes' rule: how likely each class is the true one, now that the given label is known.
        truth = joint.softmax(dim=1).gather(1, batch.label[:, None]).squeeze(1)
        return StepResult(
            mean_over(self._losses(logits, batch.label), ~self.held[batch.index]),
            **describe(logits, batch.label),
            clean_likelihood=truth,
            # The method knows no foreign samples.
            group=torch.where(joint.argmax(dim=1) == batch.label, CLEAN, ID),
        )

    @property
    def tested(self) -> list[nn.Module]:
        """The epoch that images held out have chosen, or the last one."""
        return [self.chosen if self.settings.holdout else self.network]

    def load_weights(self, values: Mapping[str, Tensor]) -> None:
        """Weights of a run that chose no epoch are those of its last one."""
        if self.settings.holdout and not any(key.startswith("chosen.") for key in values):
            last = {key.removeprefix("network."): value for key, value in values.items()}
            values = {**values, **{f"chosen.{key}": value for key, value in last.items()}}
        super().load_weights(values)

    def _correct_by(self, transitions: Tensor) -> None:
        self.transitions.copy_(transitions)
        # Rows that are alike have no inverse; this is as near as there is to one.
        self.inverse.copy_(torch.linalg.pinv(transitions.double()))

    def _losses(self, logits: Tensor, label: Tensor) -> Tensor:
        """What each given label costs, ``(batch,)``."""
        if self.settings.variant == "backward":
            # The mean of these over labels drawn by the matrix is the true class's cross-entropy.
            # They may be negative, and are bounded as probabilities are.
            return -(self.inverse[label] * log_probabilities(logits)).sum(dim=1)
        return -true_and_given(logits, label, self.transitions).logsumexp(dim=1)


def true_and_given(logits: Tensor, label: Tensor, transitions: Tensor) -> Tensor:
    """``log p(true class j, given label)`` of every class, ``(batch, classes)``.

    Its logarithm of the sum of exponentials is the log-likelihood of the given label.

    Args:
        logits: ``(batch, classes)``.
        label: given labels, ``(batch,)``.
        transitions: probability of each given label (column) for each true class (row).
    """
    return F.log_softmax(logits, dim=1) + transitions.log().t()[label]


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


def read_matrix(path: Path, classes: int) -> Tensor:
    """A matrix of probabilities from a file, ``(classes, classes)``.

    Args:
        path: ``.npy``, or ``.csv`` with commas and no header.
        classes: how many there are.
    """
    complaint = "can't be read as a matrix"
    with readable(path, complaint, UNREADABLE):
        if path.suffix == ".npy":
            found = read_array(path, complaint)
        else:
            found = np.loadtxt(regular(path), delimiter=",", ndmin=2)
        matrix = torch.from_numpy(found.astype(np.float64))
    if matrix.shape != (classes, classes):
        shape = " x ".join(map(str, matrix.shape))
        raise UserError(f"method.matrix: {path} is {shape}; the data has {classes} classes.")
    sums = matrix.sum(dim=1)
    if not (matrix >= 0).all() or not ((sums - 1).abs() < ROW_TOLERANCE).all():
        raise UserError(
            f"method.matrix: {path} does not hold probabilities. Each row is a true class: how "
            "likely each given label is, which sums to 1."
        )
    return (matrix / sums[:, None]).float()
