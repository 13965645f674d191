"""Features in the place of pixels: what a loader and an evaluation set are for a frozen backbone.

Steps, surveys and tests take rows of features as they take images, and a ``Classifier`` hands them
to its head as they are. So every method trains a head by the code that trains whole networks.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from josrc.data.loaders import EvaluationSet, Loader
from josrc.data.noise import Labels
from josrc.data.source import Source
from josrc.data.views import StoredView
from josrc.errors import UserError

ROWS_PER_CHUNK = 4096


def to_float(features: Tensor) -> Tensor:
    """Stored features as the head takes them."""
    return features.float()


class FeatureLoader(Loader):
    """Features of all views of all images, ``(N, stored, features)``, on the device.

    Half of the precision does: what is lost lies far below what one view differs from another.
    """

    def _open(self, source: Source, device: torch.device, workers: int | None) -> None:
        view = self.view
        assert isinstance(view, StoredView)
        shape = (len(source), view.stored, view.features)
        self.tiles = torch.zeros(shape, dtype=torch.float16, device=device)

    def plain(self, size: int, index: Tensor | None = None) -> Iterator[Tensor]:
        """Features of the middle of all images, or of some, in their order."""
        rows = self.tiles[:, 0] if index is None else self.tiles[index.to(self.tiles.device), 0]
        yield from (self.normalise(some) for some in rows.split(ROWS_PER_CHUNK))

    def refill(self, source: Source) -> None:
        """Not possible: other images have other features."""
        raise UserError(
            "Features of a frozen backbone belong to their images: start a new run "
            "for other images."
        )

    def _tiles_of(self, index: Tensor) -> Tensor:
        return index.repeat(self.needs.views)


class FeatureSet(EvaluationSet):
    """Features of images that are looked at and not trained on.

    Attributes:
        tiles: of all of them, ``(N, features)``.
    """

    tiles: Tensor

    def __init__(self, labels: Labels, features: int, device: torch.device) -> None:
        self.labels = torch.from_numpy(labels).to(device)
        self.tiles = torch.zeros(len(labels), features, dtype=torch.float16, device=device)

    def __iter__(self) -> Iterator[Tensor]:
        """Features, chunk by chunk."""
        yield from (to_float(some) for some in self.tiles.split(ROWS_PER_CHUNK))
