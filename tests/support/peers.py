"""Batches and sources for tests of a single method."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from batches import batch_of

SIZE, CLASSES = 12, 5


LABEL = np.arange(SIZE) % CLASSES


GENERATOR = np.random.default_rng(0)


WEAK, STRONG = GENERATOR.normal(scale=2, size=(2, SIZE, CLASSES))


ROWS = np.arange(SIZE)


class Source:
    """What the methods ask of data."""

    closed = CLASSES
    given = LABEL

    def __len__(self) -> int:
        return SIZE


def made(kind, settings):
    method = kind(settings, nn.Identity)
    method.prepare(Source())
    return method


def batch(*views: np.ndarray):
    return batch_of(torch.tensor(np.concatenate(views)).float(), torch.tensor(LABEL))
