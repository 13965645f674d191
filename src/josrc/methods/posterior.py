"""Posterior: targets are what given label, network and noise matrix say together of the true class.

Our own; docs/paper/posterior.md has the model, the reasons and what was measured.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from josrc.config import MethodSettings, phase
from josrc.data.loaders import Batch, Needs
from josrc.data.noise import CLEAN, ID, OOD
from josrc.data.source import Source
from josrc.distributed import batch_mean
from josrc.losses import soft_cross_entropy
from josrc.methods._noise_model import Belief, NoiseModel, believe, fit_noise_model, weight_of
from josrc.methods._opinions import Opinions
from josrc.methods._survey import Survey
from josrc.methods.base import Method, Scalars, StepResult, describe
from josrc.models.hardware import move_towards

# A mean over no more than a tenth of the steps so far.
EARLY_STEPS = 10.0
# Standard errors by which labels must be more probable than by chance for gains to count.
MIN_STANDARD_ERRORS = 5.0
# Epochs of which agreement is remembered.
REMEMBERED_EPOCHS = 512
# Multiples of it lie evenly between whole numbers.
GOLDEN = (5**0.5 - 1) / 2
# The noise model is fitted to this many numbers at most: all opinions of 50,000 samples on 100
# classes, and of a million on 1,000 classes every eighth.
MAX_FITTED_NUMBERS = 2**27
# One of this many samples is not trained on during the warm-up.
SAMPLES_PER_WATCHED = 20


class PosteriorSettings(MethodSettings):
    """Settings of Posterior; all are ours, and hold for every data set and noise."""

    name: str = "posterior"
    # Less than an epoch of CIFAR. A slower teacher holds a weak network back.
    teacher_decay: float = Field(
        0.996, ge=0, lt=1, description="decay of the mean teacher, per step"
    )
    history: float = Field(
        0.3, ge=0, lt=1, description="share of the previous prediction kept at the next visit"
    )
    # It rises from 0 at the shortest warm-up to this in the middle of the run.
    distillation: float = Field(
        0.2, ge=0, le=1, description="share of averaged predictions in the targets"
    )
    # The warm-up ends by itself between these. At the end of it, labels that are not trained on
    # are predicted hardly better than before: what is learned now is wrong ones, by heart.
    warm_up_least: int = phase(20, description="shortest warm-up in epochs")
    warm_up_most: int = phase(80, description="longest warm-up in epochs")
    window: int = phase(10, description="epochs over which predictions must have improved")
    gain: float = Field(
        0.1, ge=0, description="smallest relative improvement that prolongs the warm-up"
    )
    foreign: bool = Field(True, description="samples may belong to no class")
    weighted: bool = Field(True, description="give uncertain targets less weight")
    flips: bool = Field(True, description="one class may often be labelled as another")
    kept: int = Field(256, ge=2, description="number of classes stored per sample")


class Posterior(Method):
    """A true class for every sample, or none; a matrix of how it is labelled; a posterior."""

    Settings = PosteriorSettings
    title = "Posterior"
    reference = "ours (docs/paper/posterior.md)"
    failure_hint = (
        "a noise matrix from a network that had learned too little (method.warm_up_least)"
    )
    needs = Needs(views=2)
    defaults: ClassVar[dict[str, Any]] = {
        # A weak view, on which opinions are formed, and a strong one.
        "views": {"strong": "last", "policy": "autoaugment"},
        "optimizer": {
            "name": "sgd",
            "lr": 0.05,
            "momentum": 0.9,
            "momentum_after": None,
            "nesterov": True,
            "weight_decay": 5e-4,
            "decay": "cosine",
            "decay_start": 60,
        },
    }
    settings: PosteriorSettings
    opinion: Tensor
    watched: Tensor
    bias: Tensor
    warm: Tensor
    agreement: Tensor
    steps: Tensor

    def __init__(self, settings: PosteriorSettings, create_network: Callable[[], nn.Module]):
        super().__init__(settings, create_network)
        self.mean_teacher = copy.deepcopy(self.network).requires_grad_(False)
        self.train()

    def prepare(self, source: Source) -> None:
        """Opinions of every sample, and a noise model that trusts the labels."""
        samples, classes = len(source), source.closed
        values, kept = Opinions.tables(samples, classes, self.settings.kept)
        self.remember("opinion", values)
        if kept is not None:
            self.remember("opinion_class", kept)
        # One in this many, whatever the order of the samples.
        turn = torch.arange(samples, dtype=torch.float64) * GOLDEN % 1
        self.remember("watched", turn < 1 / SAMPLES_PER_WATCHED)
        for name, value in NoiseModel.trusting(classes)._asdict().items():
            self.remember(name, value)
        self.remember("warm", torch.ones(()))
        self.remember("agreement", torch.zeros(REMEMBERED_EPOCHS))
        self.remember("steps", torch.zeros(()))

    def train(self, mode: bool = True) -> Posterior:
        """Training mode; the teacher stays in evaluation mode."""
        super().train(mode)
        if hasattr(self, "mean_teacher"):
            self.mean_teacher.eval()
        return self

    @property
    def opinions(self) -> Opinions:
        """What the teacher thinks of every sample."""
        return Opinions(self.opinion, getattr(self, "opinion_class", None), len(self.bias))

    @property
    def noise_model(self) -> NoiseModel:
        """How labels came about, as far as is known."""
        return NoiseModel(*(getattr(self, name) for name in NoiseModel._fields))

    def relabel(self, index: Tensor, label: Tensor) -> None:
        """An opinion that was formed with another label is none."""
        self.opinion[index] = 0

    def schedule(self, epoch: int, epochs: int) -> dict[str, float]:
        """The share of averaged predictions in the targets."""
        begin = self.settings.warm_up_least
        risen = (epoch - begin) / max(1.0, epochs / 2 - begin)
        return {"distillation": self.settings.distillation * min(max(risen, 0.0), 1.0)}

    def before_epoch(self, epoch: int, survey: Survey) -> None:
        """Go on with the warm-up or end it; after it, fit the noise model."""
        step = math.ceil(self.opinion.shape[0] * len(self.bias) / MAX_FITTED_NUMBERS)
        index = torch.arange(0, len(self.opinion), step, device=self.opinion.device)
        index = index[self.opinions.seen(index)]
        if epoch == 0 or not len(index):
            return
        first = bool(self.warm)
        if first and self._warms_up(epoch, survey.labels):
            return
        model = fit_noise_model(
            self.opinions.read(index),
            survey.labels[index],
            None if first else self.noise_model,
            flips=self.settings.flips,
            foreign=self.settings.foreign,
        )
        for own, found in zip(self.noise_model, model, strict=True):
            own.copy_(found)
        self.warm.zero_()

    def _warms_up(self, epoch: int, label: Tensor) -> bool:
        """Whether the warm-up goes on: whether labels not trained on are predicted ever better."""
        s = self.settings
        index = self.watched.nonzero().squeeze(1)
        index = index[self.opinions.seen(index)]
        clear = False
        if len(index) > 1:
            given = self.opinions.read(index).gather(1, label[index][:, None])
            over = given.mean() - 1 / len(self.bias)
            self.agreement[epoch % REMEMBERED_EPOCHS] = over
            clear = bool(over > MIN_STANDARD_ERRORS * given.std() / math.sqrt(len(index)))
        if epoch < s.warm_up_least:
            return True
        ago = (epoch - torch.arange(2 * s.window)) % REMEMBERED_EPOCHS
        now, before = self.agreement.cpu()[ago].chunk(2)
        known = epoch >= 2 * s.window and s.window > 0
        # While hardly anything has been learned, no gain is only chance.
        better = not known or not clear or bool(now.sum() > (1 + s.gain) * before.sum())
        return better and epoch < s.warm_up_most

    def step(self, batch: Batch, at: Scalars) -> StepResult:
        """Given labels as targets in the warm-up, then the posterior, on both views."""
        first, second = self.network(batch.images).float().chunk(2)
        weak = batch.images.chunk(2)[0]
        with torch.no_grad():
            taught = self.mean_teacher(weak).float().softmax(dim=1)
            opinion = self._revise(batch.index, taught)
            model = self.noise_model
            belief = believe(model, opinion, batch.label)
            target, weight = self._target(batch, opinion, belief, at)
        entropy = soft_cross_entropy(first, target) + soft_cross_entropy(second, target)
        loss = batch_mean(weight * entropy) / 2

        found = describe(first, batch.label)
        mean = (found["mean_probabilities"] + taught) / 2
        # A sample that may be foreign is doubtful, however sure networks are of it.
        mean = torch.lerp(mean, torch.full_like(mean, 1 / mean.shape[1]), belief.doubtful[:, None])
        wrong = belief.classes.argmax(dim=1) != batch.label
        group = torch.where(belief.none > 0.5, OOD, torch.where(wrong, ID, CLEAN))
        given = batch.label[:, None]
        return StepResult(
            loss,
            **found | {"mean_probabilities": mean},
            group=torch.where(self.warm > 0.5, CLEAN, group),
            clean_likelihood=belief.classes.gather(1, given).squeeze(1) * (1 - belief.none),
            agreement=(first.argmax(dim=1) == second.argmax(dim=1)).float(),
            second_prediction=taught.argmax(dim=1),
            second_label_probability=taught.gather(1, given).squeeze(1),
        )

    def _revise(self, index: Tensor, taught: Tensor) -> Tensor:
        """Bring opinions up to date by what the teacher says now, ``(batch, classes)``."""
        share = self.settings.history * self.opinions.seen(index)[:, None]
        opinion = torch.lerp(taught, self.opinions.read(index), share)
        self.opinions.write(index, opinion)
        return opinion

    def _target(
        self, batch: Batch, opinion: Tensor, belief: Belief, at: Scalars
    ) -> tuple[Tensor, Tensor]:
        """Targets ``(batch, classes)`` that need not sum to 1, and what samples count besides."""
        target = belief.classes
        if self.settings.weighted:
            target = target * weight_of(self.noise_model, belief)[:, None]
        target = torch.lerp(target, opinion, at["distillation"])
        given = F.one_hot(batch.label, opinion.shape[1]).to(target.dtype)
        warm = self.warm > 0.5
        left_out = (warm & self.watched[batch.index]).to(target.dtype)
        return torch.where(warm, given, target), 1 - left_out

    def after_update(self) -> None:
        """Move the mean teacher; a young one follows faster."""
        self.steps += 1
        share = (EARLY_STEPS / (self.steps + EARLY_STEPS)).clamp(
            min=1 - self.settings.teacher_decay
        )
        move_towards(_floats(self.mean_teacher), _floats(self.network), share)

    @property
    def teacher(self) -> nn.Module:
        """The student is tested; the teacher's accuracy comes with it."""
        return self.mean_teacher


def _floats(network: nn.Module) -> list[Tensor]:
    """Parameters and running statistics."""
    statistics = [buffer for buffer in network.buffers() if buffer.is_floating_point()]
    return [*network.parameters(), *statistics]
