"""What a method is: the networks it owns, what one training step computes, what is tested."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from pydantic import Field
from torch import Tensor, nn

from josrc.config import SCHEDULED, MethodSettings, phase
from josrc.data.loaders import Batch, Needs
from josrc.data.orders import Order
from josrc.data.source import Source
from josrc.errors import UserError
from josrc.methods._survey import Survey
from josrc.models.hardware import move_towards
from josrc.selection import forget_rate_schedule

Scalars = Mapping[str, Tensor]
Step = Callable[[Batch, Scalars], "StepResult"]


@dataclass(frozen=True)
class StepResult:
    """What a step returns: the loss to minimise, and what it found out about its samples.

    Every tensor but loss and mean probabilities is ``(batch,)``; all but the loss carry no
    gradient.

    Attributes:
        loss: scalar.
        sample_loss: each sample's own loss against its given label.
        prediction: top class of view 1.
        label_probability: probability of the given label on view 1.
        mean_probabilities: mean of all predictions the step makes of a sample, ``(batch,
            classes)``: of its views, its networks, its teacher.
        group: 0 clean, 1 ID, 2 OOD; none for a method that selects nothing.
        clean_likelihood: the method's score in [0, 1] for "the given label is right".
        agreement: 1 where the views (or networks) agree on the top class, else 0.
        second_prediction: top class of the teacher, or of the second network.
        second_label_probability: probability that one gives the given label.
        index: which samples these findings are of, ``(found,)``, if not those of the batch.
    """

    loss: Tensor
    sample_loss: Tensor
    prediction: Tensor
    label_probability: Tensor
    mean_probabilities: Tensor
    group: Tensor | None = None
    clean_likelihood: Tensor | None = None
    agreement: Tensor | None = None
    second_prediction: Tensor | None = None
    second_label_probability: Tensor | None = None
    index: Tensor | None = None


class Method(nn.Module):
    """Base of all methods.

    A step is tensor code without branches on data: the same code runs eagerly, compiled and inside
    a CUDA graph. What changes from epoch to epoch comes from ``schedule`` and reaches the step as
    scalars on the device.

    Attributes:
        Settings: the method's settings; the source of every default is written beside it.
        title: name as people write it.
        reference: where the method was published.
        selects: whether the method sorts samples into groups.
        exact: keys of the schedule whose values the step reads in float64; others are float32.
        compiles: whether ``torch.compile`` can trace the step; otherwise it is captured as it is.
        failure_hint: what of the method may be to blame when its training goes wrong.
        needs: what a step wants of a batch.
        defaults: values of the configuration that the method brings along, stronger than a recipe's
            own and weaker than its section on the method; lengths are epochs of 200.
        memory: names of what ``remember`` keeps.
    """

    Settings: ClassVar[type[MethodSettings]]
    title: ClassVar[str]
    reference: ClassVar[str]
    selects: ClassVar[bool] = True
    exact: ClassVar[frozenset[str]] = frozenset()
    failure_hint: ClassVar[str | None] = None
    compiles: bool = True
    needs: Needs = Needs()
    defaults: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, settings: Any, create_network: Callable[[], nn.Module]) -> None:
        """Create the networks; whatever depends on the samples waits for ``prepare``."""
        super().__init__()
        self.settings = settings
        self.memory: set[str] = set()
        self.network = create_network()

    def remember(self, name: str, value: Tensor | nn.Module) -> None:
        """Keep a buffer or a module that training needs and the trained network does not.

        It is in checkpoints, and not in the files of weights. Of buffers with a row per sample,
        several processes put together the rows that each of them wrote.
        """
        self.memory.add(name)
        if isinstance(value, nn.Module):
            self.add_module(name, value)
        else:
            self.register_buffer(name, value)

    def prepare(self, source: Source) -> None:
        """Register what is kept of every sample, once the data is there."""

    def check(self, source: Source, noisy: bool) -> None:
        """Raise an error if the method can't do with data, before its files are read.

        Args:
            source: the data as it was opened.
            noisy: whether labels will be changed on purpose, so that the truth may be known then.
        """

    def schedule(self, epoch: int, epochs: int) -> dict[str, float]:
        """Values the step reads in a zero-based epoch; the same keys in every epoch."""
        return {}

    def step_for(self, epoch: int, epochs: int) -> Step:
        """The step of a zero-based epoch: ``step``, or another function of the method.

        For steps of different shape, each of which is compiled and captured by itself. Where only
        numbers differ, ``schedule`` is enough.
        """
        return self.step

    def relabel(self, index: Tensor, label: Tensor) -> None:
        """Samples ``index`` are trained with another ``label`` now: forget the one before.

        For methods that keep labels of their own; a batch has the new ones by itself.
        """

    def before_epoch(self, epoch: int, survey: Survey) -> None:
        """Look at the whole training set before a zero-based epoch, and change buffers in place.

        Called exactly once per epoch, without gradient, also in a run that is stopped and resumed.
        """

    def order(self, epoch: int, survey: Survey) -> Order | None:
        """Which samples an epoch trains on, if the method says so: its needs have ``ordered``.

        Asked after ``before_epoch``, and once more by a run that is resumed inside of the epoch:
        the answer follows from buffers and the survey's seed.
        """
        return None

    def after_epoch(self, epoch: int, survey: Survey) -> None:
        """Look at the whole training set after an epoch, before its networks are tested.

        As ``before_epoch``; for what must count for the last epoch, too.
        """

    def step(self, batch: Batch, at: Scalars) -> StepResult:
        """Loss and per-sample findings of one batch."""
        raise NotImplementedError

    def after_update(self) -> None:
        """What follows the optimizer's update, such as moving a mean teacher."""

    @property
    def tested(self) -> list[nn.Module]:
        """Networks whose mean test accuracy is reported each epoch."""
        return [self.network]

    @property
    def labels(self) -> Tensor | None:
        """The label that the method trains each sample with now, ``(N,)``, if it turns any."""
        return None

    @property
    def teacher(self) -> nn.Module | None:
        """The mean teacher, which is tested beside them, if there is one."""
        return None

    def weights(self) -> dict[str, Tensor]:
        """The state that makes up the trained networks, without the memory."""
        state = self.state_dict()
        return {key: state[key] for key in state if key.split(".")[0] not in self.memory}

    @torch.no_grad()
    def load_weights(self, values: Mapping[str, Tensor]) -> None:
        """Copy trained networks into place; a ValueError says what does not belong to them."""
        own = self.weights()
        for key in sorted(own.keys() | values.keys()):
            if key not in values:
                raise ValueError(f"it lacks {key}")
            if key not in own:
                raise ValueError(f"it holds {key}, which these networks don't have")
            if own[key].shape != values[key].shape:
                here, there = tuple(own[key].shape), tuple(values[key].shape)
                raise ValueError(f"{key} has shape {there} there and {here} here")
            if not values[key].isfinite().all():
                raise ValueError(f"{key} holds NaN or infinite numbers")
        for key, value in own.items():
            value.copy_(values[key])

    def facts(self, epochs: int) -> dict[str, Any]:
        """What the summary of a run of so many epochs says of this method alone."""
        return {}

    @property
    def variant(self) -> str | None:
        """Which variant of the method this is, where it has any."""
        return getattr(self.settings, "variant", None)


def describe(logits: Tensor, label: Tensor) -> dict[str, Tensor]:
    """The findings every method can give, from the logits of view 1 ``(batch, classes)``."""
    log_p = torch.log_softmax(logits.detach().float(), dim=1)
    given = log_p.gather(1, label[:, None]).squeeze(1)
    return {
        "sample_loss": -given,
        "prediction": log_p.argmax(dim=1),
        "label_probability": given.exp(),
        "mean_probabilities": log_p.exp(),
    }


def move_teacher(
    teacher: nn.Module, student: nn.Module, decay: float | Tensor, statistics: bool = False
) -> None:
    """Move a mean teacher towards its student, after an update and without gradient.

    Args:
        teacher: whose parameters become ``decay`` times their own plus the rest of the student's.
        student: whose parameters they are.
        decay: how much of itself the teacher keeps; a scalar tensor where that changes.
        statistics: whether it takes over the student's running statistics.
    """
    move_towards(list(teacher.parameters()), list(student.parameters()), 1 - decay)
    if statistics:
        for buffer, students in zip(teacher.buffers(), student.buffers(), strict=True):
            buffer.copy_(students)


# --- two networks --------------------------------------------------------------------------------


class TwoNetworks(Method):
    """Base of the methods that train two networks of one kind, each from its own first weights.

    One optimizer moves both. Where no term of the loss depends on both networks this is the same
    as an optimizer each: Adam and SGD treat every parameter by itself.
    """

    def __init__(self, settings: Any, create_network: Callable[[], nn.Module]) -> None:
        super().__init__(settings, create_network)
        self.second_network = create_network()

    @property
    def tested(self) -> list[nn.Module]:
        """Both networks: the mean of their accuracies is reported, as in the published tables."""
        return [self.network, self.second_network]

    def predict(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the first and of the second network, each ``(batch, classes)``, in float32."""
        return self.network(images).float(), self.second_network(images).float()


def describe_both(first: Tensor, second: Tensor, label: Tensor) -> dict[str, Tensor]:
    """The findings of two networks from their logits ``(batch, classes)``.

    ``describe`` of the first network; whether both have the same top class; the mean of both
    predictions; and as the likelihood that the given label is right its probability in that mean.
    """
    found, other = describe(first, label), describe(second, label)
    return found | {
        "clean_likelihood": (found["label_probability"] + other["label_probability"]) / 2,
        "agreement": (found["prediction"] == other["prediction"]).float(),
        "second_prediction": other["prediction"],
        "second_label_probability": other["label_probability"],
        "mean_probabilities": (found["mean_probabilities"] + other["mean_probabilities"]) / 2,
    }


class SmallLossSettings(MethodSettings):
    """Settings of the methods that keep the small losses of a batch and forget the others."""

    # paper and code: the noise rate; taken from the data where that knows its wrong labels.
    forget_rate: float | None = Field(
        None,
        ge=0,
        le=1,
        description="tau, share of a batch left out; null: the data's noise rate",
        json_schema_extra=SCHEDULED,
    )
    # paper and code: T_k of 10 epochs
    forget_ramp: int = phase(10, description="T_k, epochs until the whole share is left out")
    # code: 1. The Co-teaching paper puts its c on the epoch; at 1 the two are the same.
    forget_exponent: float = Field(1.0, gt=0, description="c, the ramp ends at forget_rate to it")

    def with_noise_rate(self, noise_rate: float | None) -> Self:
        """With the data's noise rate as forget rate, unless one was given."""
        if self.forget_rate is not None:
            return self
        if noise_rate is None:
            raise UserError(
                f"{self.name} leaves out a share of every batch as large as the share of wrong "
                "labels, and this data does not say how many are wrong. Give your estimate "
                "(method.forget_rate=0.2, say), or a noise file that holds the truth."
            )
        return self.model_copy(update={"forget_rate": noise_rate})

    def forget_rate_at(self, epoch: int) -> float:
        """The share of a batch that is left out in a zero-based epoch."""
        rate = self.with_noise_rate(None).forget_rate
        assert rate is not None
        return forget_rate_schedule(epoch, self.forget_ramp, rate, self.forget_exponent)
