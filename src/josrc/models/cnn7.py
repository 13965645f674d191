"""The 7-layer CNN of JoCoR and Jo-SRC: six convolutions, then a head."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from josrc.models import hardware

CHANNELS = (64, 64, 128, 128, 196, 16)


class CNN7(nn.Module):
    """Three blocks of two 3x3 convolutions and a max pool; PyTorch's default initialisation.

    The convolutions carry no bias: the batch norm behind each would subtract it again.

    Args:
        in_channels: channels of the images.
        image_size: height and width of the images; three poolings need at least 8 pixels.
        width: scales the channels of all layers but the last; 1 is the published network.

    Attributes:
        prepared_for_replay: whether a GPU may compute the layers in its own way; the results are
            the same.
    """

    prepared_for_replay = False

    def __init__(self, in_channels: int, image_size: tuple[int, int], width: float = 1.0) -> None:
        super().__init__()
        channels = [*(max(1, round(width * c)) for c in CHANNELS[:-1]), CHANNELS[-1]]
        layers: list[nn.Module] = []
        self.blocks: list[tuple[int, bool]] = []  # where a convolution stands; is it pooled after
        for place, (inputs, outputs) in enumerate(pairwise([in_channels, *channels])):
            self.blocks.append((len(layers), place % 2 == 1))
            layers += [
                nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
                nn.BatchNorm2d(outputs),
                nn.ReLU(inplace=True),
            ]
            if place % 2:
                layers.append(nn.MaxPool2d(2))
        self.layers = nn.Sequential(*layers)
        self.num_features = channels[-1] * (image_size[0] // 8) * (image_size[1] // 8)
        self.even = image_size[0] % 8 == image_size[1] % 8 == 0

    def forward(self, images: Tensor) -> Tensor:
        """Features ``(batch, num_features)``."""
        fast = self.prepared_for_replay and self.even and hardware.available(images)
        return torch.flatten(self._fast(images) if fast else self.layers(images), 1)

    def _fast(self, x: Tensor) -> Tensor:
        """What ``layers`` computes, in fewer and faster kernels."""
        norms: list[nn.BatchNorm2d] = []
        tables, counts = [], []
        for place, pool in self.blocks:
            conv, norm = self.layers[place], self.layers[place + 1]
            assert isinstance(conv, nn.Conv2d)
            assert isinstance(norm, nn.BatchNorm2d)
            x = hardware.convolve(x, conv.weight)
            counts.append(x.numel() // x.shape[1])
            x, table = hardware.norm_relu(x, norm, pool)
            norms.append(norm)
            tables.append(table)
        if self.training:
            hardware.update_running(norms, tables, counts)
        return x
