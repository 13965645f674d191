"""Joint-Optim: network and labels are optimised in turn, then a network is trained on the labels.

Tanaka, Ikami, Yamasaki and Aizawa, Joint Optimization Framework for Learning with Noisy Labels,
CVPR 2018; "code" is what the authors published, for CIFAR-10.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from josrc.config import MethodSettings, phase
from josrc.data.loaders import Batch
from josrc.data.noise import CLEAN, ID
from josrc.data.source import Source
from josrc.distributed import batch_mean
from josrc.losses import balance_penalty, soft_cross_entropy
from josrc.methods._survey import Survey
from josrc.methods.base import Method, Scalars, StepResult, describe


class JointOptimSettings(MethodSettings):
    """Settings of Joint-Optim; "paper" and "code" name the source of a default.

    For CIFAR-100 neither has any.
    """

    name: str = "joint-optim"
    # code: from epoch 70 of 320
    update_from: int = phase(70, of=320, description="epochs before labels are first updated")
    # code: 200 of 320
    first_step: int = phase(200, of=320, description="epochs of joint optimisation")
    # code: 10, whatever the length of the run
    history_epochs: int = Field(
        10, ge=1, description="epochs whose predictions are averaged into a new label"
    )
    # code: 1.0 and 0.5 (1.2 and 0.8 for 70 % symmetric, 0.8 and 0.4 for 40 % asymmetric noise)
    alpha: float = Field(
        1.0, ge=0, description="weight of L_p, against predicting one class for everything"
    )
    beta: float = Field(0.5, ge=0, description="weight of L_e, the entropy of predictions")
    # paper: the distribution of classes. Code: uniform, which that of CIFAR-10 is. Ours: where
    # nobody knows it the given labels do, since most are right.
    prior: Literal["labels", "uniform"] = Field(
        "labels",
        description="class frequencies that L_p expects: those of the given labels, or uniform",
    )


class JointOptim(Method):
    """Step 1 of the paper learns labels at a high rate, step 2 a fresh network from them."""

    Settings = JointOptimSettings
    title = "Joint-Optim"
    reference = "Tanaka et al., Joint Optimization Framework for Learning with Noisy Labels, 2018"
    settings: JointOptimSettings
    soft_label: Tensor
    history: Tensor
    prior: Tensor
    first_network: nn.Module

    def __init__(
        self, settings: JointOptimSettings, create_network: Callable[[], nn.Module]
    ) -> None:
        super().__init__(settings, create_network)
        # Step 2 starts over from here, whether drawn or pretrained.
        self.remember("first_network", copy.deepcopy(self.network).requires_grad_(False))

    def prepare(self, source: Source) -> None:
        """Labels begin as given. Half precision: ten epochs' predictions are the largest state."""
        given = F.one_hot(torch.from_numpy(source.given), source.closed)
        self.remember("soft_label", given.float())
        shape = (self.settings.history_epochs, *given.shape)
        self.remember("history", torch.zeros(shape, dtype=torch.float16))
        counts = np.bincount(source.given, minlength=source.closed)
        if self.settings.prior == "uniform":
            counts = np.ones_like(counts)
        self.remember("prior", torch.from_numpy(counts / counts.sum()).float())

    def relabel(self, index: Tensor, label: Tensor) -> None:
        """A label that is changed from outside is what the sample begins with again."""
        self.soft_label[index] = F.one_hot(label, self.soft_label.shape[1]).float()

    def schedule(self, epoch: int, epochs: int) -> dict[str, float]:
        """Where this epoch's predictions go, and whether the regularisers of step 1 count."""
        s = self.settings
        return {"slot": epoch % s.history_epochs, "joint": float(epoch < s.first_step)}

    def before_epoch(self, epoch: int, survey: Survey) -> None:
        """Update all labels (Eq. 10, soft); begin step 2 with the network's first weights."""
        s = self.settings
        if s.update_from <= epoch <= s.first_step:
            known = self.history[: min(epoch, s.history_epochs)]
            if len(known):
                self.soft_label.copy_(known.mean(dim=0, dtype=torch.float32))
        if epoch == s.first_step:
            self.network.load_state_dict(self.first_network.state_dict())
            survey.reset_optimizer()

    @property
    def labels(self) -> Tensor:
        """The top class of each label."""
        return self.soft_label.argmax(dim=1)

    def step(self, batch: Batch, at: Scalars) -> StepResult:
        """Cross-entropy against the present labels and, in step 1, both regularisers."""
        logits = self.network(batch.images).float()
        label = self.soft_label[batch.index]
        prediction = logits.softmax(dim=1)
        entropy = batch_mean(soft_cross_entropy(logits, prediction))
        regulariser = self.settings.alpha * balance_penalty(prediction, self.prior) + (
            self.settings.beta * entropy
        )
        loss = batch_mean(soft_cross_entropy(logits, label)) + at["joint"] * regulariser

        slot = at["slot"].long().expand(len(batch.index))
        remembered = prediction.detach().to(self.history.dtype)
        self.history.index_put_((slot, batch.index), remembered)
        return StepResult(
            loss,
            **describe(logits, batch.label),
            clean_likelihood=label.gather(1, batch.label[:, None]).squeeze(1),
            # The method knows no foreign samples: a label that has changed counts as ID.
            group=torch.where(label.argmax(dim=1) == batch.label, CLEAN, ID),
        )
