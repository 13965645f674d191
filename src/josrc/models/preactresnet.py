"""PreAct-ResNet-18 for small images, the network of DivideMix and M-correction on CIFAR."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

CHANNELS = (64, 128, 256, 512)


class PreActBlock(nn.Module):
    """Two 3x3 convolutions, each behind its batch norm and ReLU, beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.shortcut: nn.Conv2d | None = None
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Activations ``(batch, outputs, height / stride, width / stride)``."""
        active = F.relu(self.norm1(x))
        beside = x if self.shortcut is None else self.shortcut(active)
        within = self.conv2(F.relu(self.norm2(self.conv1(active))))
        result: Tensor = within + beside
        return result


class PreActResNet18(nn.Module):
    """He et al., Identity Mappings in Deep Residual Networks, 2016; a 3x3 stem without pooling."""

    num_features = CHANNELS[-1]

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(in_channels, CHANNELS[0], 3, padding=1, bias=False)
        blocks: list[nn.Module] = []
        before = CHANNELS[0]
        for channels in CHANNELS:
            stride = 1 if channels == CHANNELS[0] else 2
            blocks += [PreActBlock(before, channels, stride), PreActBlock(channels, channels, 1)]
            before = channels
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.BatchNorm2d(before)

    def forward(self, images: Tensor) -> Tensor:
        """Features ``(batch, num_features)``."""
        x = F.relu(self.norm(self.blocks(self.stem(images))))
        return F.adaptive_avg_pool2d(x, 1).flatten(1)
