"""Images that stay in their files: the same batches as from memory, in order, and no growth."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from josrc.config import RunConfig
from josrc.data.loaders import Batch, EvaluationSet, ResidentLoader
from josrc.data.prepare import prepare_source
from josrc.data.registry import describe_data, open_source
from josrc.data.views import Normalise
from josrc.errors import UserError
from josrc.methods.standard import StandardSettings
from streams import CPU, PLENTY, batches, loader_of, source_of


def same(first: Batch, second: Batch) -> bool:
    return (
        torch.equal(first.index, second.index)
        and torch.equal(first.images, second.images)
        and torch.equal(first.label, second.label)
    )


@pytest.mark.parametrize(
    "view", [{}, {"crop": "resized"}, {"strong": "last"}, {"crop": "resized", "strong": "all"}]
)
def test_files_and_memory_give_the_same_batches(folder: Path, view: dict[str, str]) -> None:
    memory, files = (loader_of(source_of(folder, resident=r), **view) for r in (True, False))
    assert isinstance(memory, ResidentLoader)
    assert not isinstance(files, ResidentLoader)
    for epoch in (0, 1):
        for one, two in zip(batches(memory, epoch=epoch), batches(files, epoch=epoch), strict=True):
            assert same(one, two)
            assert one.images.shape[1:] == (3, 14, 14)


def test_a_stopped_epoch_goes_on_with_the_batches_it_would_have_had(folder: Path) -> None:
    loader = loader_of(source_of(folder, resident=False))
    whole = list(batches(loader, epoch=3))
    # The same loader gives up what its workers are decoding, as one after a restart never began.
    half_way = batches(loader, epoch=2)
    next(half_way)
    for other in (loader, loader_of(source_of(folder, resident=False))):
        rest = list(batches(other, epoch=3, position=16))
        assert len(rest) == len(whole) - 2
        assert all(same(one, two) for one, two in zip(rest, whole[2:], strict=True))


def test_views_without_chance_are_the_middle_of_the_tile(folder: Path) -> None:
    source = source_of(folder, resident=True)
    normalise = Normalise(source.spec, 14, CPU)
    seen = torch.cat(list(EvaluationSet(source.images, source.given, normalise, source.size, CPU)))
    tiles = torch.from_numpy(source.images.pixels)[:, 1:15, 1:15].permute(0, 3, 1, 2)
    torch.testing.assert_close(seen, normalise(tiles))
    files = source_of(folder, resident=False)
    streamed = EvaluationSet(files.images, files.given, normalise, files.size, CPU, workers=2)
    for _ in range(2):
        assert torch.equal(torch.cat(list(streamed)), seen)
    for loader in (loader_of(source), loader_of(files)):
        loader.begin_epoch(0, 0)
        parts = list(loader.plain(10))
        assert torch.equal(torch.cat(parts), seen)
        assert max(len(part) for part in parts) <= 10
        loader.prepare(8)  # an epoch that has begun is not disturbed
        assert torch.equal(loader.fetch(8).index, loader.order[:8])


def test_memory_does_not_grow_from_epoch_to_epoch(folder: Path) -> None:
    loader = loader_of(source_of(folder, resident=False))

    def run(epochs: range) -> int:
        for epoch in epochs:
            for _ in batches(loader, epoch=epoch):
                pass
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = run(range(5))
    assert run(range(5, 40)) - before < 4096, "kilobytes"


@pytest.fixture
def ramps(tmp_path: Path) -> Path:
    """Pictures four times as long as high, or as wide: each pixel says how far along it lies."""
    for number in range(20):
        along = np.tile(np.linspace(0, 255, 80).astype(np.uint8), (20, 1))
        path = tmp_path / "ramps" / ("cat", "dog")[number % 2] / f"{number:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(along if number % 4 < 2 else along.T).convert("RGB").save(path)
    return tmp_path / "ramps"


def test_a_whole_picture_is_seen_and_each_view_lies_elsewhere(ramps: Path) -> None:
    whole, middle = (
        loader_of(source_of(ramps, resident=False), crop=crop, flip=False)
        for crop in ("whole", "shift")
    )
    seen = {}
    for loader in (whole, middle):
        made = [b.images.mean(dim=(1, 2, 3)) for e in range(30) for b in batches(loader, epoch=e)]
        first, second = (torch.cat([m.chunk(2)[view] for m in made]) for view in (0, 1))
        seen[loader] = torch.cat([first, second])
        assert (first - second).abs().mean() > 0
    # Of what lies along the ramp the middle square shows a quarter, whole pictures all.
    spans = [float(values.max() - values.min()) for values in seen.values()]
    assert spans[0] > 6 * spans[1]
    # Every place is as likely: quarters of the way hold a quarter of the views each.
    place = (seen[whole] - seen[whole].min()) / (seen[whole].max() - seen[whole].min())
    shares = torch.histc(place, 4, 0, 1) / len(place)
    assert shares.sub(0.25).abs().max() < 0.04


def test_whole_pictures_come_alike_after_a_stop_and_not_from_memory(ramps: Path) -> None:
    source = source_of(ramps, resident=False)
    every = list(batches(loader_of(source, crop="whole"), epoch=2))
    rest = list(batches(loader_of(source, crop="whole"), epoch=2, position=8))
    assert all(same(one, two) for one, two in zip(rest, every[1:], strict=True))
    data = describe_data(str(ramps), resident=True)
    config = RunConfig.model_validate(
        {"data": data, "method": StandardSettings(), "views": {"crop": "whole"}}
    )
    with pytest.raises(UserError, match=r"views\.crop=whole"):
        prepare_source(open_source(data), config, free_memory=PLENTY)
