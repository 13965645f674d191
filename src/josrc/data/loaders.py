"""Where the pixels live during training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from josrc.data.source import Source
from josrc.data.views import Normalise, WeakView
from josrc.errors import UserError

NO_DRAWS = torch.empty(0, 0)


@dataclass(frozen=True)
class Batch:
    """What a training step gets.

    Attributes:
        index: which samples these are, ``(batch,)``.
        images: their views, the first view of all samples first,
            ``(views * batch, channels, height, width)``.
        label: their given labels, ``(batch,)``.
        draws: uniform numbers in [0, 1) for what the step draws, ``(batch, draws of the method)``.
    """

    index: Tensor
    images: Tensor
    label: Tensor
    draws: Tensor = NO_DRAWS


class ResidentLoader:
    """All images as one uint8 tensor on the device; a batch is one gather, without the host.

    An epoch is a plan: an order of the samples and the random numbers of their views. The plan is
    a function of seed and epoch alone, drawn on the CPU: every device sees the same views, and a
    resumed run needs no generator state to go on exactly where it stopped. ``cursor`` is the place
    in the plan, kept on the device so that a captured step finds its next batch by itself.
    """

    def __init__(
        self,
        source: Source,
        view: WeakView,
        views: int,
        batch_size: int,
        normalise: Normalise,
        device: torch.device,
        step_draws: int = 0,
        group_size: int = 1,
    ) -> None:
        if batch_size % group_size:
            raise UserError(
                f"batch_size={batch_size} does not hold whole groups of method.group_size="
                f"{group_size} samples. Choose a multiple of {group_size}."
            )
        tiles = torch.from_numpy(source.images).to(device)
        # Zero padding before normalisation, as torchvision's crop of a PIL image does it.
        self.tiles = F.pad(tiles, (0, 0, view.pad, view.pad, view.pad, view.pad))
        self.label = torch.from_numpy(source.given).to(device)
        self.view, self.views, self.batch_size = view, views, batch_size
        self.group_size = group_size
        self.normalise = normalise
        self.order = torch.zeros(len(source), dtype=torch.long, device=device)
        self.draws = torch.zeros(views, len(source), view.draws, device=device)
        # What the step itself draws comes from the plan too, as numbers of each sample.
        self.step_draws = torch.zeros(len(source), step_draws, device=device)
        self.cursor = torch.zeros((), dtype=torch.long, device=device)

    def __len__(self) -> int:
        return len(self.order)

    def begin_epoch(self, seed: int, epoch: int, position: int = 0) -> None:
        """Draw the plan of an epoch and go to a place in it."""
        generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
        order = torch.randperm(len(self), generator=generator)
        if self.group_size > 1:
            order = grouped_order(order, self.label.cpu(), self.group_size, generator)
        self.order.copy_(order)
        self.draws.copy_(torch.rand(self.draws.shape, generator=generator))
        self.step_draws.copy_(torch.rand(self.step_draws.shape, generator=generator))
        self.cursor.fill_(position)

    def sizes(self, position: int = 0) -> list[int]:
        """Batch sizes from a place in the plan to its end; the last may be smaller.

        A single left-over sample joins the batch before it: batch statistics need two.
        """
        left, sizes = len(self) - position, []
        while left > 0:
            size = left if left <= self.batch_size + 1 else self.batch_size
            sizes.append(size)
            left -= size
        return sizes

    def fetch(self, size: int) -> Batch:
        """The next ``size`` samples of the plan, as tensor code."""
        place = self.cursor + torch.arange(size, device=self.order.device)
        index = self.order[place]
        draws = self.draws[:, place].flatten(0, 1)
        pixels = self.view(self.tiles, index.repeat(self.views), draws)
        return Batch(index, self.normalise(pixels), self.label[index], self.step_draws[place])

    def plain(self, size: int) -> Iterator[Tensor]:
        """All images as they are, in the order of the data, ``size`` at a time."""
        pad, (height, width) = self.view.pad, self.view.size
        for tiles in self.tiles.split(size):
            images = tiles[:, pad : pad + height, pad : pad + width]
            yield self.normalise(images.permute(0, 3, 1, 2))


def grouped_order(order: Tensor, label: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """An order in which samples of one label stand together, ``size`` of them, the groups mixed.

    Args:
        order: a random order of all samples, ``(N,)``.
        label: their labels, ``(N,)``.
        size: of a group. What a class has over comes last, without a group.
        generator: mixes the groups.
    """
    by_class = order[label[order].argsort(stable=True)]
    own = label[by_class]
    counts = own.bincount()
    place = torch.arange(len(own)) - (counts.cumsum(0) - counts)[own]
    whole = place < (counts // size * size)[own]
    groups = by_class[whole].view(-1, size)
    mixed = groups[torch.randperm(len(groups), generator=generator)]
    return torch.cat([mixed.flatten(), by_class[~whole]])
