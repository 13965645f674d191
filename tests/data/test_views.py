from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch.nn import functional as F

from josrc.config import ViewConfig
from josrc.data.registry import open_source
from josrc.data.views import Normalise, ResizedView, WeakView, create_view, recolour
from josrc.engine.frozen import gather_features
from josrc.engine.state import TrainState
from josrc.runs.start import configure

CPU = torch.device("cpu")


def padded(images: np.ndarray, pad: int) -> torch.Tensor:
    return F.pad(torch.from_numpy(images), (0, 0, pad, pad, pad, pad))


def slow_view(image: np.ndarray, pad: int, flip: bool, draw: np.ndarray) -> np.ndarray:
    """One view of one image ``(height, width, channels)``, pixel by pixel."""
    height, width, channels = image.shape
    top, left = int(draw[0] * (2 * pad + 1)) - pad, int(draw[1] * (2 * pad + 1)) - pad
    view = np.zeros((channels, height, width), dtype=np.uint8)
    for y in range(height):
        for x in range(width):
            from_y, from_x = y + top, x + left
            if 0 <= from_y < height and 0 <= from_x < width:
                view[:, y, x] = image[from_y, from_x]
    return view[:, :, ::-1] if flip and draw[2] < 0.5 else view


@pytest.mark.parametrize("pad", [0, 1, 4])
@pytest.mark.parametrize("flip", [True, False])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_view_is_a_crop_of_the_zero_padded_image_perhaps_flipped(
    make_source, pad, flip, channels
):
    images = make_source(channels=channels).images.pixels
    index = torch.tensor([3, 0, 19, 3, 7, 7, 7, 11])
    draws = torch.rand(len(index), 3, generator=torch.Generator().manual_seed(1))
    views = WeakView(pad, flip, (6, 5))(padded(images, pad), index, draws)
    expected = [
        slow_view(images[i], pad, flip, d) for i, d in zip(index, draws.numpy(), strict=True)
    ]
    np.testing.assert_array_equal(views, expected)
    assert views.dtype == torch.uint8


def test_without_padding_and_flips_a_view_is_the_image(make_source):
    images = make_source().images.pixels
    views = WeakView(0, False, (6, 5))(padded(images, 0), torch.arange(20), torch.rand(20, 3))
    np.testing.assert_array_equal(views.permute(0, 2, 3, 1), images)


def offsets_and_flips(count: int, pad: int) -> np.ndarray:
    """Where the crops of ``count`` views of one image lie, read off the pixels of the views."""
    size = 2 * pad + 1
    # Every pixel of this image is unique, and the crop always holds its centre.
    image = np.arange(1, size * size + 1, dtype=np.uint8).reshape(1, size, size, 1)
    draws = torch.rand(count, 3, generator=torch.Generator().manual_seed(0))
    tiles, index = padded(image, pad), torch.zeros(count, dtype=torch.long)
    views = WeakView(pad, True, (size, size))(tiles, index, draws)[:, 0].numpy()
    centre = image[0, pad, pad, 0]
    found, rows, columns = np.nonzero(views == centre)
    np.testing.assert_array_equal(found, np.arange(count))
    # Right of the centre stands a larger number, unless the view is flipped or ends there.
    right = np.pad(views, ((0, 0), (0, 0), (0, 1)))[found, rows, columns + 1]
    left = np.pad(views, ((0, 0), (0, 0), (1, 0)))[found, rows, columns]
    flipped = (right == centre - 1) | (left == centre + 1)
    columns = np.where(flipped, size - 1 - columns, columns)
    return np.stack([rows, columns, flipped], axis=1)


def test_all_crops_and_both_flips_are_equally_likely():
    pad, count = 4, 32_400
    _, counts = np.unique(offsets_and_flips(count, pad), axis=0, return_counts=True)
    assert len(counts) == 2 * (2 * pad + 1) ** 2
    assert chisquare(counts).pvalue > 0.01


def test_every_sample_of_a_batch_draws_its_own_crop():
    # 128 draws out of 162 leave 89 distinct ones on average.
    assert len(np.unique(offsets_and_flips(128, pad=4), axis=0)) > 70


@pytest.mark.parametrize("pad", range(17))
def test_the_largest_number_below_one_still_crops_inside_the_padded_image(pad):
    image = np.arange(9, dtype=np.uint8).reshape(1, 3, 3, 1) + 1
    almost_one = torch.full((1, 3), float(np.nextafter(np.float32(1), np.float32(0))))
    view = WeakView(pad, True, (3, 3))(padded(image, pad), torch.tensor([0]), almost_one)
    expected = np.zeros((3, 3), dtype=np.uint8)
    expected[: max(0, 3 - pad), : max(0, 3 - pad)] = image[0, pad:, pad:, 0]
    np.testing.assert_array_equal(view[0, 0], expected)


@pytest.mark.parametrize("pad", [0, 2])
@pytest.mark.parametrize("planar", [True, False])
def test_views_and_network_inputs_lie_in_channels_last_memory(make_source, pad, planar):
    source = make_source()
    images = source.images.pixels
    if planar:  # as torchvision hands out CIFAR: channels last by shape only
        images = np.ascontiguousarray(images.transpose(0, 3, 1, 2)).transpose(0, 2, 3, 1)
    views = WeakView(pad, True, (6, 5))(padded(images, pad), torch.arange(8), torch.rand(8, 3))
    assert views.shape == (8, 3, 6, 5)
    assert views.is_contiguous(memory_format=torch.channels_last)
    assert Normalise(source.spec, None, CPU)(views).is_contiguous(memory_format=torch.channels_last)


# --- normalisation -------------------------------------------------------------------------------


def standardised(pixels: np.ndarray, mean: tuple[float, ...], std: tuple[float, ...]) -> np.ndarray:
    channel = (1, -1, 1, 1)
    return (pixels.astype(np.float64) / 255 - np.reshape(mean, channel)) / np.reshape(std, channel)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("image_size", [None, 6])
def test_images_are_standardised_channel_by_channel(make_source, channels, image_size):
    source = make_source(height=6, width=6, channels=channels)
    pixels = source.images.pixels.transpose(0, 3, 1, 2)
    images = Normalise(source.spec, image_size, CPU)(torch.from_numpy(pixels))
    assert images.dtype == torch.float32
    expected = standardised(pixels, source.mean, source.std)
    np.testing.assert_allclose(images, expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("channels", [1, 3])
def test_images_left_unstandardised_lie_between_0_and_1(make_source, channels):
    source = make_source(channels=channels)
    pixels = source.images.pixels.transpose(0, 3, 1, 2)
    images = Normalise(source.spec, None, CPU, standardise=False)(torch.from_numpy(pixels))
    np.testing.assert_allclose(images, pixels / 255, rtol=0, atol=1e-6)


def interpolated(image: np.ndarray, size: int) -> np.ndarray:
    """Bilinear interpolation of ``(height, width)`` between pixel centres."""
    ranges = []
    for length in image.shape:
        place = np.clip((np.arange(size) + 0.5) * length / size - 0.5, 0, length - 1)
        low = np.floor(place).astype(int)
        ranges.append((low, np.minimum(low + 1, length - 1), place - low))
    (top, bottom, down), (left, right, along) = ranges
    rows = image[top] * (1 - down)[:, None] + image[bottom] * down[:, None]
    return rows[:, left] * (1 - along) + rows[:, right] * along


@pytest.mark.parametrize("size", [5, 6, 12, 32])
def test_images_of_another_size_are_resized(make_source, size):
    source = make_source(count=2)
    pixels = source.images.pixels.transpose(0, 3, 1, 2)
    images = Normalise(source.spec, size, CPU)(torch.from_numpy(pixels))
    assert images.shape == (2, 3, size, size)
    flat = standardised(pixels, source.mean, source.std)
    expected = [[interpolated(channel, size) for channel in image] for image in flat]
    np.testing.assert_allclose(images, expected, rtol=0, atol=1e-5)


# --- other views ---------------------------------------------------------------------------------


def test_a_resized_crop_of_everything_is_the_image_or_its_mirror() -> None:
    tiles = torch.randint(0, 256, (2, 6, 6, 3), dtype=torch.uint8)
    view = ResizedView(pad=0, flip=True, size=(6, 6), area=1.0)
    # area, ratio, left, top, flip: a ratio of one is in the middle of its range
    draws = torch.tensor([[0.3, 0.5, 0.9, 0.1, 0.9], [0.3, 0.5, 0.9, 0.1, 0.1]])
    seen = view(tiles, torch.tensor([1, 1]), draws)
    image = tiles[1].permute(2, 0, 1).float()
    torch.testing.assert_close(seen[0], image, rtol=0, atol=1e-3)
    torch.testing.assert_close(seen[1], image.flip(2), rtol=0, atol=1e-3)


def test_a_resized_crop_shows_a_corner_when_told_to() -> None:
    tiles = torch.zeros(1, 8, 8, 3, dtype=torch.uint8)
    tiles[:, :4, :4] = 200  # the upper left quarter
    view = ResizedView(pad=0, flip=False, size=(4, 4), area=0.25)
    seen = view(tiles, torch.tensor([0]), torch.tensor([[0.0, 0.5, 0.0, 0.0, 0.9]]))
    torch.testing.assert_close(seen, torch.full((1, 3, 4, 4), 200.0), rtol=0, atol=1e-2)


def test_each_change_of_colour_by_hand() -> None:
    image = torch.tensor([10.0, 100.0, 250.0]).view(1, 3, 1, 1).expand(7, 3, 4, 4)
    choice = (torch.arange(7) + 0.5) / 7
    # strength 0.75: enhancements by 1.45, 8 levels fused, solarised from 63.75 on
    changed = recolour(image, choice, torch.full((7,), 0.75))[:, :, 0, 0]
    expected = [
        [10, 100, 250],
        [14.5, 145, 255],
        [0, 91, 255],  # away from the mean grey of 120
        [0, 91, 255],
        [8, 96, 248],
        [10, 155, 5],
        [10, 100, 250],  # an even area has no edges to sharpen
    ]
    torch.testing.assert_close(changed, torch.tensor(expected), rtol=0, atol=1e-3)


def test_a_strong_view_may_spare_the_first() -> None:
    tiles = torch.randint(0, 256, (4, 8, 8, 3), dtype=torch.uint8)
    weak = create_view(ViewConfig(pad=0), (6, 6), views=2)
    strong = create_view(ViewConfig(pad=0, strong="last"), (6, 6), views=2)
    index = torch.arange(4).repeat(2)
    draws = torch.rand(8, strong.draws, generator=torch.Generator().manual_seed(0))
    first, second = strong(tiles, index, draws).chunk(2)
    plain_first, plain_second = weak(tiles, index, draws).float().chunk(2)
    assert torch.equal(first, plain_first)
    assert (second != plain_second).flatten(1).any(dim=1).all()
    assert second.min() >= 0
    assert second.max() <= 255


# --- views of which features are stored ----------------------------------------------------------


@pytest.mark.parametrize(("method", "stored", "strong"), [("posterior", 4, 2), ("josrc", 4, 0)])
def test_the_strong_view_of_a_head_is_another_than_its_weak_one(
    method: str, stored: int, strong: int, tmp_path: Path
) -> None:
    layers = [{"model": {"train": "head"}, "views": {"stored": stored, "pad": 0, "flip": False}}]
    config = configure("digits-o", noise="symmetric", rate=0.2, method=method, layers=layers)
    whole = open_source(config.data)
    source = whole.take(np.arange(60))
    state = TrainState(config, source, torch.device("cpu"))
    gather_features(state, config, source, tmp_path / "kept", lambda: None, lambda text: None)
    tiles = state.loader.tiles
    # Without padding and mirroring all weak views are the image itself.
    same = (tiles == tiles[:, :1]).all(dim=2).float().mean(dim=0)
    assert same[: stored - strong].tolist() == [1.0] * (stored - strong)
    assert (same[stored - strong :] < 0.8).all()

    state.begin_epoch(config, 0)
    batch = state.loader.fetch(60)
    first, second = batch.images.chunk(2)
    weak = tiles[batch.index, 0].float()
    assert torch.equal(first, weak)
    assert torch.equal(second, weak) == (not strong)
