"""Random views of images, batched on the device: every image draws its own crop and flip.

Randomness comes in as uniform numbers, so the same numbers give the same views on every device,
eagerly, compiled and inside a CUDA graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from josrc.data.source import Source


@dataclass(frozen=True)
class WeakView:
    """A crop at a random place of the zero-padded image, and a horizontal flip every second time.

    Attributes:
        pad: pixels of padding on each side.
        flip: whether images are flipped.
        size: height and width of the crop.
        draws: uniform numbers an image needs.
    """

    pad: int
    flip: bool
    size: tuple[int, int]
    draws: int = 3

    def __call__(self, tiles: Tensor, index: Tensor, draws: Tensor) -> Tensor:
        """Views of some images.

        Args:
            tiles: all images, padded, uint8, ``(N, height + 2 pad, width + 2 pad, channels)``.
            index: which images, ``(views,)``; an image may appear more than once.
            draws: numbers in [0, 1), ``(views, 3)``.

        Returns:
            uint8 tensor ``(views, channels, height, width)`` in channels-last memory.
        """
        height, width = self.size
        down = torch.arange(height, device=tiles.device)
        along = torch.arange(width, device=tiles.device)
        top = (draws[:, 0] * (2 * self.pad + 1)).long()
        left = (draws[:, 1] * (2 * self.pad + 1)).long()
        columns = along.expand(len(index), -1)
        if self.flip:
            columns = torch.where(draws[:, 2:] < 0.5, along.flip(0), along)
        rows = top[:, None] + down
        columns = left[:, None] + columns
        views = tiles[index[:, None, None], rows[:, :, None], columns[:, None, :]]
        return views.permute(0, 3, 1, 2)


class Normalise:
    """uint8 pixels to what the network expects: channel-wise standardised, resized if asked."""

    def __init__(
        self,
        source: Source,
        image_size: int | None,
        device: torch.device,
        standardise: bool = True,
    ) -> None:
        """Set up for a data set.

        Args:
            source: whose channel means and deviations to use.
            image_size: height and width to resize to; none keeps the size.
            device: where the pixels are.
            standardise: whether to use them; without, pixels are brought to [0, 1] alone.
        """
        mean = torch.tensor(source.mean, device=device).view(1, -1, 1, 1)
        std = torch.tensor(source.std, device=device).view(1, -1, 1, 1)
        if not standardise:
            mean, std = torch.zeros_like(mean), torch.ones_like(std)
        self.scale = 1 / (255 * std)
        self.shift = -mean / std
        native = source.images.shape[1:3]
        self.size = (image_size, image_size) if image_size and native != (image_size,) * 2 else None

    def __call__(self, pixels: Tensor) -> Tensor:
        """Float images ``(batch, channels, height, width)``."""
        images = pixels * self.scale + self.shift
        if self.size is not None:
            images = F.interpolate(images, self.size, mode="bilinear", antialias=False)
        return images
