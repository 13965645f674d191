"""Images that stay in their files: the same batches as from memory, in order, and no growth."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import josrc
from josrc.config import RunConfig, ViewConfig
from josrc.data.loaders import Batch, EvaluationSet, Loader, Needs, ResidentLoader, loader_for
from josrc.data.prepare import prepare_source
from josrc.data.registry import describe_data, open_source
from josrc.data.source import Source
from josrc.data.staging import Staging
from josrc.data.views import Normalise, create_view
from josrc.errors import UserError
from josrc.methods.standard import StandardSettings

CPU = torch.device("cpu")
PLENTY = 2**40


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """47 small pictures of two classes; each holds its number."""
    for number in range(47):
        path = tmp_path / "images" / ("cat", "dog")[number % 2] / f"{number:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 256, (20, 26, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path)
    return tmp_path / "images"


def source_of(folder: Path, *, free: int = PLENTY, known: Any = None, **settings: Any) -> Source:
    data = describe_data(str(folder), **settings)
    config = RunConfig.model_validate(
        {"data": data, "method": StandardSettings(), "model": {"image_size": 14}}
    )
    return prepare_source(open_source(data), config, free_memory=free, known=known)


def loader_of(source: Source, batch_size: int = 8, views: int = 2, **view: Any) -> Loader:
    made = create_view(ViewConfig(pad=0, **view), source.size, views)
    normalise = Normalise(source.spec, 14, CPU)
    needs, sizes = Needs(views), {"batch_size": batch_size, "workers": 2}
    return loader_for(source)(source, needs, made, normalise, CPU, **sizes)


def batches(loader: Loader, seed: int = 1, epoch: int = 0, position: int = 0) -> Iterator[Batch]:
    loader.begin_epoch(seed, epoch, position)
    for size in loader.sizes(position):
        loader.prepare(size)
        yield loader.fetch(size)
        loader.cursor += size


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


def test_small_sets_stay_in_memory_and_large_ones_do_not(folder: Path) -> None:
    needed = 47 * 16 * 16 * 3
    assert source_of(folder, free=4 * needed).images.in_memory
    assert not source_of(folder, free=4 * needed - 4).images.in_memory


def test_pictures_and_paths_stay_with_their_samples(folder: Path) -> None:
    (folder / "cat" / "00.png").write_bytes(b"broken")
    for resident in (True, False):
        source = source_of(folder, resident=resident, val=0.2)
        assert source.val is not None
        for part in (source, source.val):
            for index in (0, len(part) - 1):
                number = int(Path(part.paths[index]).stem)
                pixels = np.random.default_rng(number).integers(0, 256, (20, 26, 3), dtype=np.uint8)
                assert np.array_equal(np.asarray(part.images.picture(index)), pixels)
                assert part.ids[index] == f"{('cat', 'dog')[number % 2]}/{number:02}.png"
                assert part.given[index] == number % 2


@pytest.mark.parametrize("resident", [True, False])
def test_bad_files_are_left_out_with_a_reason(folder: Path, resident: bool) -> None:
    whole = source_of(folder, resident=resident)
    (folder / "cat" / "04.png").write_bytes(b"")
    (folder / "dog" / "notes").write_text("not a dog")
    source = source_of(folder, resident=resident)
    assert source.skipped == (
        (str(folder / "cat" / "04.png"), "the file is empty"),
        (str(folder / "dog" / "notes"), "not an image of a known format"),
    )
    kept = [index for index, name in enumerate(whole.ids) if name != "cat/04.png"]
    assert list(source.ids) == [whole.ids[index] for index in kept]
    index = np.arange(len(source))
    np.testing.assert_array_equal(source.images.tiles(index), whole.images.tiles(np.array(kept)))
    np.testing.assert_array_equal(source.given, whole.given[kept])


@pytest.mark.parametrize("resident", [True, False])
def test_a_pipe_among_the_images_is_left_out_and_a_link_is_not(
    folder: Path, tmp_path: Path, resident: bool
) -> None:
    (folder / "cat" / "00.png").rename(tmp_path / "elsewhere.png")
    (folder / "cat" / "00.png").symlink_to(tmp_path / "elsewhere.png")
    os.mkfifo(folder / "dog" / "pipe.png")
    (folder / "dog" / "zeros.png").symlink_to("/dev/zero")
    source = source_of(folder, resident=resident)
    reason = "not a regular file: a pipe, a socket or a device"
    assert source.skipped == (
        (str(folder / "dog" / "pipe.png"), reason),
        (str(folder / "dog" / "zeros.png"), reason),
    )
    assert "cat/00.png" in list(source.ids)


def test_a_resumed_run_looks_for_no_bad_files_but_leaves_out_those_it_left_out(
    folder: Path,
) -> None:
    first = source_of(folder, resident=False)
    source = source_of(folder, resident=False, known=[str(folder / "cat" / "02.png")])
    assert list(source.ids) == [name for name in first.ids if name != "cat/02.png"]
    (folder / "dog" / "03.png").unlink()
    (folder / "dog" / "03.png").write_bytes(b"")
    with pytest.raises(UserError, match=r"03\.png could be read before: now the file is empty"):
        source_of(folder, resident=True, known=[])


def test_more_than_a_few_bad_files_stop_the_run(folder: Path) -> None:
    for number in (0, 2, 4):
        (folder / "cat" / f"{number:02}.png").write_bytes(b"junk")
    message = r"3 of 47 files could not be read, more than 5%(.|\n)*3 times: not an image"
    with pytest.raises(UserError, match=message):
        source_of(folder)
    assert len(source_of(folder, allow_skipped=True)) == 44


def test_a_class_without_a_readable_image_and_no_image_at_all(folder: Path) -> None:
    for path in (folder / "cat").iterdir():
        path.write_bytes(b"junk")
    with pytest.raises(UserError, match="no image of class 'cat' can be read"):
        source_of(folder, allow_skipped=True)
    for path in (folder / "dog").iterdir():
        path.write_bytes(b"junk")
    with pytest.raises(UserError, match="holds no image"):
        source_of(folder, allow_skipped=True)


def test_a_file_that_vanishes_during_training_is_named(folder: Path) -> None:
    loader = loader_of(source_of(folder, resident=False))
    (folder / "dog" / "05.png").unlink()
    with pytest.raises(UserError, match=r"05\.png can no longer be read: .*not exist"):
        list(batches(loader))


def test_noise_added_on_purpose_makes_the_labels_of_the_folder_the_truth(folder: Path) -> None:
    plain = source_of(folder)
    noisy = source_of(folder, noise="symmetric", rate=0.5)
    assert plain.true is None
    np.testing.assert_array_equal(noisy.true, plain.given)
    assert noisy.kind is not None
    assert 10 < noisy.kind.sum() < 37
    assert ((noisy.given != noisy.true) == (noisy.kind == 1)).all()


def test_memory_does_not_grow_from_epoch_to_epoch(folder: Path) -> None:
    loader = loader_of(source_of(folder, resident=False))

    def run(epochs: range) -> int:
        for epoch in epochs:
            for _ in batches(loader, epoch=epoch):
                pass
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = run(range(5))
    assert run(range(5, 40)) - before < 4096, "kilobytes"


@pytest.mark.gpu
def test_batches_reach_a_busy_device_whole_and_in_order() -> None:
    device = torch.device("cuda")
    staging, target = Staging((4, 2, 2, 3), device), torch.zeros(6, 4, 4, 3, device=device)
    seen = []
    for number in range(1, 9):
        size = 3 if number == 8 else 4  # the last of an epoch is smaller
        tiles = torch.full((size, 2, 2, 3), number, dtype=torch.uint8).pin_memory()
        staging.send(tiles, target[:size, 1:3, 1:3])
        torch.cuda._sleep(20_000_000)  # a step of some milliseconds
        seen.append(target.clone())
    for number, found in enumerate(seen, start=1):
        assert (found[:3, 1:3, 1:3] == number).all()
        assert found.sum() == (4 * number if number < 8 else 3 * 8 + 7) * 2 * 2 * 3


@pytest.mark.gpu
def test_the_host_is_never_far_ahead_of_the_device() -> None:
    device = torch.device("cuda")
    staging, target = Staging((4, 2, 2, 3), device), torch.zeros(4, 2, 2, 3, device=device)
    steps = []
    for number in range(6):
        staging.send(torch.zeros(4, 2, 2, 3, dtype=torch.uint8).pin_memory(), target)
        ended = [step.query() for step in steps]
        assert all(ended[: max(0, number - Staging.AHEAD)])
        torch.cuda._sleep(20_000_000)
        steps.append(torch.cuda.Event())
        steps[-1].record()


@pytest.mark.gpu
def test_a_captured_step_reads_each_batch_of_files(folder: Path, tmp_path: Path) -> None:
    # With workers: another thread pins what they send, also while a step is captured.
    options = {"epochs": 6, "batch_size": 8, "engine": "captured", "method": "josrc", "workers": 2}
    runs = []
    for resident in (True, False):
        settings = {"data.resident": resident}
        out = tmp_path / str(resident)
        runs.append(josrc.train(str(folder), out=out, settings=settings, **options).metrics)
    for memory, files in zip(*runs, strict=True):
        assert files["loss"] == pytest.approx(memory["loss"], rel=0.02)
        assert abs(files["n_clean"] - memory["n_clean"]) <= 3


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
