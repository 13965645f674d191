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
from josrc.data.source import Source
from josrc.distributed import mean_over
from josrc.losses import soft_cross_entropy
from josrc.methods._survey import Survey
from josrc.methods.base import Method, Scalars, Step, StepResult, describe, move_teacher
from josrc.models.factory import feature_extractor
from josrc.models.hardware import second_gradients

# Every set of wrong labels adds a forward pass and the work of four backward ones to the code of a
# step. Of more than this many sets a compiler would take longer than it saves.
MAX_COMPILED_SETS = 2

Weights = dict[str, Tensor]
PullBack = Callable[[Tensor], Weights]


class MLNTSettings(MethodSettings):
    """Settings of MLNT; "paper", "code" and "port" name the source of a default."""

    name: str = "mlnt"
    # code: 500 of 31,250 iterations of one epoch; that share of 200 epochs
    warm_up: int = phase(3, description="epochs of cross-entropy before the meta-training")
    # port: 20 of 200 epochs (code: 1,500 iterations)
    ramp: int = phase(
        20, description="epochs over which the weight of consistency rises to its value"
    )
    # code: 1, of a divergence averaged over classes too, which makes it 14 times smaller; port: 0.2
    # likewise. Ours: 1 of the divergence as the paper writes it.
    consistency: float = Field(1.0, ge=0, description="weight of the teacher's divergence")
    # paper and code: 10
    synthetic: int = Field(10, ge=1, description="M, sets of wrong labels that a step tries")
    # code: half of a batch
    relabelled: float = Field(0.5, ge=0, le=1, description="share of a batch with a wrong label")
    # paper and code: 10
    neighbours: int = Field(
        10, ge=1, description="nearest samples that wrong labels are taken from"
    )
    # code and port: 0.02
    meta_rate: float = Field(0.02, gt=0, description="learning rate of the step that is tried")
    # code: 0.99 while the weight of consistency rises (up to iteration 2,000), then 0.999
    young_decay: float = Field(
        0.99, ge=0, le=1, description="share of itself that the teacher keeps during the ramp"
    )
    teacher_decay: float = Field(
        0.999, ge=0, le=1, description="share of itself that the teacher keeps per step, after it"
    )
    # paper: three rounds, each of a whole training. 0, as the code: one.
    round_epochs: int = phase(
        0, description="epochs per round; the next has its teacher as mentor; 0: one round"
    )
    # paper, from memory: 0.01
    filtering: float = Field(
        0.01,
        ge=0,
        le=1,
        description="rounds after the first: smallest probability the mentor gives a label",
    )
    # paper, from memory: up to a half
    mentor_share: float = Field(
        0.5, ge=0, le=1, description="rounds after the first: the mentor's share in the targets"
    )
    # The paper differentiates through the step that is tried, and so does the code.
    second_order: bool = Field(True, description="differentiate through the step that is tried")


class MLNT(Method):
    """Algorithm 1 of the paper, in one round or in several.

    In the first round the mentor, which says what samples are alike, is the network at the end of
    the warm-up. Each later round starts over; its mentor is the teacher of the round before, which
    also leaves out samples whose labels it does not believe, and has its say in what is taught.
    """

    Settings = MLNTSettings
    title = "MLNT"
    reference = "Li et al., Learning to Learn from Noisy Labeled Data, CVPR 2019"
    selects = False
    settings: MLNTSettings
    mentor: nn.Module
    first_network: nn.Module
    kept: Tensor
    teacher_share: Tensor

    def __init__(self, settings: MLNTSettings, create_network: Callable[[], nn.Module]) -> None:
        super().__init__(settings, create_network)
        self.mean_teacher = copy.deepcopy(self.network).requires_grad_(False)
        self.remember("mentor", copy.deepcopy(self.network).requires_grad_(False))
        if settings.round_epochs:
            first = copy.deepcopy(self.network).requires_grad_(False)
            self.remember("first_network", first)
        self.needs = Needs(draws=2 * settings.synthetic)
        self.compiles = settings.synthetic <= MAX_COMPILED_SETS
        self.train()

    def prepare(self, source: Source) -> None:
        """In the first round no sample is left out."""
        self.remember("kept", torch.ones(len(source)))
        self.remember("teacher_share", torch.tensor(1 - self.settings.young_decay))

    def train(self, mode: bool = True) -> MLNT:
        """Training mode; the mentor never changes, its statistics neither."""
        super().train(mode)
        if hasattr(self, "mentor"):
            self.mentor.eval()
        return self

    def schedule(self, epoch: int, epochs: int) -> dict[str, float]:
        """The weight of consistency rises like a bell's flank; a later mentor has its share."""
        s = self.settings
        number, since = self._place(epoch)
        share = {"mentor_share": s.mentor_share if number else 0.0}
        if since < s.warm_up:
            return {"consistency": 0.0} | share
        done = min(1.0, (since - s.warm_up) / max(1, s.ramp))
        return {"consistency": s.consistency * math.exp(-5 * (1 - done) ** 2)} | share

    def facts(self, epochs: int) -> dict[str, int]:
        """How many rounds a run has."""
        return {"rounds": self._place(epochs - 1)[0] + 1}

    def step_for(self, epoch: int, epochs: int) -> Step:
        """Plain training, then meta-training."""
        return self.warm_up_step if self._place(epoch)[1] < self.settings.warm_up else self.step

    def _place(self, epoch: int) -> tuple[int, int]:
        """Which round an epoch belongs to, from 0 on, and its number there."""
        length = self.settings.round_epochs
        return divmod(epoch, length) if length else (0, epoch)

    def before_epoch(self, epoch: int, survey: Survey) -> None:
        """A new round begins with what the last one found; meta-training with a fresh teacher."""
        number, since = self._place(epoch)
        s = self.settings
        self.teacher_share.fill_(
            1 - (s.young_decay if since < s.warm_up + s.ramp else s.teacher_decay)
        )
        if number and not since:
            self.mentor.load_state_dict(self.mean_teacher.state_dict())
            believed = survey.probabilities([self.mentor])
            believed = believed.gather(1, survey.labels[:, None]).squeeze(1)
            self.kept.copy_(believed >= s.filtering)
            self.network.load_state_dict(self.first_network.state_dict())
            survey.reset_optimizer()
        if since == s.warm_up:
            # Else the teacher would keep much of its first, random weights: 0.999 per step.
            self.mean_teacher.load_state_dict(self.network.state_dict())
            if not number:
                self.mentor.load_state_dict(self.network.state_dict())

    def step(self, batch: Batch, at: Scalars) -> StepResult:
        """Cross-entropy, and how far steps on wrong labels would lead away from the teacher."""
        with torch.no_grad():
            taught = self.mean_teacher(batch.images).float().softmax(dim=1)
            features = feature_extractor(self.mentor)(batch.images)
            near = nearest(features.float(), self.settings.neighbours)
            if self.settings.round_epochs:
                head = self.mentor.get_submodule("head")
                mentored = head(features).float().softmax(dim=1)
                taught = torch.lerp(taught, mentored, at["mentor_share"])
        kept = self.kept[batch.index]
        with second_gradients():
            logits, pull_back = self._forward(batch.images)
            loss = mean_over(F.cross_entropy(logits, batch.label, reduction="none"), kept)
            harm = torch.zeros_like(loss)
            for number in range(self.settings.synthetic):
                gradient = pull_back(error(logits, self._relabel(batch, near, number), kept))
                harm = harm + mean_over(self._harm(batch.images, gradient, taught), kept)
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
        losses = F.cross_entropy(logits, batch.label, reduction="none")
        loss = mean_over(losses, self.kept[batch.index])
        return StepResult(loss, **describe(logits, batch.label))

    def after_update(self) -> None:
        """Move the mean teacher. Tested, it uses the student's statistics."""
        move_teacher(self.mean_teacher, self.network, 1 - self.teacher_share, statistics=True)

    @property
    def teacher(self) -> nn.Module:
        """The code keeps whichever of student and teacher is better on clean validation images."""
        return self.mean_teacher

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
        """``KL(teacher || network after a step on wrong labels)``, ``(batch,)``."""
        if not self.settings.second_order:
            gradient = {name: value.detach() for name, value in gradient.items()}
        moved = {
            name: weight - self.settings.meta_rate * gradient[name]
            for name, weight in self.network.named_parameters()
        }
        logits = functional_call(self.network, (moved, self._statistics()), (images,)).float()
        entropy = torch.special.entr(taught).sum(dim=1)
        divergence: Tensor = soft_cross_entropy(logits, taught) - entropy
        return divergence

    def _statistics(self) -> Weights:
        """Clones: a step that is only tried must not leave its mark on running statistics."""
        return {name: value.clone() for name, value in self.network.named_buffers()}


def error(logits: Tensor, label: Tensor, kept: Tensor) -> Tensor:
    """Gradient of the kept samples' mean cross-entropy for the logits, ``(batch, classes)``."""
    hot = F.one_hot(label, logits.shape[1])
    return (logits.softmax(dim=1) - hot) * (kept / kept.sum().clamp(min=1))[:, None]


def nearest(features: Tensor, count: int) -> Tensor:
    """Numbers of each row's nearest other rows, ``(batch, count)`` or fewer where there are."""
    oneself = torch.eye(len(features), dtype=torch.bool, device=features.device)
    distance = torch.cdist(features, features).masked_fill(oneself, torch.inf)
    return distance.topk(min(count, len(features) - 1), largest=False).indices
