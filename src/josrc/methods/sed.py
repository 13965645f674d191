"""SED: a threshold that adapts itself and the classes, and weights for what a teacher says.

Sheng, Sun, Chen, Pang, Wang and Yao, Foster Adaptivity and Balance in Learning with Noisy Labels,
ECCV 2024; "code" is what the authors published. There both networks look at a random view of every
sample once per epoch, with statistics of the batch; here they look at the plain image.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from josrc.config import MethodSettings, phase
from josrc.data.loaders import Batch, Needs
from josrc.data.noise import CLEAN, ID
from josrc.data.source import Source
from josrc.distributed import batch_mean, mean_over
from josrc.losses import soft_cross_entropy
from josrc.methods._survey import Survey
from josrc.methods.base import Method, Scalars, Step, StepResult, describe, move_teacher

# code: the quantile of the labels' probabilities, its highest value, and the Gaussian's width.
QUANTILE, MAX_QUANTILE, GAUSSIAN_WIDTH = 0.8, 0.95, 2.0


class SEDSettings(MethodSettings):
    """Settings of SED: those of its run.sh for CIFAR-100 with 20 % symmetric noise."""

    name: str = "sed"
    # code: 20 of 100 epochs
    warm_up: int = phase(20, of=100, description="epochs on all labels, with an entropy bonus")
    threshold_momentum: float = Field(0.9, ge=0, lt=1, description="m of SCS, per epoch")
    weight_momentum: float = Field(0.9, ge=0, lt=1, description="m of SCR, per epoch")
    strong_weight: float = Field(1.0, ge=0, description="alpha, of the teacher's labels")
    teacher_decay: float = Field(
        0.99, ge=0, lt=1, description="decay of the mean teacher, per step"
    )


class SED(Method):
    """Clean samples by SCS, a teacher's labels on the strong view weighted by SCR."""

    Settings = SEDSettings
    title = "SED"
    reference = "Sheng et al., Foster Adaptivity and Balance, ECCV 2024"
    needs = Needs(views=2)
    defaults: ClassVar[dict[str, Any]] = {
        "views": {"strong": "last", "policy": "autoaugment"},
        "optimizer": {
            "name": "sgd",
            "lr": 0.01,
            "before": 0.05,
            "end": 0.0005,
            "momentum_after": None,
            "nesterov": True,
            "weight_decay": 5e-4,
            "decay": "cosine",
            "decay_start": 40,
        },
    }
    settings: SEDSettings
    threshold: Tensor
    class_mean: Tensor
    clean: Tensor
    teacher_label: Tensor
    weight: Tensor
    confidence_mean: Tensor
    confidence_variance: Tensor

    def __init__(self, settings: SEDSettings, create_network: Callable[[], nn.Module]) -> None:
        super().__init__(settings, create_network)
        self.mean_teacher = copy.deepcopy(self.network).requires_grad_(False)
        self.train()

    def train(self, mode: bool = True) -> SED:
        """Training mode; the teacher stays in evaluation mode."""
        super().train(mode)
        if hasattr(self, "mean_teacher"):
            self.mean_teacher.eval()
        return self

    def prepare(self, source: Source) -> None:
        """Thresholds begin at chance; until the first look all labels are clean."""
        samples, classes = len(source), source.closed
        chance = torch.full((classes,), 1 / classes)
        self.remember("threshold", torch.tensor(1 / classes))
        self.remember("class_mean", chance.clone())
        self.remember("clean", torch.ones(samples))
        self.remember("teacher_label", torch.from_numpy(source.given).clone())
        self.remember("weight", torch.ones(samples))
        self.remember("confidence_mean", chance.clone())
        self.remember("confidence_variance", torch.ones(classes))

    def step_for(self, epoch: int, epochs: int) -> Step:
        """Plain training, then selected and corrected samples."""
        return self.warm_up_step if epoch < self.settings.warm_up else self.step

    def before_epoch(self, epoch: int, survey: Survey) -> None:
        """Select (SCS) and weigh (SCR) by what both networks say of every sample."""
        if epoch < self.settings.warm_up:
            return
        self._select(survey.logits(self.network).softmax(dim=1), survey.labels)
        self._weigh(survey.logits(self.mean_teacher).softmax(dim=1))

    def _select(self, predicted: Tensor, label: Tensor) -> None:
        """Clean: probability of the label at or above the threshold, relative to its class."""
        m = self.settings.threshold_momentum
        given = predicted.gather(1, label[:, None]).squeeze(1)
        ordered = given.sort().values  # torch's quantile takes 16 million numbers at most
        place = QUANTILE * (len(ordered) - 1)
        low, high = ordered[int(place)], ordered[min(int(place) + 1, len(ordered) - 1)]
        quantile = torch.lerp(low, high, place - int(place))
        self.threshold.copy_(torch.lerp(quantile, self.threshold, m).clamp(0, MAX_QUANTILE))
        self.class_mean.lerp_(predicted.mean(dim=0), 1 - m)
        own = (self.class_mean / self.class_mean.max())[label]
        self.clean.copy_((given >= self.threshold * own).to(self.clean.dtype))

    def _weigh(self, taught: Tensor) -> None:
        """A Gaussian below the mean confidence of the teacher's class."""
        m, classes = self.settings.weight_momentum, taught.shape[1]
        confidence, top = taught.max(dim=1)
        count = top.bincount(minlength=classes)
        mean = top.bincount(confidence, minlength=classes) / count.clamp(min=1)
        squares = (confidence - mean[top]).square()
        variance = top.bincount(squares, minlength=classes) / (count - 1).clamp(min=1)
        several = count > 1
        self.confidence_mean.lerp_(torch.where(several, mean, 0).to(taught.dtype), 1 - m)
        self.confidence_variance.lerp_(torch.where(several, variance, 1).to(taught.dtype), 1 - m)
        below = (confidence - self.confidence_mean[top]).clamp(max=0)
        narrowed = self.confidence_variance[top] / GAUSSIAN_WIDTH**2
        self.weight.copy_(torch.exp(-below.square() / (2 * narrowed)))
        self.teacher_label.copy_(top)

    def warm_up_step(self, batch: Batch, at: Scalars) -> StepResult:
        """Cross-entropy on all labels, less the entropy of the positive logits."""
        logits = self.network(batch.images.chunk(2)[0]).float()
        positive = logits.clamp(min=1e-12)
        bonus = soft_cross_entropy(positive, positive.softmax(dim=1))
        loss = batch_mean(F.cross_entropy(logits, batch.label, reduction="none") - bonus)
        group = torch.full_like(batch.label, CLEAN)
        return StepResult(loss, **describe(logits, batch.label), group=group)

    def step(self, batch: Batch, at: Scalars) -> StepResult:
        """Clean labels on the weak view, the teacher's on the strong one of all samples."""
        weak, strong = (self.network(view).float() for view in batch.images.chunk(2))
        clean, pseudo = self.clean[batch.index], self.teacher_label[batch.index]
        entropy = F.cross_entropy(weak, batch.label, reduction="none")
        corrected = F.cross_entropy(strong, pseudo, reduction="none") * self.weight[batch.index]
        loss = mean_over(entropy, clean) + self.settings.strong_weight * batch_mean(corrected)
        return StepResult(
            loss,
            **describe(weak, batch.label),
            # The method knows no foreign samples.
            group=torch.where(clean > 0.5, CLEAN, ID),
            agreement=(weak.argmax(dim=1) == strong.argmax(dim=1)).float(),
            second_prediction=pseudo,
        )

    def after_update(self) -> None:
        """Move the mean teacher; its statistics are the student's."""
        move_teacher(self.mean_teacher, self.network, self.settings.teacher_decay, statistics=True)

    @property
    def teacher(self) -> nn.Module:
        """The student is what the paper tests; the teacher's accuracy comes with it."""
        return self.mean_teacher
