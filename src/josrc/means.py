"""Means over a batch: the whole one, also where several processes have a part of it each."""

from __future__ import annotations

from torch import Tensor

from josrc.engine.distributed import is_divided, total


def batch_mean(values: Tensor) -> Tensor:
    """Mean over all samples, ``(...)`` of ``(batch, ...)``."""
    if not is_divided():
        return values.mean(dim=0)
    summed, count = total(values.sum(dim=0), values.new_full((), len(values)))
    return summed / count


def mean_over(values: Tensor, chosen: Tensor, at_least: float = 1.0) -> Tensor:
    """Mean of the chosen values, scalar; 0 where none is chosen.

    Args:
        values: ``(batch,)``.
        chosen: which to average, ``(batch,)``, bool or 0 and 1.
        at_least: smallest divisor.
    """
    summed, count = total((values * chosen).sum(), chosen.sum())
    return summed / count.clamp(min=at_least)
