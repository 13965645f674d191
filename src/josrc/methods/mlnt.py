"""MLNT (Meta-Learning): train so that a step on wrong labels would do no harm.

Li, Wong, Zhao and Kankanhalli, Learning to Learn from Noisy Labeled Data, CVPR 2019; "code" is what
the authors published, for Clothing1M, and "port" an adaption of others to CIFAR.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn
from torch.func import functional_call, vjp

from josrc.config import MethodSettings, phase
from josrc.data.loaders import Batch, Needs
from josrc.distributed import batch_mean
from josrc.losses import soft_cross_entropy
from josrc.methods._survey import Survey
from josrc.methods.base import Method, Scalars, Step, StepResult, describe, move_teacher
from josrc.models.hardware import second_gradients

# Every set of wrong labels adds a forward pass and the work of four backward ones to the code of a
# step. Of more than so many sets a compiler would take longer than it saves.
MOST_COMPILED = 2

Weights = dict[str, Tensor]
PullBack = Callable[[Tensor], Weights]


class MLNTSettings(MethodSettings):
    """Settings of MLNT; "paper", "code" and "port" name the source of a default."""

    name: str = "mlnt"
    # code: 500 of 31,250 iterations of one epoch; that share of 200 epochs
    warm_up: int = phase(3, description="epochs of cross-entropy before the meta-training")
    # port: 20 of 200 epochs (code: 1,500 iterations)
    ramp: int = phase(20, description="epochs in which the weight of consistency rises to its own")
    # code: 1, of a divergence averaged over classes too, which makes it 14 times smaller; port: 0.2
    # likewise. Ours: 1 of the divergence as the paper writes it.
    consistency: float = Field(1.0, ge=0, description="weight of the teacher's divergence")
    # paper and code: 10
    synthetic: int = Field(10, ge=1, description="M, sets of wrong labels that a step tries")
    # code: half of a batch
    relabelled: float = Field(0.5, ge=0, le=1, description="share of a batch with a wrong label")
    # paper and code: 10
    neighbours: int = Field(10, ge=1, description="wrong labels come from so many alike samples")
    # code and port: 0.02
    meta_rate: float = Field(0.02, gt=0, description="learning rate of the step that is tried")
    # code: 0.99, from iteration 2,000 on 0.999
    teacher_decay: float = Field(0.999, ge=0, le=1, description="how much of itself it keeps")
    # The paper differentiates through the step that is tried, and so does the code.
    second_order: bool = Field(True, description="differentiate through the step that is tried")


class MLNT(Method):
    """Algorithm 1 of the paper, one round of it.

    The paper trains three rounds. Each takes the best model of the one before as mentor, and leaves
    out samples which that one does not believe. Here the mentor is the network at the end of the
    warm-up, and no sample is left out.
    """

    Settings = MLNTSettings
    title = "MLNT"
    reference = "Li et al., Learning to Learn from Noisy Labeled Data, CVPR 2019"
    selects = False
    settings: MLNTSettings
    mentor: nn.Module

    def __init__(self, settings: MLNTSettings, create_network: Callable[[], nn.Module]) -> None:
        super().__init__(settings, create_network)
        self.mean_teacher = copy.deepcopy(self.network).requires_grad_(False)
        self.remember("mentor", copy.deepcopy(self.network).requires_grad_(False))
        self.needs = Needs(draws=2 * settings.synthetic)
        self.compiles = settings.synthetic <= MOST_COMPILED
        self.train()

    def train(self, mode: bool = True) -> MLNT:
        """Training mode; the mentor never changes, its statistics neither."""
        super().train(mode)
        if hasattr(self, "mentor"):
            self.mentor.eval()
        return self

    def schedule(self, epoch: int, epochs: int) -> dict[str, float]:
        """The weight of consistency rises like a bell's flank."""
        s = self.settings
        if epoch < s.warm_up:
            return {"consistency": 0.0}
        done = min(1.0, (epoch - s.warm_up) / max(1, s.ramp))
        return {"consistency": s.consistency * math.exp(-5 * (1 - done) ** 2)}

    def step_for(self, epoch: int, epochs: int) -> Step:
        """Plain training, then meta-training."""
        return self.warm_up_step if epoch < self.settings.warm_up else self.step

    def before_epoch(self, epoch: int, survey: Survey) -> None:
        """After the warm-up the network as it is becomes the mentor."""
        if epoch == self.settings.warm_up:
            self.mentor.load_state_dict(self.network.state_dict())

    def step(self, batch: Batch, at: Scalars) -> StepResult:
        """Cross-entropy, and how far steps on wrong labels would lead away from the teacher."""
        with torch.no_grad():
            taught = self.mean_teacher(batch.images).float().softmax(dim=1)
            near = self._neighbours(batch.images)
        with second_gradients():
            logits, pull_back = self._forward(batch.images)
            loss = batch_mean(F.cross_entropy(logits, batch.label, reduction="none"))
            harm = torch.zeros_like(loss)
            for number in range(self.settings.synthetic):
                gradient = pull_back(error(logits, self._relabel(batch, near, number)))
                harm = harm + self._harm(batch.images, gradient, taught)
        found = describe(logits, batch.label)
        second = taught.argmax(dim=1)
        return StepResult(
            loss + at["consistency"] * harm / self.settings.synthetic,
            **found,
            clean_likelihood=taught.gather(1, batch.label[:, None]).squeeze(1),
            agreement=(found["prediction"] == second).float(),
            second_prediction=second,
        )

    def warm_up_step(self, batch: Batch, at: Scalars) -> StepResult:
        """Cross-entropy alone."""
        logits = self.network(batch.images).float()
        loss = batch_mean(F.cross_entropy(logits, batch.label, reduction="none"))
        return StepResult(loss, **describe(logits, batch.label))

    def after_update(self) -> None:
        """Move the mean teacher. Tested, it uses the student's statistics."""
        move_teacher(self.mean_teacher, self.network, self.settings.teacher_decay, statistics=True)

    @property
    def teacher(self) -> nn.Module:
        """The code keeps whichever of student and teacher is better on clean validation images."""
        return self.mean_teacher

    def _neighbours(self, images: Tensor) -> Tensor:
        features = self.mentor.get_submodule("backbone")(images).float()
        return nearest(features, self.settings.neighbours)

    def _relabel(self, batch: Batch, near: Tensor, number: int) -> Tensor:
        """Labels of which some are those of a neighbour, ``(batch,)``."""
        who, which = batch.draws[:, 2 * number], batch.draws[:, 2 * number + 1]
        chosen = who.argsort().argsort() < self.settings.relabelled * len(who)
        place = (which * near.shape[1]).long()[:, None]
        return torch.where(chosen, batch.label[near.gather(1, place).squeeze(1)], batch.label)

    def _forward(self, images: Tensor) -> tuple[Tensor, PullBack]:
        """Logits, and what turns a gradient for them into one for the weights.

        A function of the weights, unlike ``torch.autograd.grad``, is something a compiler traces.
        """

        def predict(weights: Weights) -> tuple[Tensor, Weights]:
            moved = self._statistics()
            return functional_call(self.network, (weights, moved), (images,)).float(), moved

        found: Any = vjp(predict, dict(self.network.named_parameters()), has_aux=True)
        logits, pull_back, moved = found
        for name, value in self.network.named_buffers():
            value.copy_(moved[name].detach())
        return logits, lambda gradient: pull_back(gradient)[0]

    def _harm(self, images: Tensor, gradient: Weights, taught: Tensor) -> Tensor:
        """``KL(teacher || network after a step on wrong labels)``, scalar."""
        if not self.settings.second_order:
            gradient = {name: value.detach() for name, value in gradient.items()}
        moved = {
            name: weight - self.settings.meta_rate * gradient[name]
            for name, weight in self.network.named_parameters()
        }
        logits = functional_call(self.network, (moved, self._statistics()), (images,)).float()
        entropy = torch.special.entr(taught).sum(dim=1)
        divergence: Tensor = soft_cross_entropy(logits, taught) - entropy
        return batch_mean(divergence)

    def _statistics(self) -> Weights:
        """Clones: a step that is only tried must not leave its mark on running statistics."""
        return {name: value.clone() for name, value in self.network.named_buffers()}


def error(logits: Tensor, label: Tensor) -> Tensor:
    """Gradient of the mean cross-entropy for the logits, ``(batch, classes)``."""
    hot = F.one_hot(label, logits.shape[1])
    return (logits.softmax(dim=1) - hot) / len(label)


def nearest(features: Tensor, count: int) -> Tensor:
    """Numbers of each row's nearest other rows, ``(batch, count)`` or fewer where there are."""
    oneself = torch.eye(len(features), dtype=torch.bool, device=features.device)
    distance = torch.cdist(features, features).masked_fill(oneself, torch.inf)
    return distance.topk(min(count, len(features) - 1), largest=False).indices
