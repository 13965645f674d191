"""Random views of images, batched on the device: every image draws its own crop and flip.

Randomness comes in as uniform numbers, so the same numbers give the same views on every device,
eagerly, compiled and inside a CUDA graph.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from josrc.config import ViewConfig
from josrc.data import policies
from josrc.data.images import ImageSpec


@dataclass(frozen=True)
class WeakView:
    """A crop at a random place of the zero-padded image, and a horizontal flip every second time.

    Attributes:
        pad: pixels of padding on each side.
        flip: whether images are flipped.
        size: height and width of the crop.
        whole: whether images in files hand out squares of all that they show, each view another,
            and not the middle one.
        draws: uniform numbers that an image needs: how far down, how far across, whether flipped.
    """

    pad: int
    flip: bool
    size: tuple[int, int]
    whole: bool = False
    draws: int = 3

    def __call__(self, tiles: Tensor, index: Tensor, draws: Tensor) -> Tensor:
        """Views of some images.

        Args:
            tiles: images, padded, uint8, ``(N, height + 2 pad, width + 2 pad, channels)``; those
                decoded from files are somewhat larger than the crop by themselves.
            index: which images, ``(views,)``; an image may appear more than once.
            draws: numbers in [0, 1), ``(views, 3)``.

        Returns:
            uint8 tensor ``(views, channels, height, width)`` in channels-last memory.
        """
        height, width = self.size
        down = torch.arange(height, device=tiles.device)
        along = torch.arange(width, device=tiles.device)
        top = (draws[:, 0] * (tiles.shape[1] - height + 1)).long()
        left = (draws[:, 1] * (tiles.shape[2] - width + 1)).long()
        columns = along.expand(len(index), -1)
        if self.flip:
            columns = torch.where(draws[:, 2:3] < 0.5, along.flip(0), along)
        rows = top[:, None] + down
        columns = left[:, None] + columns
        views = tiles[index[:, None, None], rows[:, :, None], columns[:, None, :]]
        return views.permute(0, 3, 1, 2)


@dataclass(frozen=True)
class ResizedView:
    """A crop of random place, area and aspect ratio, resized to one size, and a flip.

    Attributes:
        pad: pixels of padding on each side.
        flip: whether images are flipped.
        size: height and width of a view.
        area: smallest share of a tile that a crop covers.
        draws: uniform numbers that an image needs.
    """

    pad: int
    flip: bool
    size: tuple[int, int]
    area: float = 0.2
    draws: int = 5

    def __call__(self, tiles: Tensor, index: Tensor, draws: Tensor) -> Tensor:
        """Views of some images as ``WeakView`` takes them, with pixels of type float."""
        area = self.area + (1 - self.area) * draws[:, 0]
        ratio = torch.exp((2 * draws[:, 1] - 1) * math.log(4 / 3))  # 3:4 to 4:3, as in Inception
        width, height = (area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1)
        left, top = (
            (2 * d - 1) * (1 - s) for d, s in ((draws[:, 2], width), (draws[:, 3], height))
        )
        across = torch.where(draws[:, 4] < 0.5, -width, width) if self.flip else width
        zero = torch.zeros_like(area)
        matrix = torch.stack([across, zero, left, zero, height, top], dim=1).view(-1, 2, 3)
        return resample(tiles[index].permute(0, 3, 1, 2).float(), matrix, self.size)


def resample(images: Tensor, matrix: Tensor, size: tuple[int, int]) -> Tensor:
    """Images ``(batch, channels, height, width)`` seen through affine maps ``(batch, 2, 3)``.

    The maps lead from places of the result to places of the image, both from -1 to 1.
    """
    grid = F.affine_grid(matrix, [len(images), images.shape[1], *size], align_corners=False)
    seen = F.grid_sample(images, grid, padding_mode="reflection", align_corners=False)
    return seen.contiguous(memory_format=torch.channels_last)


@dataclass(frozen=True)
class StrongView:
    """Another view, then changed by a policy.

    The policy ``mild`` turns and shears every image, and changes its colours twice.

    Attributes:
        base: the view that comes first.
        share: which share of the images is changed, counted from the last; the views of a batch
            stand one after the other, so 1/2 is the second of two.
        policy: how they are changed.
        table: AutoAugment's policy as numbers, on the device of the images, if that is the policy.
    """

    base: WeakView | ResizedView
    share: float = 1.0
    policy: Literal["mild", "autoaugment", "randaugment"] = "mild"
    table: Tensor | None = field(default=None, compare=False)

    @property
    def pad(self) -> int:
        """Pixels of padding on each side."""
        return self.base.pad

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of a view."""
        return self.base.size

    @property
    def draws(self) -> int:
        """Uniform numbers that an image needs."""
        return self.base.draws + policies.DRAWS

    def __call__(self, tiles: Tensor, index: Tensor, draws: Tensor) -> Tensor:
        """Views of some images, with pixels of type float from 0 to 255."""
        pixels = self.base(tiles, index, draws).float()
        kept = round(len(index) * (1 - self.share))
        strong, numbers = pixels[kept:], draws[kept:, self.base.draws :]
        if self.policy == "mild":
            strong = self._mild(strong, numbers)
        else:
            strong = policies.augment(strong.round(), numbers, self.table)
        return torch.cat([pixels[:kept], strong]) if kept else strong

    def _mild(self, images: Tensor, numbers: Tensor) -> Tensor:
        angle = (2 * numbers[:, 0] - 1) * math.radians(30)  # RandAugment's largest rotation
        shear = (2 * numbers[:, 1] - 1) * 0.3  # and its largest shear
        cos, sin, zero = angle.cos(), angle.sin(), torch.zeros_like(angle)
        matrix = torch.stack([cos, shear - sin, zero, sin, cos, zero], dim=1).view(-1, 2, 3)
        images = resample(images, matrix, (images.shape[2], images.shape[3]))
        for choice, strength in (numbers[:, 2:4].T, numbers[:, 4:6].T):
            images = recolour(images, choice, strength)
        return images


def recolour(images: Tensor, choice: Tensor, strength: Tensor) -> Tensor:
    """Each image after one of seven changes of its colours, none among them.

    Args:
        images: pixels from 0 to 255, ``(batch, channels, height, width)``.
        choice: which change, numbers in [0, 1), ``(batch,)``.
        strength: how much of it, numbers in [0, 1), ``(batch,)``.
    """
    amount = strength.view(-1, 1, 1, 1)
    factor = 0.1 + 1.8 * amount  # RandAugment's range of enhancements
    grey = images.mean(dim=1, keepdim=True)
    step = torch.exp2((4 * amount).floor())  # up to three bits are lost
    changed = [
        images,
        images * factor,  # brightness
        grey.mean(dim=(2, 3), keepdim=True).lerp(images, factor),  # contrast
        grey.lerp(images, factor),  # saturation
        (images / step).floor() * step,  # posterise
        torch.where(images < 255 * (1 - amount), images, 255 - images),  # solarise
        blurred(images).lerp(images, factor),  # sharpness
    ]
    picked = (choice * len(changed)).long().view(-1, 1, 1, 1)
    result = images
    for number, candidate in enumerate(changed):
        result = torch.where(picked == number, candidate, result)
    return result.clamp(0, 255)


def blurred(images: Tensor) -> Tensor:
    """The mean of three by three pixels."""
    return F.avg_pool2d(images, 3, stride=1, padding=1, count_include_pad=False)


@dataclass(frozen=True)
class StoredView:
    """One of the views of an image whose features were computed before the first epoch.

    Attributes:
        stored: how many there are of an image; the first is its middle, without chance.
        features: numbers of each.
        views: how many of each image a batch has, the first of all images first.
        strong: how many of those stored, the last of them, are for the last of these alone.
        draws: uniform numbers that an image needs.
    """

    stored: int
    features: int
    views: int = 1
    strong: int = 0
    draws: int = 1

    pad = 0

    @property
    def size(self) -> tuple[int, int]:
        """Of what takes the place of an image: a row of features."""
        return (1, self.features)

    def __call__(self, tiles: Tensor, index: Tensor, draws: Tensor) -> Tensor:
        """Features of some images, ``(views, features)``.

        Args:
            tiles: features of all views of all images, ``(N, stored, features)``.
            index: which images, ``(views,)``.
            draws: numbers in [0, 1), ``(views, 1)``.
        """
        plain, weak = self.stored - self.strong, len(index)
        if self.strong:
            weak -= weak // self.views
        place = (draws[:weak, 0] * plain).long()
        last = plain + (draws[weak:, 0] * self.strong).long()
        return tiles[index, torch.cat([place, last])]


PixelView = WeakView | ResizedView | StrongView
View = PixelView | StoredView


def create_view(
    config: ViewConfig,
    size: tuple[int, int],
    views: int = 1,
    device: torch.device | None = None,
) -> PixelView:
    """The random view of a configuration, for networks that see images of ``size``.

    Args:
        config: the settings.
        size: height and width.
        views: how many of each image a batch has.
        device: where the images will be; none: on the CPU.
    """
    base: WeakView | ResizedView = WeakView(config.pad, config.flip, size, config.crop == "whole")
    if config.crop == "resized":
        base = ResizedView(config.pad, config.flip, size)
    if config.strong == "none":
        return base
    table = policies.autoaugment_table(device) if config.policy == "autoaugment" else None
    return StrongView(base, 1.0 if config.strong == "all" else 1 / views, config.policy, table)


def create_stored_view(config: ViewConfig, features: int, views: int) -> StoredView:
    """The view of a configuration over features; where only the last is strong, it stays so."""
    strong = config.stored // views if config.strong == "last" and views > 1 else 0
    return StoredView(config.stored, features, views, strong)


def to_store(view: PixelView, stored: StoredView) -> PixelView:
    """How the random views are made that are stored, all of one image in a row."""
    if not isinstance(view, StrongView) or stored.views == 1 or not stored.strong:
        return view
    return replace(view, share=stored.strong / (stored.stored - 1))


def sees_whole(view: View) -> bool:
    """Whether a view may show any part of an image in a file."""
    base = view.base if isinstance(view, StrongView) else view
    return isinstance(base, WeakView) and base.whole


class Normalise:
    """uint8 pixels to what the network expects: channel-wise standardised, resized if asked."""

    def __init__(
        self,
        spec: ImageSpec,
        image_size: int | None,
        device: torch.device,
        standardise: bool = True,
    ) -> None:
        """Set up for a data set.

        Args:
            spec: whose channel means and deviations to use.
            image_size: height and width to resize to; none keeps the size.
            device: where the pixels are.
            standardise: whether to use them; without, pixels are brought to [0, 1] alone.
        """
        mean = torch.tensor(spec.mean, device=device).view(1, -1, 1, 1)
        std = torch.tensor(spec.std, device=device).view(1, -1, 1, 1)
        if not standardise:
            mean, std = torch.zeros_like(mean), torch.ones_like(std)
        self.scale = 1 / (255 * std)
        self.shift = -mean / std
        native = spec.size
        self.size = (image_size, image_size) if image_size and native != (image_size,) * 2 else None

    def __call__(self, pixels: Tensor) -> Tensor:
        """Float images ``(batch, channels, height, width)``."""
        # In place, in memory of its own: on a CPU each new tensor of this size costs as much again.
        images = pixels.to(torch.float32, copy=True)
        images *= self.scale
        images += self.shift
        if self.size is not None:
            images = F.interpolate(images, self.size, mode="bilinear", antialias=False)
        return images
