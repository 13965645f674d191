"""Jo-SRC: joint sample selection and model regularisation based on consistency.

Yao, Sun, Zhang, Shen, Wu, Zhang and Tang, CVPR 2021; equation numbers are the paper's.
Where paper and published code differ, the default is the code's, since it made the published
numbers, and the other is a setting.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from josrc.config import LowerCase, MethodSettings, phase
from josrc.data.loaders import Batch, Needs
from josrc.data.noise import CLEAN, ID, OOD
from josrc.distributed import batch_mean, mean_over
from josrc.losses import log_probabilities, smooth_labels, soft_cross_entropy, symmetric_divergence
from josrc.methods.base import Method, Scalars, StepResult, describe, move_teacher
from josrc.selection import clean_likelihood, divide, ood_likelihood, threshold_schedule


class JoSRCSettings(MethodSettings):
    """Settings of Jo-SRC; "paper" and "code" name the source of a default."""

    retired: ClassVar = {"strict_threshold": False, "guard_empty": True, "guard_logarithms": True}
    name: str = "josrc"
    # Table 6: train on clean samples (c), ID ones too (ci), all (cio), with consistency (full).
    variant: LowerCase[Literal["c", "ci", "cio", "full"]] = Field(
        "full",
        description="train on clean samples, also on mislabelled ones, on all, or on "
        "all with consistency",
    )
    # paper: 0.6
    smoothing: float = Field(0.6, ge=0, lt=1, description="epsilon of Eq. 5")
    # code: 0.75 for CIFAR (0.9 for Clothing1M); the paper gives no value.
    threshold: float = Field(0.75, ge=0, le=1, description="tau_c of Eq. 12")
    # paper: 0.95
    threshold_max: float = Field(0.95, ge=0, le=1, description="tau_m of Eq. 12")
    # code: 10 of 200 epochs for CIFAR; the paper gives no value.
    warm_up: int = phase(10, description="t_w, epochs on clean samples only")
    # code: 0.5 for CIFAR; the paper gives no value.
    alpha: float = Field(0.5, ge=0, le=1, description="weight of the consistency term, Eq. 10")
    # paper: 0.99
    teacher_decay: float = Field(0.99, ge=0, le=1, description="omega of Eq. 8")
    # paper: 10
    ood_scale: float = Field(10.0, gt=0, description="s of Eq. 7")

    # The code counts epochs from 0 and the paper from 1: there the threshold is one epoch behind.
    first_epoch: Literal[0, 1] = Field(0, description="index of the first epoch in Eq. 12")
    # The code averages the teacher's predictions on both views; the paper has one p(x, theta_mt).
    teacher_views: Literal["both", "first"] = Field("both", description="what Eq. 6 averages")
    # The code never switches the teacher to evaluation: its batch norms use the batch's statistics.
    teacher_mode: Literal["train", "eval"] = Field(
        "train",
        description="batch norm of the teacher: statistics of the batch, or running statistics",
    )
    # The code forwards the views one after the other. One forward of both launches half the kernels
    # and takes batch statistics over twice the images.
    joint_forward: bool = Field(True, description="both views in one forward pass")
    # The code takes the logarithms of Eq. 9 to base 2; the paper says base 2 of Eq. 2 only.
    consistency_base: float = Field(2.0, gt=1, description="base of the logarithms of Eq. 9")
    # ours: Eq. 9 rewards the disagreement of OOD samples without bound (docs/paper/josrc.md).
    ood_divergence_cap: float | None = Field(
        1.0,
        gt=0,
        description="largest divergence of an OOD sample that is rewarded; null: no limit",
    )


class JoSRC(Method):
    """Algorithm 1."""

    Settings = JoSRCSettings
    title = "Jo-SRC"
    reference = "Yao et al., Jo-SRC: A Contrastive Approach for Combating Noisy Labels, CVPR 2021"
    failure_hint = "a loss term without a lower bound (method.ood_divergence_cap)"
    needs = Needs(views=2)
    settings: JoSRCSettings

    def __init__(self, settings: JoSRCSettings, create_network: Callable[[], nn.Module]) -> None:
        super().__init__(settings, create_network)
        self.mean_teacher = copy.deepcopy(self.network).requires_grad_(False)
        self.train()

    def train(self, mode: bool = True) -> JoSRC:
        """Training mode; the teacher's batch norms follow ``teacher_mode``."""
        super().train(mode)
        if hasattr(self, "mean_teacher"):
            self.mean_teacher.train(mode and self.settings.teacher_mode == "train")
        return self

    def schedule(self, epoch: int, epochs: int) -> dict[str, float]:
        """Threshold (Eq. 12); consistency and re-labelling begin after the warm-up."""
        s, time = self.settings, epoch + self.settings.first_epoch
        warm = time < s.warm_up
        return {
            "threshold": threshold_schedule(time, s.warm_up, epochs, s.threshold, s.threshold_max),
            "alpha": s.alpha if s.variant == "full" and not warm else 0.0,
            "relabel": 0.0 if warm else 1.0,
        }

    def step(self, batch: Batch, at: Scalars) -> StepResult:
        """One iteration of Algorithm 1, from predictions to the loss."""
        s = self.settings
        first, second = self._forward(self.network, batch.images)

        # Divide the batch by Criteria 3.1 and 3.2; selection carries no gradient.
        label = smooth_labels(batch.label, first.shape[1], s.smoothing)  # Eq. 5
        likelihood = clean_likelihood(first.detach().softmax(dim=1), label)  # Eqs. 2 and 3, view 1
        disagree = ood_likelihood(first.detach(), second.detach())  # Eq. 4
        group = divide(likelihood >= at["threshold"], disagree)

        # Re-label: clean samples by Eq. 5, ID ones by the teacher, OOD ones nearly uniformly.
        taught = self._teach(batch.images)  # Eq. 6
        uniform = (taught / s.ood_scale).softmax(dim=1)  # Eq. 7
        is_id, is_ood = (group == ID)[:, None], (group == OOD)[:, None]
        target = torch.where(is_id, taught, torch.where(is_ood, uniform, label))

        # Eq. 11 over the samples in use: clean ones, after the warm-up also others (variant).
        used_groups = {"c": CLEAN, "ci": ID, "cio": OOD, "full": OOD}[s.variant]
        used = (group <= used_groups * at["relabel"]).float()
        entropy = soft_cross_entropy(first, target) + soft_cross_entropy(second, target)
        loss = classification = mean_over(entropy, used)
        if s.variant == "full":
            consistency = batch_mean(self._consistency(first, second, group == OOD))  # Eq. 9
            loss = (1 - at["alpha"]) * classification + at["alpha"] * consistency  # Eq. 10

        found = describe(first, batch.label)
        student = (found["mean_probabilities"] + second.detach().softmax(dim=1)) / 2
        return StepResult(
            loss,
            **found | {"mean_probabilities": (student + taught) / 2},
            group=group,
            clean_likelihood=likelihood,
            agreement=1 - disagree,
            second_prediction=taught.argmax(dim=1),
            second_label_probability=taught.gather(1, batch.label[:, None]).squeeze(1),
        )

    def after_update(self) -> None:
        """Move the mean teacher, Eq. 8."""
        s = self.settings
        move_teacher(self.mean_teacher, self.network, s.teacher_decay, s.teacher_mode == "eval")

    @property
    def teacher(self) -> nn.Module:
        """The student is what the paper tests; the teacher's accuracy comes with it."""
        return self.mean_teacher

    def _forward(self, network: nn.Module, images: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of view 1 and of view 2, each ``(batch, classes)``, in float32."""
        if self.settings.joint_forward:
            first, second = network(images).chunk(2)
        else:
            first, second = (network(view) for view in images.chunk(2))
        return first.float(), second.float()

    @torch.no_grad()
    def _teach(self, images: Tensor) -> Tensor:
        """The mean teacher's prediction, Eq. 6, ``(batch, classes)``."""
        if self.settings.teacher_views == "first":
            first: Tensor = self.mean_teacher(images.chunk(2)[0])
            return first.float().softmax(dim=1)
        first, second = self._forward(self.mean_teacher, images)
        return (first.softmax(dim=1) + second.softmax(dim=1)) / 2

    def _consistency(self, first: Tensor, second: Tensor, ood: Tensor) -> Tensor:
        """The signed divergence of two views, the summand of Eq. 9, ``(batch,)``."""
        s = self.settings
        log_p, log_q = log_probabilities(first), log_probabilities(second)
        divergence = symmetric_divergence(log_p, log_q, s.consistency_base)
        rewarded = divergence.clamp(max=s.ood_divergence_cap or math.inf)
        return torch.where(ood, -rewarded, divergence)
