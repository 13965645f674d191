"""Mixup: two samples become one between them, labels as well as images.

Zhang, Cisse, Dauphin and Lopez-Paz, ICLR 2018. Randomness comes in as uniform numbers, as that of
views does.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

# This many equally likely values stand for a beta distribution.
BETA_QUANTILES = 4096


def beta_quantiles(alpha: float) -> Tensor:
    """Equally likely values of Beta(alpha, alpha), in order, ``(BETA_QUANTILES,)``."""
    from scipy.special import betaincinv

    middles = (np.arange(BETA_QUANTILES) + 0.5) / BETA_QUANTILES
    return torch.from_numpy(betaincinv(alpha, alpha, middles)).float()


def draw(quantiles: Tensor, uniform: Tensor) -> Tensor:
    """Values of a distribution from uniform numbers in [0, 1)."""
    place = (uniform * len(quantiles)).long()
    return quantiles.index_select(0, place.reshape(-1)).reshape(place.shape)


def mix(values: Tensor, partner: Tensor, share: Tensor) -> Tensor:
    """Each row with that of its partner.

    Args:
        values: images or labels, ``(batch, ...)``.
        partner: number of each row's partner, ``(batch,)``.
        share: of the row itself, scalar or ``(batch,)``.
    """
    if share.ndim:
        share = share.reshape(-1, *[1] * (values.ndim - 1))
    return share * values + (1 - share) * values[partner]
