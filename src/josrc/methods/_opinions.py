"""What networks think of every sample, averaged over its visits, in little memory.

An opinion is a distribution over the classes. In half precision it takes two bytes per class, so
that those of a million samples on 1,000 classes take 1.9 GiB. Of many classes only the likeliest
are kept, with their numbers: 128 of 1,000 take 0.72 GiB. What is lost: of every probability about a
2000th part of itself, all that is below 3e-8, and with few classes kept how the rest of them shared
what was left; it is spread over them evenly.
"""

from __future__ import annotations

import torch
from torch import Tensor


class Opinions:
    """Reads and writes a table of opinions that somebody else keeps.

    Attributes:
        values: probabilities of the classes kept, half precision, ``(N, kept)``; all 0 before the
            first visit.
        classes: which classes they are, ``(N, kept)``; none where all are kept, in their order.
    """

    def __init__(self, values: Tensor, classes: Tensor | None, count: int) -> None:
        self.values, self.classes, self.count = values, classes, count

    @staticmethod
    def tables(samples: int, count: int, kept: int) -> tuple[Tensor, Tensor | None]:
        """Values and classes of samples nobody has seen, the latter if not all are kept."""
        values = torch.zeros(samples, min(kept, count), dtype=torch.float16)
        if kept >= count:
            return values, None
        return values, torch.zeros(samples, kept, dtype=torch.int32)

    def read(self, index: Tensor) -> Tensor:
        """Opinions of some samples in float32, ``(batch, classes)``; 0 of those never visited."""
        values = self.values[index].float()
        if self.classes is None:
            return values
        rest = (1 - values.sum(dim=1, keepdim=True)).clamp(min=0)
        rest = torch.where(self.seen(index)[:, None], rest, 0.0)
        spread = (rest / (self.count - values.shape[1])).expand(-1, self.count)
        return spread.scatter(1, self.classes[index].long(), values)

    def write(self, index: Tensor, opinions: Tensor) -> None:
        """Keep opinions ``(batch, classes)`` of some samples."""
        if self.classes is None:
            self.values.index_copy_(0, index, opinions.to(self.values.dtype))
            return
        values, classes = opinions.topk(self.values.shape[1], dim=1)
        self.values.index_copy_(0, index, values.to(self.values.dtype))
        self.classes.index_copy_(0, index, classes.to(self.classes.dtype))

    def seen(self, index: Tensor) -> Tensor:
        """Which of some samples have been visited, ``(batch,)``."""
        return self.values[index].amax(dim=1) > 0
