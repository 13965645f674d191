"""Passes over the whole training set between epochs: what mixtures, prototypes and new labels need.

One mechanism for all methods: ``Method.before_epoch`` gets a ``Survey`` and keeps what it finds in
registered buffers, where the training step reads it by sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from josrc import distributed
from josrc.data.loaders import Loader
from josrc.models.factory import feature_extractor

SURVEY_BATCH = 2000
Part = Callable[[Tensor], Tensor]


class Survey:
    """Runs networks over all training samples in their order, on plain images, in evaluation mode.

    Of several processes each looks at a part of them, and all get the whole.

    Attributes:
        labels: the given labels, ``(N,)``.
        batch_size: samples of a batch, of all processes together.
        seed: for whatever a method draws between epochs; another in every epoch.
        reset_optimizer: clears the optimizer's state, for a network that starts over.
    """

    def __init__(
        self,
        loader: Loader,
        autocast: Callable[[], AbstractContextManager[object]],
        seed: int,
        reset_optimizer: Callable[[], None],
    ) -> None:
        self.labels = loader.label
        self.batch_size = loader.batch_size
        self.seed, self.reset_optimizer = seed, reset_optimizer
        self._loader, self._autocast = loader, autocast

    @cached_property
    def coming(self) -> Tensor:
        """Samples that the epoch will train on, sorted; all, unless epochs are shorter."""
        return self._loader.drawn.sort().values.to(self.labels.device)

    def logits(self, network: nn.Module, index: Tensor | None = None) -> Tensor:
        """Logits of every sample, or of some, in float32, ``(N, classes)``."""
        return self._over(network, network, index)

    def probabilities(self, networks: Sequence[nn.Module], index: Tensor | None = None) -> Tensor:
        """Mean of what networks predict of every sample, or of some, ``(N, classes)``."""
        found = [self.logits(network, index).softmax(dim=1) for network in networks]
        return torch.stack(found).mean(dim=0)

    def features(self, network: nn.Module) -> Tensor:
        """What the head of a network sees of every sample, in float32, ``(N, features)``."""
        return self._over(network, feature_extractor(network))

    def losses(self, network: nn.Module, index: Tensor | None = None) -> Tensor:
        """Cross-entropy of every sample, or of some, against its given label, ``(N,)``."""
        labels = self.labels if index is None else self.labels[index]
        logits = self._over(network, network, index)
        return F.cross_entropy(logits, labels, reduction="none")

    @torch.no_grad()
    def _over(self, network: nn.Module, part: Part, index: Tensor | None = None) -> Tensor:
        training = network.training
        network.eval()
        every = torch.arange(len(self.labels)) if index is None else index
        own = distributed.portion(len(every))
        with self._autocast():
            images = self._loader.plain(SURVEY_BATCH, every[own])
            found = [part(some).float() for some in images]
        network.train(training)
        return distributed.gather(torch.cat(found), own, len(every))
