"""Several networks as one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


def mean_probabilities(networks: Sequence[nn.Module], images: Tensor) -> Tensor:
    """Mean of what some networks predict, ``(batch, classes)``, in float32."""
    predictions = [network(images).float().softmax(dim=1) for network in networks]
    return torch.stack(predictions).mean(dim=0)
