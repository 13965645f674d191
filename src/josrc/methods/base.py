"""What a method is: the networks it owns, what one training step computes, what it evaluates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from josrc.config import MethodSettings
from josrc.data.loaders import Batch

Scalars = Mapping[str, Tensor]


@dataclass(frozen=True)
class StepResult:
    """What a step hands back: the loss to minimise, and what it learned about its samples.

    Every tensor but the loss is ``(batch,)`` and carries no gradient.

    Attributes:
        loss: scalar.
        sample_loss: each sample's own loss against its given label.
        prediction: top class of view 1.
        confidence: probability of that class.
        label_probability: probability of the given label on view 1.
        group: 0 clean, 1 ID, 2 OOD; none for a method that selects nothing.
        clean_likelihood: the method's score in [0, 1] for "the given label is right".
        agreement: 1 where the views (or networks) agree on the top class, else 0.
        second_prediction: top class of the teacher, or of the second network.
    """

    loss: Tensor
    sample_loss: Tensor
    prediction: Tensor
    confidence: Tensor
    label_probability: Tensor
    group: Tensor | None = None
    clean_likelihood: Tensor | None = None
    agreement: Tensor | None = None
    second_prediction: Tensor | None = None


class Method(nn.Module):
    """Base of all methods.

    A step is tensor code without branches on data: the same code runs eagerly, compiled and inside
    a CUDA graph. What changes from epoch to epoch comes from ``schedule`` and reaches the step as
    scalars on the device.

    Attributes:
        Settings: the method's settings; the source of every default is written beside it.
        title: name as people write it.
        reference: where the method was published.
        views: how many random views of each sample a step needs.
        selects: whether the method sorts samples into groups.
    """

    Settings: ClassVar[type[MethodSettings]]
    title: ClassVar[str]
    reference: ClassVar[str]
    views: ClassVar[int] = 1
    selects: ClassVar[bool] = True

    def __init__(self, settings: Any, create_network: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.settings = settings
        self.network = create_network()

    def schedule(self, epoch: int, epochs: int) -> dict[str, float]:
        """Values the step reads in a zero-based epoch; the same keys in every epoch."""
        return {}

    def step(self, batch: Batch, at: Scalars) -> StepResult:
        """Loss and per-sample findings of one batch."""
        raise NotImplementedError

    def after_update(self) -> None:
        """What follows the optimizer's update, such as moving a mean teacher."""

    def evaluated(self) -> dict[str, list[nn.Module]]:
        """Networks to test each epoch, by metric: ``test_accuracy`` first, each a mean over its."""
        return {"test_accuracy": [self.network]}

    @property
    def variant(self) -> str | None:
        """Which variant of the method this is, where it has any."""
        return getattr(self.settings, "variant", None)


def describe(logits: Tensor, label: Tensor) -> dict[str, Tensor]:
    """The findings every method can give, from the logits of view 1 ``(batch, classes)``."""
    log_p = torch.log_softmax(logits.detach().float(), dim=1)
    top, prediction = log_p.max(dim=1)
    given = log_p.gather(1, label[:, None]).squeeze(1)
    return {
        "sample_loss": -given,
        "prediction": prediction,
        "confidence": top.exp(),
        "label_probability": given.exp(),
    }
