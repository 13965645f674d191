"""Which samples an epoch trains on, and in which order."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Order:
    """Which samples an epoch trains on, where that is for the method to say.

    Attributes:
        index: their numbers, step by step; a sample may come several times, or not at all.
        size: how many a step gets; they are whole steps.
    """

    index: Tensor
    size: int


def balanced_order(order: Tensor, label: Tensor, size: int) -> Tensor:
    """The first samples of each class in an order of all, about as many of every class.

    Args:
        order: a random order of all samples, ``(N,)``.
        label: their labels, ``(N,)``.
        size: how many are wanted. Where a class is too small the others give more.
    """
    by_class = order[label[order].argsort(stable=True)]
    own = label[by_class]
    counts = own.bincount()
    rank = torch.empty_like(order)
    rank[by_class] = torch.arange(len(own)) - (counts.cumsum(0) - counts)[own]
    chosen = rank[order].argsort(stable=True)[:size]
    return order[chosen.sort().values]


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
