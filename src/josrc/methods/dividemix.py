"""DivideMix: wrong labels are dropped, and their images learned as if they had none.

Li, Socher and Hoi, DivideMix: Learning with Noisy Labels as Semi-supervised Learning, ICLR 2020;
"code" is what the authors published.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from josrc.config import MethodSettings, phase
from josrc.data.loaders import Batch, Needs
from josrc.data.noise import CLEAN, ID
from josrc.data.orders import Order
from josrc.data.source import Source
from josrc.distributed import batch_mean
from josrc.losses import balance_penalty, soft_cross_entropy
from josrc.methods._mixup import beta_quantiles, draw, mix
from josrc.methods._survey import Survey
from josrc.methods.base import Scalars, Step, StepResult, TwoNetworks, describe_both
from josrc.selection import small_loss_probability


class DivideMixSettings(MethodSettings):
    """Settings of DivideMix; "paper" and "code" name the source of a default."""

    name: str = "dividemix"
    # paper and code: 30 of 300 epochs for CIFAR-100 (10 for CIFAR-10)
    warm_up: int = phase(30, of=300, description="epochs of cross-entropy on all labels")
    # code: on for asymmetric noise, where networks grow sure of wrong labels early
    confidence_penalty: bool = Field(False, description="reward uncertainty during the warm-up")
    # paper and code: 0.5 (0.6 at 90 % noise)
    threshold: float = Field(
        0.5, ge=0, le=1, description="tau, smallest probability of a right label"
    )
    # code: 5 at 90 % noise, else the last epoch alone
    loss_epochs: int = Field(
        1, ge=1, description="epochs over which the mixture's losses are averaged"
    )
    # paper and code: 0.5
    temperature: float = Field(0.5, gt=0, description="T, temperature that sharpens guessed labels")
    # paper and code: 4 (0.5 for Clothing1M)
    mixup: float = Field(4.0, gt=0, description="alpha, both parameters of the beta distribution")
    # code: 25. Paper, CIFAR-100: 25 at 20 % symmetric noise, 150 from 50 % on (from memory; 150 is
    # confirmed by the authors); 0 for asymmetric noise.
    unlabelled_weight: float = Field(25.0, ge=0, description="lambda_u")
    # code: 16 epochs of 300; it rises from step to step
    unlabelled_ramp: int = phase(16, of=300, description="epochs in which lambda_u rises from 0")


class DivideMix(TwoNetworks):
    """Algorithm 1 of the paper.

    Each network has batches of its own, half of them samples whose labels the other network trusts
    and half of them samples without a label. The code trains one network for an epoch and then the
    other; here a step moves both, each on its own batch.
    """

    Settings = DivideMixSettings
    title = "DivideMix"
    reference = "Li et al., DivideMix: Learning with Noisy Labels as Semi-supervised Learning, 2020"
    # A partner for each of two views, and a share for each network.
    needs = Needs(views=2, draws=3, ordered=True)
    settings: DivideMixSettings
    clean_probability: Tensor
    losses: Tensor
    steps_done: Tensor
    steps: Tensor
    quantiles: Tensor

    def __init__(self, settings: DivideMixSettings, create_network: Any) -> None:
        super().__init__(settings, create_network)
        self.register_buffer("quantiles", beta_quantiles(settings.mixup), persistent=False)
        self._resting: tuple[nn.Module, ...] = ()

    def prepare(self, source: Source) -> None:
        """Every label is trusted during the warm-up; a row for each network."""
        self.remember("clean_probability", torch.ones(2, len(source)))
        self.remember("losses", torch.zeros(self.settings.loss_epochs, 2, len(source)))
        self.remember("steps_done", torch.zeros(()))  # of the epoch, of so many:
        self.remember("steps", torch.ones(()))

    def forward(self, images: Tensor) -> Tensor:
        """The ensemble: what is tested is the sum of both networks' logits."""
        first, second = self.predict(images)
        return first + second

    @property
    def tested(self) -> list[nn.Module]:
        """The ensemble of both networks."""
        return [self]

    def schedule(self, epoch: int, epochs: int) -> dict[str, float]:
        """Epochs since the warm-up: as they go on the weight of unlabelled samples rises."""
        return {"since": float(max(0, epoch - self.settings.warm_up))}

    def step_for(self, epoch: int, epochs: int) -> Step:
        """Plain training, then training on divided samples."""
        return self.warm_up_step if epoch < self.settings.warm_up else self.step

    def before_epoch(self, epoch: int, survey: Survey) -> None:
        """Co-divide: each network fits a mixture to the losses of the samples to come."""
        self.steps_done.zero_()
        seen = epoch - self.settings.warm_up
        if seen < 0:
            return
        # As the code on Clothing1M: what an epoch leaves out needs no verdict for it.
        slots, coming = len(self.losses), survey.coming
        for place, network in enumerate((self.network, self.second_network)):
            self.losses[seen % slots, place, coming] = normalise(survey.losses(network, coming))
            mean = self.losses[: seen + 1, place, coming].mean(dim=0)
            self.clean_probability[place, coming] = small_loss_probability(mean)

    def order(self, epoch: int, survey: Survey) -> Order | None:
        """Labelled and unlabelled samples of either network, one of each after the other.

        An epoch ends when both networks have seen all that is labelled for them.
        """
        # Their tensors have found their places by now.
        self._resting = self._resting or (
            in_evaluation(self.network),
            in_evaluation(self.second_network),
        )
        if epoch < self.settings.warm_up:
            return None
        half, coming = max(1, survey.batch_size // 2), survey.coming.cpu()
        labelled = self.clean_probability.cpu()[:, coming] > self.settings.threshold
        steps = int(labelled.sum(dim=1).max()) // half + 1
        self.steps.fill_(steps)
        generator = torch.Generator().manual_seed(survey.seed)
        columns = [
            walk(coming[part], coming, steps * half, generator)
            for trusted in labelled.flip(0)  # each learns from what the other one takes for clean
            for part in (trusted, ~trusted)
        ]
        return Order(torch.stack(columns, dim=1).flatten(), len(columns) * half)

    def step(self, batch: Batch, at: Scalars) -> StepResult:
        """The semi-supervised loss of both networks on divided samples."""
        weight = self._unlabelled_weight(at["since"])
        loss, own = self._semi_supervised(0, batch, weight)
        loss = loss + self._semi_supervised(1, batch, weight)[0]
        self.steps_done += 1
        # What the first network was taught says enough: the other one has the same samples.
        seen = torch.cat(self._columns(0, batch))
        index, label = batch.index[seen], batch.label[seen]
        with torch.no_grad():
            second = self._resting[1](batch.images[seen]).float()
        likelihood = self.clean_probability[:, index].mean(dim=0)
        found = describe_both(own, second, label) | {"clean_likelihood": likelihood}
        group = torch.where(likelihood > self.settings.threshold, CLEAN, ID)
        return StepResult(loss, **found, group=group, index=index)

    def warm_up_step(self, batch: Batch, at: Scalars) -> StepResult:
        """Cross-entropy of both networks on the given labels."""
        first, second = self.predict(batch.images.chunk(2)[0])
        losses = F.cross_entropy(first, batch.label, reduction="none")
        losses = losses + F.cross_entropy(second, batch.label, reduction="none")
        if self.settings.confidence_penalty:
            for logits in (first, second):
                losses = losses - soft_cross_entropy(logits, logits.softmax(dim=1))
        found = describe_both(first, second, batch.label)
        group = torch.full_like(batch.label, CLEAN)
        return StepResult(batch_mean(losses), **found, group=group)

    def _unlabelled_weight(self, since: Tensor) -> Tensor:
        """lambda_u, so many epochs after the warm-up and as far into this one as its steps say."""
        s = self.settings
        risen = (since + self.steps_done / self.steps) / max(1, s.unlabelled_ramp)
        return s.unlabelled_weight * risen.clamp(max=1)

    def _columns(self, place: int, batch: Batch) -> tuple[Tensor, Tensor]:
        """Where a network's labelled and unlabelled samples stand in a batch, ``(half,)`` each."""
        first = torch.arange(2 * place, len(batch.index), 4, device=batch.index.device)
        return first, first + 1

    def _semi_supervised(
        self, place: int, batch: Batch, unlabelled_weight: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The loss of one network, by MixMatch, and its logits of view 1 of what it learns from.

        Args:
            place: which network learns, 0 or 1.
            batch: two views of every sample.
            unlabelled_weight: of the squared error, scalar.
        """
        s = self.settings
        network = (self.network, self.second_network)[place]
        labelled, unlabelled = self._columns(place, batch)
        size = len(batch.index)
        views = [labelled, labelled + size, unlabelled, unlabelled + size]
        # Code: the learner guesses with the statistics of each view's batch, and the other rests.
        with torch.no_grad():
            own = [network(batch.images[view]).float() for view in views]
            other = self._resting[1 - place](batch.images[torch.cat(views[2:])]).float().chunk(2)
        weight = self.clean_probability[1 - place, batch.index[labelled]][:, None]
        given = F.one_hot(batch.label[labelled], own[0].shape[1])
        refined = sharpen(weight * given + (1 - weight) * mean_of(own[:2]), s.temperature)
        guessed = sharpen(mean_of([*own[2:], *other]), s.temperature)
        target = torch.cat([refined, refined, guessed, guessed])

        draws = batch.draws[torch.cat([labelled, unlabelled])]
        partner = draws[:, :2].t().flatten().argsort()
        share = draw(self.quantiles, draws[0, 2])
        share = torch.maximum(share, 1 - share)  # a mixed sample stays nearer to its first
        target = mix(target, partner, share)
        logits = network(mix(batch.images[torch.cat(views)], partner, share)).float()

        prediction, half = logits.softmax(dim=1), len(target) // 2
        supervised = batch_mean(soft_cross_entropy(logits[:half], target[:half]))
        apart = (prediction[half:] - target[half:]).square().mean(dim=1)
        loss = supervised + unlabelled_weight * batch_mean(apart)
        return loss + balance_penalty(prediction), torch.cat([own[0], own[2]])


def sharpen(probabilities: Tensor, temperature: float) -> Tensor:
    """Powers of ``1 / temperature``, normalised, ``(batch, classes)``."""
    powers = probabilities ** (1 / temperature)
    return powers / powers.sum(dim=1, keepdim=True)


def mean_of(logits: Sequence[Tensor]) -> Tensor:
    """The mean of several predictions from their logits, ``(batch, classes)``."""
    return torch.stack([some.softmax(dim=1) for some in logits]).mean(dim=0)


def normalise(losses: Tensor) -> Tensor:
    """Losses from 0, the smallest, to 1, the largest."""
    low, high = losses.min(), losses.max()
    return (losses - low) / (high - low).clamp(min=1e-12)


def walk(samples: Tensor, otherwise: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Samples in random order, each again only when all have had their turn: ``(count,)``.

    Args:
        samples: their numbers.
        otherwise: from which they come if there are none.
        count: how many are wanted.
        generator: draws the order.
    """
    pool = samples if len(samples) else otherwise
    turns = [
        pool[torch.randperm(len(pool), generator=generator)] for _ in range(count // len(pool) + 1)
    ]
    return torch.cat(turns)[:count]


def in_evaluation(network: nn.Module) -> nn.Module:
    """The same network in evaluation mode: its weights and statistics are those tensors."""
    shared = {id(value): value for value in [*network.parameters(), *network.buffers()]}
    return copy.deepcopy(network, shared).eval()
