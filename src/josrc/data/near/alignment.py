"""Whether two pictures show the same: one is laid over the other, and then they are compared.

What differs in scale, place, brightness or left and right is brought together first. After that a
copy differs in what saving it anew has changed, which is little and everywhere, and another
photograph in what it shows, which is much somewhere.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from josrc.data.images import Pixels
from josrc.data.near.sketches import WINDOWS, Sketches, describe_windows

# Ours, all of them. Height and width of the pictures that are read, and on what grid two of them
# are compared: a part of a picture still has as many pixels.
THUMB, GRID = 64, 32
# Blur before a picture is sampled on the grid, in its pixels.
GRID_BLUR = 0.7
# Ways to lie that are tried of each pair, the most likely ones.
TRIED = 8
# Blurs under which a window is moved, in pixels, coarse first, and steps under each.
SKETCH_BLURS, THUMB_BLURS, STEPS = (1.0, 0.5), (1.5, 0.7), 3
# Half of a window's width and height, from the smallest to the largest.
SMALLEST, LARGEST = 0.5, 1.02
# Details are what two blurs differ by, in pixels.
NOISE_BLUR, DETAIL_BLUR = 0.5, 2.0
# Blocks per side, and the blur under which each is looked at.
BLOCKS, REST_BLUR = 4, 0.7
# How well details must agree, and how well where there is doubt: where a block differs, by these
# shares of the contrast from the first doubt to no chance, or where pictures show little, as
# handwritten digits do. Chosen on the first half of CIFAR-10's training images and on digits of
# scikit-learn, the first doubt on apples and oranges of CIFAR-100: alone on white, two of them have
# their outlines in common. tools/measure_duplicates.py measures them.
LEAST_SIMILAR, LEAST_IN_DOUBT = 0.8, 0.98
SMALL_REST, LARGE_REST = 0.18, 0.42
# Pictures that show little are the same where no block differs by more than the one, and from the
# other on it takes as much as where there is most doubt.
NO_REST, POOR_REST = 0.1, 0.3
RICH, POOR = 70.0, 45.0
# Contrast (of 255) below which a picture shows nothing that could be compared.
FLAT = 4.0
Similarity = NDArray[np.float32]


class Placement(NamedTuple):
    """How the pictures of pairs may lie on each other, ``(n, ...)`` each.

    Attributes:
        swapped: the first picture is the part, and the second the one that it lies in.
        mirrored: the part is mirrored.
        centre: of the window in which it lies, x and y from -1 to 1.
        size: half of the window's width and height.
        alike: how alike they are there, by their sketches, up to 1.
    """

    swapped: Tensor
    mirrored: Tensor
    centre: Tensor
    size: Tensor
    alike: Tensor


def place(first: Sketches, second: Sketches, tried: int = TRIED) -> Placement:
    """How pairs of pictures lie on each other best, by their sketches; that many ways are tried."""
    one, two = (_planes(sketches) for sketches in (first, second))
    best: Placement | None = None
    for swapped, mirrored, window in _likely(first, second, tried):
        outer, inner = _ordered(one, two, swapped, mirrored)
        centre, size = 2 * window[:, :2] + window[:, 2:] - 1, window[:, 2:]
        centre, size = _moved(inner[:, :1], outer[:, :1], centre, size, SKETCH_BLURS)
        seen = _window(outer, centre, size)
        alike = _correlation(_centred(seen), _centred(inner))
        found = Placement(swapped, mirrored, centre, size, alike)
        best = found if best is None else _better(best, found)
    assert best is not None
    return best


def compare(first: Pixels, second: Pixels, placement: Placement) -> Similarity:
    """How much pairs of pictures show the same, from 0 to 1, ``(n,)``.

    Args:
        first: whole pictures in RGB, ``(n, THUMB, THUMB, 3)``.
        second: likewise.
        placement: how they lie on each other.
    """
    outer, inner = _ordered(_planes(first), _planes(second), placement.swapped, placement.mirrored)
    light_inner, light_outer = (
        F.avg_pool2d(planes.mean(1, keepdim=True), THUMB // GRID) for planes in (inner, outer)
    )
    centre, size = placement.centre, placement.size
    centre, size = _moved(light_inner, light_outer, centre, size, THUMB_BLURS)
    outer, inner = (_blurred(planes, GRID_BLUR) for planes in (outer, inner))
    whole = torch.zeros_like(centre), torch.ones_like(size)
    seen, part = _window(outer, centre, size, GRID), _window(inner, *whole, GRID)
    return _similarity(seen, part).numpy()


def _planes(pixels: Pixels) -> Tensor:
    return torch.tensor(pixels, dtype=torch.float32).permute(0, 3, 1, 2)


def _ordered(one: Tensor, two: Tensor, swapped: Tensor, mirrored: Tensor) -> tuple[Tensor, Tensor]:
    """The outer and the inner picture of each pair."""
    swap, mirror = (chosen[:, None, None, None] for chosen in (swapped, mirrored))
    inner = torch.where(swap, one, two)
    return torch.where(swap, two, one), torch.where(mirror, inner.flip(-1), inner)


def _better(first: Placement, second: Placement) -> Placement:
    better = second.alike > first.alike
    chosen = [
        torch.where(better.view(-1, *[1] * (new.ndim - 1)), new, old)
        for old, new in zip(first, second, strict=True)
    ]
    return Placement(*chosen)


def _likely(first: Sketches, second: Sketches, tried: int) -> list[tuple[Tensor, Tensor, Tensor]]:
    """How pairs may lie: whether swapped, whether mirrored, and in which window."""
    of_first, of_second = describe_windows(first), describe_windows(second)
    alike = []
    for outer, inner in ((of_first, of_second), (of_second, of_first)):
        even = (outer.even @ inner.even[:, 0, :, None]).squeeze(-1)
        odd = (outer.odd @ inner.odd[:, 0, :, None]).squeeze(-1)
        alike += [even + odd, even - odd]
    table = torch.stack(alike, dim=1)  # (n, 4, windows)
    table[:, 2:, 0] = -1  # the whole in the whole is there already
    chosen = table.flatten(1).topk(tried, dim=1).indices
    boxes = torch.tensor(WINDOWS)
    return [
        (way // len(WINDOWS) >= 2, way // len(WINDOWS) % 2 == 1, boxes[way % len(WINDOWS)])
        for way in chosen.unbind(1)
    ]


def _moved(
    inner: Tensor, outer: Tensor, centre: Tensor, size: Tensor, blurs: tuple[float, ...]
) -> tuple[Tensor, Tensor]:
    """Centre and size of a window moved until it shows the inner picture (Lucas and Kanade)."""
    for blur in blurs:
        soft_inner, soft_outer = _blurred(inner, blur), _blurred(outer, blur)
        shown = torch.cat((soft_outer, *_slopes(soft_outer)), dim=1)
        for _ in range(STEPS):
            step = _step(soft_inner, _window(shown, centre, size))
            size = (size + step[:, 2:]).clamp(SMALLEST, LARGEST)
            # Inside of the picture: beyond its border anything would fit.
            room = LARGEST - size
            centre = (centre + step[:, :2]).clamp(-room, room)
    return centre, size


def _step(inner: Tensor, shown: Tensor) -> Tensor:
    """How centre and size should change, ``(n, 4)``; gain and offset are fitted beside them."""
    grid = _grid(inner.shape[-1])
    seen, across, down = shown.split(inner.shape[1], dim=1)
    columns = (
        across,
        down,
        across * grid[..., 0],
        down * grid[..., 1],
        seen,
        torch.ones_like(seen),
    )
    matrix = torch.stack([column.flatten(1) for column in columns], dim=1)
    square, right = matrix @ matrix.mT, matrix @ inner.flatten(1)[:, :, None]
    ridge = 1e-3 * square.diagonal(dim1=1, dim2=2) + 1e-2
    solved: Tensor = torch.linalg.solve(square + torch.diag_embed(ridge), right)[:, :, 0]
    return (solved[:, :4] / solved[:, 4:5].clamp(min=0.2)).clamp(-0.1, 0.1)


def _window(planes: Tensor, centre: Tensor, size: Tensor, side: int | None = None) -> Tensor:
    """What windows show, in as many pixels as the whole picture has, or as are asked for."""
    places = centre[:, None, None] + size[:, None, None] * _grid(side or planes.shape[-1])
    shown: Tensor = F.grid_sample(planes, places, padding_mode="border", align_corners=False)
    return shown


@cache
def _grid(side: int) -> Tensor:
    """Where the pixels of a picture lie, x and y from -1 to 1, ``(side, side, 2)``."""
    middles = (torch.arange(side) + 0.5) * 2 / side - 1
    down, across = torch.meshgrid(middles, middles, indexing="ij")
    return torch.stack((across, down), dim=-1)


@cache
def _blur(side: int, deviation: float) -> Tensor:
    """A blur along an axis, ``(side, side)``; pixels beyond the border count for nothing."""
    pixel = torch.arange(side, dtype=torch.float32)
    weight = torch.exp(-0.5 * ((pixel - pixel[:, None]) / deviation).square())
    blur: Tensor = weight / weight.sum(dim=1, keepdim=True)
    return blur


def _blurred(planes: Tensor, deviation: float) -> Tensor:
    matrix = _blur(planes.shape[-1], deviation)
    return matrix @ planes @ matrix.mT


def _slopes(planes: Tensor) -> tuple[Tensor, Tensor]:
    """How brightness changes to the right and downwards, per half of a side."""
    down, across = torch.gradient(planes, dim=(2, 3))
    half = planes.shape[-1] / 2
    return across * half, down * half


def _centred(planes: Tensor) -> Tensor:
    """Values less their mean: of sketches that of the brightness, colours being centred at 128."""
    light, colour = planes[:, :1], planes[:, 1:]
    return torch.cat((light - light.mean(dim=(2, 3), keepdim=True), 2 * (colour - 128)), dim=1)


def _length(planes: Tensor) -> Tensor:
    return planes.flatten(1).square().sum(1).sqrt()


def _similarity(seen: Tensor, inner: Tensor) -> Tensor:
    """How well the details agree; 0 where that proves nothing."""
    detail = _correlation(_details(seen), _details(inner))
    rich = torch.maximum(_richness(_details(seen)), _richness(_details(inner)))
    rest, contrast = _rest(seen, inner)
    poor = ((RICH - rich) / (RICH - POOR)).clamp(0, 1)
    poor = poor * ((rest - NO_REST) / (POOR_REST - NO_REST)).clamp(0, 1)
    apart = ((rest - SMALL_REST) / (LARGE_REST - SMALL_REST)).clamp(0, 1)
    least = LEAST_SIMILAR + torch.maximum(poor, apart) * (LEAST_IN_DOUBT - LEAST_SIMILAR)
    proven = (detail >= least) & (rest < LARGE_REST) & (contrast >= FLAT)
    return torch.where(proven, detail.clamp(0, 1), 0)


def _rest(seen: Tensor, inner: Tensor) -> tuple[Tensor, Tensor]:
    """How much the block that differs most does, as a share of the contrast; and the contrast."""
    seen, inner = (planes - planes.mean(dim=(1, 2, 3), keepdim=True) for planes in (seen, inner))
    contrast = inner.square().mean(dim=(1, 2, 3)).sqrt()
    gain = (seen * inner).sum(dim=(1, 2, 3)) / seen.square().sum(dim=(1, 2, 3)).clamp(min=1e-6)
    rest = _blurred(inner - gain.clamp(0.3, 3)[:, None, None, None] * seen, REST_BLUR)
    blocks = F.avg_pool2d(rest.square().mean(dim=1, keepdim=True), GRID // BLOCKS).sqrt()
    return blocks.amax(dim=(1, 2, 3)) / contrast.clamp(min=1e-6), contrast


def _richness(details: Tensor) -> Tensor:
    """About how many waves it takes to draw the details: two drawings of one sign share all few."""
    power: Tensor = torch.fft.fft2(details.mean(dim=1)).abs().square().flatten(1)
    waves: Tensor = power.sum(1).square() / power.square().sum(1).clamp(min=1e-6)
    return waves


def _details(planes: Tensor) -> Tensor:
    """A picture without its large areas, and without the noise of single pixels."""
    return _blurred(planes - _blurred(planes, DETAIL_BLUR), NOISE_BLUR)


def _correlation(first: Tensor, second: Tensor) -> Tensor:
    product = (first * second).flatten(1).sum(1)
    return product / (_length(first) * _length(second)).clamp(min=1e-6)
