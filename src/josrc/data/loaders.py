"""Where the pixels live during training."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from josrc.data.image_files import ImageFiles
from josrc.data.images import ArrayImages, Images
from josrc.data.noise import Labels
from josrc.data.orders import Order, balanced_order, grouped_order
from josrc.data.packed_strings import Index
from josrc.data.source import Source
from josrc.data.staging import Staging
from josrc.data.views import View, sees_whole
from josrc.data.workers import DecodedGroup, DecodingPool, Faults, SquareGroup
from josrc.distributed import portion
from josrc.errors import UserError

# Test images of 32 x 32 pixels that go through a network at once; of larger ones fewer.
MAX_EVALUATED = 2000
# Where a method orders an epoch itself: this many places for each sample at most, and this many
# times the batch size in a step; and this many samples that several processes must not part.
MAX_VISITS_PER_SAMPLE, MAX_BATCHES_PER_STEP, ORDERED_UNIT = 4, 2, 4
# Seed and epoch it was drawn for; order of the samples; numbers of their views; of the steps.
Plan = tuple[tuple[int, int] | None, Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class Needs:
    """What a training step wants of a batch.

    Attributes:
        views: how many random views of each sample.
        draws: how many random numbers for each sample.
        group_size: how many samples of one given label stand together; 1 mixes all.
        ordered: whether the method itself may say which samples come, see ``Method.order``.
    """

    views: int = 1
    draws: int = 0
    group_size: int = 1
    ordered: bool = False

    @property
    def unit(self) -> int:
        """How many samples in a row belong together, and go to one process."""
        return ORDERED_UNIT if self.ordered else self.group_size


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
    draws: Tensor


class Loader:
    """Which samples come when, and what is drawn for them; its children know where the pixels are.

    An epoch is a plan: an order of the samples and the random numbers of their views. The plan is
    a function of seed and epoch alone, drawn on the CPU: every device sees the same views, and a
    resumed run needs no generator state to go on exactly where it stopped. ``cursor`` is the place
    in the plan, kept on the device so that a captured step finds its next batch by itself. Of
    several processes each fetches its portion of a batch.
    """

    tiles: Tensor

    def __init__(
        self,
        source: Source,
        needs: Needs,
        view: View,
        normalise: Callable[[Tensor], Tensor],
        device: torch.device,
        *,
        batch_size: int,
        workers: int | None = None,
        epoch_samples: int | None = None,
    ) -> None:
        """Set up for a run.

        Args:
            source: the samples.
            needs: what a step wants of a batch.
            view: how a random view of a tile is made.
            normalise: from pixels to what the networks expect.
            device: where the step runs.
            batch_size: samples per step, of all processes together.
            workers: processes that decode; none: one per core.
            epoch_samples: samples of an epoch; none: all.
        """
        if batch_size % needs.group_size:
            raise UserError(
                f"batch_size={batch_size} is not a multiple of the groups of group_size="
                f"{needs.group_size} samples. Choose a multiple of {needs.group_size}."
            )
        self.label = torch.tensor(source.given, device=device)  # not shared: it may be changed
        self.view, self.needs, self.batch_size = view, needs, batch_size
        self.normalise = normalise
        self.samples = self.places = min(len(source), epoch_samples or len(source))
        self.step_size = batch_size
        room = (
            MAX_VISITS_PER_SAMPLE * (self.samples + batch_size) if needs.ordered else self.samples
        )
        self.order = torch.zeros(room, dtype=torch.long, device=device)
        self.draws = torch.zeros(needs.views, room, view.draws, device=device)
        # What the step itself draws comes from the plan too, as numbers of each sample.
        self.step_draws = torch.zeros(room, needs.draws, device=device)
        self.cursor = torch.zeros((), dtype=torch.long, device=device)
        self.plan: Plan = None, self.order, self.draws, self.step_draws
        self.drawn = self.order[: self.samples].cpu()
        self._open(source, device, workers)

    def _open(self, source: Source, device: torch.device, workers: int | None) -> None:
        """Make ``tiles``, from which the views are drawn."""
        raise NotImplementedError

    def __len__(self) -> int:
        """Samples of the epoch; one that comes several times counts as often."""
        return self.places

    def begin_epoch(self, seed: int, epoch: int, position: int = 0) -> None:
        """Take up the plan of an epoch and go to a place in it."""
        self.draw_plan(seed, epoch)
        _, order, draws, step_draws = self.plan
        self.step_size, self.drawn = self.batch_size, order
        self._take(order, draws, step_draws, position)

    def follow(self, own: Order, seed: int, epoch: int, position: int = 0) -> None:
        """Take up the order of a method, instead of the plan's; it has whole steps.

        Args:
            own: the order.
            seed: of the run, for what is drawn for its samples.
            epoch: likewise.
            position: the place to go to.
        """
        generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
        views, places = len(self.draws), len(own.index)
        draws = torch.rand(views, places, self.view.draws, generator=generator)
        step_draws = torch.rand(places, self.needs.draws, generator=generator)
        self.step_size = own.size
        self._take(own.index, draws, step_draws, position)

    def _take(self, order: Tensor, draws: Tensor, step_draws: Tensor, position: int) -> None:
        self.places = len(order)
        # First of all: workers begin to decode while the device ends what was queued before.
        self._expect(order, draws, position)
        self.order[: self.places].copy_(order)
        self.draws[:, : self.places].copy_(draws)
        self.step_draws[: self.places].copy_(step_draws)
        self.cursor.fill_(position)

    def draw_plan(self, seed: int, epoch: int) -> None:
        """Draw the plan of an epoch; done ahead of time, it costs the device no waiting."""
        if self.plan[0] == (seed, epoch):
            return
        generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
        order = torch.randperm(len(self.label), generator=generator)
        if self.samples < len(self.label):
            order = balanced_order(order, self.label.cpu(), self.samples)
        if self.needs.group_size > 1:
            order = grouped_order(order, self.label.cpu(), self.needs.group_size, generator)
        views, samples = len(self.draws), len(order)
        draws = torch.rand(views, samples, self.view.draws, generator=generator)
        step_draws = torch.rand(samples, self.needs.draws, generator=generator)
        self.plan = (seed, epoch), order, draws, step_draws

    def refill(self, source: Source) -> None:
        """Take the labels and images of another source like the first, in place.

        A plan may have been drawn by the old labels.
        """
        self.label.copy_(torch.from_numpy(source.given))
        self.plan = None, *self.plan[1:]

    def relabel(self, index: Tensor, label: Tensor) -> None:
        """Train some samples with other labels from now on; a plan may follow from labels."""
        self.label[index] = label
        self.plan = None, *self.plan[1:]

    def sizes(self, position: int = 0) -> list[int]:
        """Batch sizes from a place in the plan to its end; the last may be smaller.

        A single left-over sample joins the batch before it: batch statistics need two.
        """
        left, sizes = len(self) - position, []
        while left > 0:
            size = left if left <= self.step_size + 1 else self.step_size
            sizes.append(size)
            left -= size
        return sizes

    def _expect(self, order: Tensor, draws: Tensor, position: int) -> None:
        """The samples that will be asked for, and what is drawn for their views, on the host."""

    def prepare(self, size: int) -> None:
        """Bring the pixels of the next ``size`` samples to the device, before ``fetch``."""

    def fetch(self, size: int) -> Batch:
        """This process's portion of the next ``size`` samples of the plan, as tensor code."""
        own = portion(size, self.needs.unit)
        place = self.cursor + torch.arange(own.start, own.stop, device=self.order.device)
        index = self.order[place]
        draws = self.draws[:, place].flatten(0, 1)
        pixels = self.view(self.tiles, self._tiles_of(index), draws)
        return Batch(index, self.normalise(pixels), self.label[index], self.step_draws[place])

    def plain(self, size: int, index: Tensor | None = None) -> Iterator[Tensor]:
        """All images, or some, without chance, in their order, at most ``size`` at a time."""
        raise NotImplementedError

    def _tiles_of(self, index: Tensor) -> Tensor:
        """Which of ``tiles`` belongs to each view of the batch, the first view of all first."""
        raise NotImplementedError


class ResidentLoader(Loader):
    """All images as one uint8 tensor on the device; a batch is one gather, without the host."""

    def _open(self, source: Source, device: torch.device, workers: int | None) -> None:
        assert isinstance(source.images, ArrayImages)
        tiles = torch.from_numpy(source.images.pixels).to(device)
        # Zero padding before normalisation, as torchvision's crop of a PIL image does it.
        pad = self.view.pad
        self.tiles = F.pad(tiles, (0, 0, pad, pad, pad, pad)) if pad else tiles

    def refill(self, source: Source) -> None:
        """Take the labels and images of another source like the first, in place."""
        super().refill(source)
        assert isinstance(source.images, ArrayImages)
        inner = slice(self.view.pad, -self.view.pad or None)
        self.tiles[:, inner, inner].copy_(torch.from_numpy(source.images.pixels))

    def plain(self, size: int, index: Tensor | None = None) -> Iterator[Tensor]:
        """All images, or some, without chance, in their order, at most ``size`` at a time."""
        every = torch.arange(len(self.label)) if index is None else index.cpu()
        for places in every.split(min(size, chunk_for(self.view.size))):
            first, last = int(places[0]), int(places[-1]) + 1
            near = last - first == len(places)  # a slice of the tiles is not copied
            tiles = self.tiles[first:last] if near else self.tiles[places.to(self.tiles.device)]
            yield self.normalise(middle(tiles, self.view.size))

    def _tiles_of(self, index: Tensor) -> Tensor:
        return index.repeat(self.needs.views)


class StreamingLoader(Loader):
    """Images that stay in their files; worker processes decode each batch ahead of its step.

    A tile is decoded once per epoch whatever the number of views: they are drawn from it on the
    device. (A view that may show all of an image has a tile of its own.) ``tiles`` holds one batch
    and keeps its place, so that a captured step can read it.
    """

    def _open(self, source: Source, device: torch.device, workers: int | None) -> None:
        assert isinstance(source.images, ImageFiles)
        self.images, self.workers = source.images, workers
        side = self.images.tile + 2 * self.view.pad
        # A single left-over sample joins the batch before it.
        most = self.batch_size * (MAX_BATCHES_PER_STEP if self.needs.ordered else 1) + 1
        self.whole = sees_whole(self.view)
        most *= self.needs.views if self.whole else 1
        self.tiles = torch.zeros(most, side, side, 3, dtype=torch.uint8, device=device)
        on_gpu, tile = device.type == "cuda", self.images.tile
        self.staging = Staging((most, tile, tile, 3), device) if on_gpu else None
        self.pool = DecodingPool(self.images, workers, most, pin=on_gpu)
        self.coming: Iterator[DecodedGroup] = iter(())

    def _expect(self, order: Tensor, draws: Tensor, position: int) -> None:
        parts = torch.arange(position, len(order)).split(self.sizes(position))
        own = [part[portion(len(part), self.needs.unit)] for part in parts]
        groups: list[Index | SquareGroup] = [order[part].numpy() for part in own]
        if self.whole:
            # By the numbers that choose the crop inside of a square: so both together reach every
            # place along the long side equally often.
            places = draws[:, :, :2]
            groups = [SquareGroup(order[part].numpy(), places[:, part].numpy()) for part in own]
        self.coming = self.pool.decode(groups)

    def prepare(self, size: int) -> None:
        """Wait for the next batch and send it off; the device fetches it in its own time."""
        tiles, faults, *_ = next(self.coming)
        for index, reason in faults:
            raise UserError(
                f"{self.images.location(index)} can no longer be read: {reason}. It was readable "
                "when the run started. Restore it and continue with josrc resume, or start a new "
                "run."
            )
        pad = self.view.pad
        inside = slice(pad, pad + self.images.tile)
        place = self.tiles[: len(tiles), inside, inside]
        if self.staging is None:
            place.copy_(tiles)
        else:
            self.staging.send(tiles, place)

    def plain(self, size: int, index: Tensor | None = None) -> Iterator[Tensor]:
        """All images, or some, without chance, in their order, at most ``size`` at a time."""
        # Processes of their own: those of the epoch may already be decoding its first batches.
        labels, device = self.label.cpu().numpy(), self.label.device
        images, view, workers = self.images, self.view.size, self.workers
        if index is not None and len(index) < len(labels):
            places = index.cpu().numpy()
            images, labels = images.take(places), labels[places]
        yield from EvaluationSet(images, labels, self.normalise, view, device, workers, size)

    def _tiles_of(self, index: Tensor) -> Tensor:
        if self.whole:
            return torch.arange(self.needs.views * len(index), device=index.device)
        return torch.arange(len(index), device=index.device).repeat(self.needs.views)


def loader_for(source: Source) -> type[Loader]:
    """The kind of loader for images in memory, or for those in files."""
    return ResidentLoader if source.images.in_memory else StreamingLoader


def middle(tiles: Tensor, size: tuple[int, int]) -> Tensor:
    """The middle of tiles ``(batch, height, width, channels)``, channels first."""
    (height, width), (tall, wide) = size, tiles.shape[1:3]
    top, left = (tall - height) // 2, (wide - width) // 2
    return tiles[:, top : top + height, left : left + width].permute(0, 3, 1, 2)


def chunk_for(size: tuple[int, int]) -> int:
    """How many images of a size go through a network at once when nothing is learned."""
    return min(MAX_EVALUATED, max(32, MAX_EVALUATED * 32 * 32 // (size[0] * size[1])))


class EvaluationSet:
    """Images that are looked at and not trained on: their middle, in order, without chance."""

    def __init__(
        self,
        images: Images,
        labels: Labels,
        normalise: Callable[[Tensor], Tensor],
        size: tuple[int, int],
        device: torch.device,
        workers: int | None = None,
        most: int = MAX_EVALUATED,
    ) -> None:
        self.labels = torch.from_numpy(labels).to(device)
        self.normalise, self.size, self.device = normalise, size, device
        self.chunk = min(most, chunk_for(size))
        self.tiles: Tensor | None = None
        self.images = images
        if isinstance(images, ArrayImages):
            self.tiles = torch.from_numpy(images.pixels).to(device)
        else:
            assert isinstance(images, ImageFiles)
            self.pool = DecodingPool(images, workers, self.chunk, pin=device.type == "cuda")

    def __iter__(self) -> Iterator[Tensor]:
        """Normalised images, chunk by chunk."""
        for images, faults in self.with_faults():
            for index, reason in faults:
                raise UserError(f"{self.images.location(index)} can't be read: {reason}.")
            yield images

    def with_faults(self) -> Iterator[tuple[Tensor, Faults]]:
        """The same, with the places of images that could not be decoded; those are black."""
        for tiles, faults in self._chunks():
            yield self.normalise(middle(tiles, self.size)), faults

    def _chunks(self) -> Iterator[tuple[Tensor, Faults]]:
        if self.tiles is not None:
            yield from ((tiles, []) for tiles in self.tiles.split(self.chunk))
            return
        groups = np.array_split(
            np.arange(len(self.labels)), math.ceil(len(self.labels) / self.chunk)
        )
        for tiles, faults, *_ in self.pool.decode(groups):
            yield tiles.to(self.device, non_blocking=True), faults
