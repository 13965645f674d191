"""Questions about networks."""

from __future__ import annotations

from torch import nn


def count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())
