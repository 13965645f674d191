"""PENCIL (P-correction): labels as distributions that are learned together with the network.

Yi and Wu, Probabilistic End-to-end Noise Correction for Learning with Noisy Labels, CVPR 2019;
"code" is what the authors published.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from josrc.config import MethodSettings, pace, phase
from josrc.data.loaders import Batch
from josrc.data.noise import CLEAN, ID
from josrc.data.source import Source
from josrc.distributed import batch_mean, batch_size
from josrc.methods.base import Method, Scalars, StepResult, describe


class PencilSettings(MethodSettings):
    """Settings of PENCIL; "paper" and "code" name the source of a default.

    "second" is another public implementation, which has values for CIFAR-100 and Clothing1M.
    """

    name: str = "pencil"
    # paper and code: 70, then 130, of 320 epochs
    warm_up: int = phase(70, of=320, description="stage 1, epochs on the given labels")
    correction: int = phase(130, of=320, description="stage 2, epochs in which labels move")
    # second, CIFAR-100: 0.1, 0.4 and 1000. Code, CIFAR-10: 0.4, 0.1 and 600; there the paper has
    # 0.1, 0.8 and 200 to 300 for symmetric noise. Ours: an alpha that falls with the number of
    # classes. What the network says counts 1 / classes; with 0.1 and 100 classes a label comes to
    # rest with nine tenths of it on the given class, however sure the network is of another.
    compatibility: float | None = Field(
        None, ge=0, description="alpha, pull to the given label; null: 0.1, at most 1 / classes"
    )
    entropy: float = Field(0.4, ge=0, description="beta, pull of predictions towards certainty")
    # Ours: it grows as epochs get fewer, so that labels move as far: a label takes one step per
    # epoch. At 1600 one of 100 classes turns after some 45 of the 81 that stage 2 has of 200.
    label_rate: float = pace(1000.0, of=320, description="lambda, learning rate of the labels")
    # paper and code: 10
    certainty: float = Field(10.0, gt=0, description="K, logit of the given label at the start")
    # Both codes take the softmax of the label distribution once more before they compare it with
    # the given label, and their settings belong to that. Taken once, as the paper writes it, a
    # label swings back and forth at the published rates and ends where it began.
    double_softmax: bool = Field(
        True, description="compare a label after two softmaxes, as the published code does"
    )


class Pencil(Method):
    """Stage 1: given labels. Stage 2: network and labels move. Stage 3: the labels found."""

    Settings = PencilSettings
    title = "PENCIL"
    reference = "Yi and Wu, Probabilistic End-to-end Noise Correction, CVPR 2019"
    settings: PencilSettings
    label_logits: Tensor

    def prepare(self, source: Source) -> None:
        """Every label begins as the given one, nearly certain."""
        given = F.one_hot(torch.from_numpy(source.given), source.closed).float()
        self.remember("label_logits", given * self.settings.certainty)

    def relabel(self, index: Tensor, label: Tensor) -> None:
        """A label that is changed from outside begins as nearly certain as all did."""
        fresh = F.one_hot(label, self.label_logits.shape[1]).to(self.label_logits.dtype)
        self.label_logits[index] = fresh * self.settings.certainty

    def schedule(self, epoch: int, epochs: int) -> dict[str, float]:
        """Which stage it is."""
        s = self.settings
        given = epoch < s.warm_up
        moving = not given and epoch < s.warm_up + s.correction
        return {"given": float(given), "moving": float(moving)}

    @property
    def labels(self) -> Tensor:
        """The top class of each label distribution."""
        return self.label_logits.argmax(dim=1)

    def step(self, batch: Batch, at: Scalars) -> StepResult:
        """The loss of the stage; in stage 2 the labels of the batch take a step of their own."""
        logits = self.network(batch.images).float()
        classes = logits.shape[1]
        log_p = F.log_softmax(logits, dim=1)
        label_logits = self.label_logits[batch.index]
        log_label = F.log_softmax(label_logits, dim=1)

        divergence = (log_p.exp() * (log_p - log_label)).sum(dim=1)  # KL(f || y^d)
        entropy = -(log_p.exp() * log_p).sum(dim=1)
        corrected = (divergence + at["moving"] * self.settings.entropy * entropy) / classes
        plain = F.nll_loss(log_p, batch.label, reduction="none")
        loss = batch_mean(torch.where(at["given"] > 0.5, plain, corrected))

        label = log_label.exp()
        change = self._label_gradient(label, log_p.detach().exp(), batch.label)
        moved = label_logits - at["moving"] * self.settings.label_rate * change
        self.label_logits.index_copy_(0, batch.index, moved)
        return StepResult(
            loss,
            **describe(logits, batch.label),
            clean_likelihood=label.gather(1, batch.label[:, None]).squeeze(1),
            # The method knows no foreign samples: a label that has moved counts as ID.
            group=torch.where(label.argmax(dim=1) == batch.label, CLEAN, ID),
        )

    def _label_gradient(self, label: Tensor, prediction: Tensor, given: Tensor) -> Tensor:
        """Gradient of the batch's mean loss for the label logits, ``(batch, classes)``.

        The derivative of ``KL(f || softmax(y))`` is ``softmax(y) - f``, and that of the given
        label's cross-entropy ``softmax(y) - given``.
        """
        s, (size, classes) = self.settings, label.shape
        hot = F.one_hot(given, classes)
        if s.double_softmax:
            pull = label.softmax(dim=1) - hot
            pull = label * (pull - (label * pull).sum(dim=1, keepdim=True))
        else:
            pull = label - hot
        alpha = min(0.1, 1 / classes) if s.compatibility is None else s.compatibility
        return ((label - prediction) / classes + alpha * pull) / batch_size(size)
