"""What the features of a network say of labels that it was trained on.

A network learns some wrong labels by heart, in its last layer above all. A linear discriminant on
the features before that layer has few parameters to do so, and none at all for the samples of the
fold that it does not see: it asks whether an image lies where the other images of its label lie.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

# Parts of the samples; each is judged by the discriminant of the others.
FOLDS = 5
# How much of the spread inside of classes counts as alike in all directions, and by how much the
# discriminant's logits are flattened: features are not normal distributions, and it is too sure of
# itself. Both were chosen on halves of CIFAR-100 and CIFAR-10 with noise that is not reported.
SHRINKAGE, FLATTENING = 0.1, 0.5
# Features and labels.
Held = tuple[Tensor, Tensor]
# Numbers that are worked on at a time.
NUMBERS_PER_CHUNK = 2**24


def label_probabilities(
    features: Tensor,
    labels: Tensor,
    asked: Tensor,
    classes: int,
    held: Held | None = None,
    shrinkage: float = SHRINKAGE,
    groups: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """How likely labels are, by discriminants that have not seen their samples, ``(N, asked)``.

    And those of samples that are held out of training, ``(M,)``, by a discriminant of all others.

    Args:
        features: of every sample, ``(N, features)``.
        labels: that the discriminants learn, ``(N,)``.
        asked: labels whose probability is wanted, ``(N, asked)``.
        classes: how many there are.
        held: features and labels of held-out samples, ``(M, features)`` and ``(M,)``; with labels
            ``(M, asked)`` the probabilities of all of these are found, in this shape.
        shrinkage: how much of the spread inside of classes counts as alike in all directions.
        groups: of which each lies in one fold, ``(N,)``; none: every sample is alone.
    """
    count = len(labels) if groups is None else int(groups.max()) + 1
    order = np.random.RandomState(0).permutation(count) % FOLDS
    fold = torch.from_numpy(order).to(features.device)
    if groups is not None:
        fold = fold[groups]
    centre, spread = features.mean(dim=0), features.std(dim=0).clamp(min=1e-6)
    parts = [
        _Moments.of((features[fold == k] - centre) / spread, labels[fold == k], classes)
        for k in range(FOLDS)
    ]
    whole = _Moments(*(sum(values) for values in zip(*(p.values for p in parts), strict=True)))

    def answers(moments: _Moments, points: Tensor, wanted: Tensor) -> Tensor:
        weight, bias = moments.discriminant(shrinkage)
        size = max(1, NUMBERS_PER_CHUNK // classes)
        found = [
            (FLATTENING * ((some - centre) / spread @ weight + bias)).softmax(dim=1).gather(1, ask)
            for some, ask in zip(points.split(size), wanted.split(size), strict=True)
        ]
        return torch.cat(found)

    found = torch.empty(asked.shape, device=features.device)
    for k, part in enumerate(parts):
        rows = fold == k
        if rows.any():
            found[rows] = answers(whole - part, features[rows], asked[rows])
    if held is None or not len(held[1]):
        return found, None
    wanted = held[1] if held[1].ndim == 2 else held[1][:, None]
    return found, answers(whole, held[0], wanted).view(held[1].shape)


class _Moments:
    """Counts, sums and squares of features: all that a discriminant needs to know."""

    def __init__(self, count: Tensor, total: Tensor, squares: Tensor) -> None:
        self.values = count, total, squares

    @classmethod
    def of(cls, features: Tensor, labels: Tensor, classes: int) -> _Moments:
        """Those of some samples."""
        count = torch.bincount(labels, minlength=classes).double()
        total = torch.zeros(classes, features.shape[1], device=features.device)
        total.index_add_(0, labels, features)
        return cls(count, total.double(), (features.T @ features).double())

    def __sub__(self, other: _Moments) -> _Moments:
        mine, others = self.values, other.values
        return _Moments(*(a - b for a, b in zip(mine, others, strict=True)))

    def discriminant(self, shrinkage: float) -> tuple[Tensor, Tensor]:
        """Weight ``(features, classes)`` and bias ``(classes,)`` of the logits."""
        count, total, squares = self.values
        mean = total / count.clamp(min=1)[:, None]
        inside = (squares - mean.T @ (mean * count[:, None])) / count.sum()
        inside = (inside + inside.T) / 2
        alike = torch.eye(len(inside), dtype=inside.dtype, device=inside.device)
        spread = (inside.trace() / len(inside)).clamp(min=1e-9)
        mixed = (1 - shrinkage) * inside + shrinkage * spread * alike
        weight = torch.linalg.solve(mixed, mean.T)
        # A class that is not there can't be meant.
        prior = (count / count.sum()).log()
        bias = prior - (mean * weight.T).sum(dim=1) / 2
        return weight.float(), bias.float()
