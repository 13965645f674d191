"""Features of a frozen backbone: computed once before the first epoch, and kept with the run.

They are part of a run's state. A resumed run reads them from its folder, so that it goes on with
the same bits on any machine; where the file is missing they are computed again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from josrc._console import duration
from josrc.config import RunConfig
from josrc.data.images import Images
from josrc.data.loaders import EvaluationSet, Needs, loader_for
from josrc.data.noise import Labels
from josrc.data.source import Source
from josrc.data.views import Normalise, PixelView, StoredView, create_view, to_store
from josrc.engine.checkpoint import load_tensors, save_tensors
from josrc.engine.state import TrainState

# Images that are decoded at once, and those that go through a backbone at once: on a CPU few, as
# what 32 of 224 pixels leave between layers is mapped again each time: two thirds of the pace.
DECODED_AT_ONCE, CPU_BATCH, GPU_BATCH = 32, 16, 256
# A longer wait is announced, once that many seconds were watched.
MIN_ANNOUNCED_SECONDS, WATCHED_SECONDS = 15, 3
# Where features go, which rows, and the normalised images that they are of.
Work = tuple[Tensor, Tensor, Tensor]


def gather_features(
    state: TrainState,
    config: RunConfig,
    source: Source,
    path: Path,
    pause: Callable[[], None],
    tell: Callable[[str], None],
) -> None:
    """Fill in the features that a run trains and tests on.

    Args:
        state: the run's; its networks hold the weights of the backbone.
        config: what is run.
        source: the images.
        path: where they are kept.
        pause: called now and then; it may end the run.
        tell: is told how long it will take, if that is long.
    """
    places = {"train": state.loader.tiles}
    for name, part in (("test", state.test_set), ("val", state.val_set)):
        if part is not None and part.tiles is not None:
            places[name] = part.tiles
    kept = load_tensors(path)[0] if path.is_file() else {}
    fitting = {name for name in places if name in kept and kept[name].shape == places[name].shape}
    for name in fitting:
        places[name].copy_(kept[name])
    missing = places.keys() - fitting
    if not missing:
        return
    total = sum(places[name].shape[:-1].numel() for name in missing)
    watch, chunk = Watch(total, tell), CPU_BATCH if state.device.type == "cpu" else GPU_BATCH
    stored = state.loader.view
    assert isinstance(stored, StoredView)
    view = to_store(create_view(config.views, source.size, device=state.device), stored)
    for place, rows, images in _work(config, source, view, places, missing):
        found = [state.features(some) for some in images.split(chunk)]
        place[rows] = torch.cat(found).to(place.dtype)
        watch.advance(len(rows))
        pause()
    if not missing & kept.keys():
        # Others of the same name are of more images than there are now: what the run has kept of
        # those that are gone could never be computed again.
        save_tensors(path, places, {"images": len(source)})


class Watch:
    """Says once how long a wait will be."""

    def __init__(self, total: int, tell: Callable[[str], None]) -> None:
        self.total, self.tell, self.done, self.told = total, tell, 0, False
        self.begun = time.monotonic()

    def advance(self, count: int) -> None:
        """Count what was done."""
        self.done += count
        seconds = time.monotonic() - self.begun
        if self.told or seconds < WATCHED_SECONDS:
            return
        self.told = True
        left = seconds * (self.total / self.done - 1)
        if left > MIN_ANNOUNCED_SECONDS:
            self.tell(f"Features of {self.total:,} views, computed once: {duration(left)} left.")


def _work(
    config: RunConfig,
    source: Source,
    view: PixelView,
    places: dict[str, Tensor],
    missing: set[str],
) -> Iterator[Work]:
    """All images whose features are missing: first without chance, then their random views."""
    device = places["train"].device
    size = config.model.image_size
    normalise = Normalise(source.spec, size, device, config.views.normalise)

    def plain(images: Images, labels: Labels, place: Tensor) -> Iterator[Work]:
        workers, begun = config.data.workers, 0
        chunks = EvaluationSet(
            images, labels, normalise, source.size, device, workers, DECODED_AT_ONCE
        )
        for chunk in chunks:
            yield place, torch.arange(begun, begun + len(chunk), device=device), chunk
            begun += len(chunk)

    if "test" in missing and source.test_images is not None and source.test_labels is not None:
        yield from plain(source.test_images, source.test_labels, places["test"])
    if "val" in missing and source.val is not None:
        yield from plain(source.val.images, source.val.given, places["val"])
    if "train" in missing:
        tiles = places["train"]
        yield from plain(source.images, source.given, tiles[:, 0])
        if tiles.shape[1] > 1:
            yield from _random_views(config, source, view, normalise, tiles[:, 1:])


def _random_views(
    config: RunConfig, source: Source, view: PixelView, normalise: Normalise, places: Tensor
) -> Iterator[Work]:
    """Random views as whole networks are trained on: a plan of the loader that does that."""
    views, device = places.shape[1], places.device
    loader = loader_for(source)(
        source,
        Needs(views=views),
        view,
        normalise,
        device,
        batch_size=DECODED_AT_ONCE,
        workers=config.data.workers,
    )
    loader.begin_epoch(config.seed, 0)
    for size in loader.sizes():
        loader.prepare(size)
        batch = loader.fetch(size)
        loader.cursor += size
        for number, images in enumerate(batch.images.chunk(views)):
            yield places[:, number], batch.index, images
