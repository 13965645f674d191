"""Errors that are planted: labels corrupted on purpose in training, to see how wrong ones look.

They are planted once the network has learned what looks alike, and before it learns labels by
heart. Half of them are of any sort: any sample, any other class. The others are those that people
make: an image whose label the network believes, if not entirely, is called what it looks like too.
Samples whose label it does not believe are left out there: it might be planting the truth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from josrc.data.noise import Labels

# Of samples that the network believes less than another class; so that small sets have enough.
UNLIKELY_WEIGHT = 1e-6


def planting_epoch(epochs: int) -> int:
    """The zero-based epoch before which errors are planted: a tenth of the run has passed."""
    return min(epochs - 1, max(1, epochs // 10))


def count_to_plant(share: float, samples: int) -> int:
    """How many errors are planted; half of them of each sort."""
    return 2 * round(share * samples / 2)


@dataclass(frozen=True)
class Likeness:
    """What the network takes samples for, each vector ``(N,)``.

    Attributes:
        own: probability of the given label.
        alike: the most likely other class.
        probability: how likely that is.
    """

    own: NDArray[np.floating]
    alike: Labels
    probability: NDArray[np.floating]

    @classmethod
    def of(cls, probabilities: Tensor, given: Tensor) -> Likeness:
        """From predictions ``(N, classes)`` and labels ``(N,)``."""
        own = probabilities.gather(1, given[:, None]).squeeze(1)
        probability, alike = probabilities.scatter(1, given[:, None], -1.0).max(dim=1)
        return cls(*(values.cpu().numpy() for values in (own, alike, probability)))


def draw_errors(
    likeness: Likeness, given: Labels, classes: int, count: int, seed: int, power: float = 2.0
) -> tuple[Labels, Labels]:
    """Which samples get which other label; the first half of any sort, the second by likeness.

    Args:
        likeness: what the network takes the samples for.
        given: the labels, ``(N,)``.
        classes: how many there are.
        count: how many errors.
        seed: of the draw.
        power: of how likely a sample is its rival, which weighs the choice of look-alike ones.
    """
    samples = len(given)
    # A stream of its own: one that began as the noise did would choose the samples noise chose.
    generator, half = np.random.RandomState((seed * 1_000_003 + 104_729) % 2**32), count // 2
    anyhow = generator.choice(samples, half, replace=False)
    any_label = (given[anyhow] + generator.randint(1, classes, half)) % classes
    believed = likeness.probability < likeness.own
    weight = (
        np.where(believed, likeness.probability.astype(np.float64) ** power, 0.0) + UNLIKELY_WEIGHT
    )
    weight[anyhow] = 0.0
    look_alike = generator.choice(samples, half, replace=False, p=weight / weight.sum())
    index = np.concatenate([anyhow, look_alike]).astype(np.int64)
    return index, np.concatenate([any_label, likeness.alike[look_alike]]).astype(np.int64)


class PlantedErrors:
    """The planted errors of a run, as tensors that stay in place.

    Attributes:
        index: which samples, ``(planted,)``; -1 until they are drawn.
        label: the label that each of them is trained with.
        seen: sum of the probabilities that training found for the label each of them came with, and
            how many there were, ``(planted, 2)``.
    """

    def __init__(self, share: float, given: Labels, device: torch.device) -> None:
        """None at first.

        Args:
            share: of the samples, that errors are planted on.
            given: the labels of all samples.
            device: where they are trained.
        """
        count = count_to_plant(share, len(given))
        self.index, self.label = torch.empty(2, count, dtype=torch.long, device=device)
        self.seen = torch.empty(count, 2, device=device)
        self._given = torch.empty(len(given), dtype=torch.long, device=device)
        # Of all samples, which of the errors is theirs; -1 for none.
        self._place = torch.empty_like(self._given)
        self.clear(given)

    def clear(self, given: Labels) -> None:
        """Forget them, in place, for samples with these labels."""
        for values in (self.index, self.label, self._place):
            values.fill_(-1)
        self.seen.zero_()
        self._given.copy_(torch.from_numpy(given))

    def __len__(self) -> int:
        return len(self.index)

    @property
    def there(self) -> bool:
        """Whether they have been drawn."""
        return len(self) > 0 and int(self.index[0]) >= 0

    def set(self, index: Tensor, label: Tensor) -> None:
        """Take errors that were drawn, or that a checkpoint kept."""
        self.index.copy_(index)
        self.label.copy_(label)
        self._place.fill_(-1)
        self._place[self.index] = torch.arange(len(self), device=self.index.device)

    def record(self, index: Tensor, probabilities: Tensor) -> None:
        """Note what a step found for the labels that some samples came with."""
        place, own = self._place[index], self._given[index]
        found = probabilities.gather(1, own[:, None])
        noted = torch.cat([found, torch.ones_like(found)], dim=1) * (place >= 0)[:, None]
        self.seen.index_add_(0, place.clamp(min=0), noted.float())

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint keeps; nothing where nothing is to be planted."""
        if not len(self):
            return {}
        names = ("index", "label", "seen")
        return {f"planted.{name}": getattr(self, name) for name in names}
