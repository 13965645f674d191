"""Sketches: a picture in 432 bytes, by which one that was saved again or cropped is found again.

A sketch is the whole picture squeezed into a small square, in brightness and two colour values. A
window is a part of it. A crop of a picture looks like one of the picture's windows, whatever else
was done to it, so the windows of one sketch are compared with the whole of another.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from josrc.data.images import Pixels

# Height and width of a sketch, and its bytes. Ours, as are all numbers here.
SIDE = 12
SKETCH_BYTES = SIDE * SIDE * 3
# Sketches of images, ``(N, SIDE, SIDE, 3)``: brightness and two colour values.
Sketches = NDArray[np.uint8]
# Cells per side by which brightness and colour of a window are described.
CELLS, COLOUR_CELLS = 6, 3
# Colour counts this much more than brightness: few pictures that look alike share their colours.
COLOUR_WEIGHT = 2.0
# Contrast (of 255) below which windows get less and less alike: noise is all that they show.
FAINT = 0.1
# Sizes of windows along an axis, the step between two of one size, and how far width and height of
# a window may be apart. They find crops of down to 0.6 of each side.
SIZES, STEP, STRETCH = (1.0, 0.85, 0.7), 0.1, 1.35


class Window(NamedTuple):
    """A part of a picture, in shares of its width and height."""

    left: float
    top: float
    width: float
    height: float


def sketch(picture: Image.Image) -> bytes:
    """The sketch of a picture in RGB."""
    size = (SIDE, SIDE)
    if picture.size != size:
        picture = picture.resize(size, Image.Resampling.BILINEAR, reducing_gap=2.0)
    return picture.convert("YCbCr").tobytes()


def sketches_of(content: bytes | bytearray) -> Sketches:
    """Sketches that stand one behind the other, ``(N, SIDE, SIDE, 3)``."""
    return np.frombuffer(content, dtype=np.uint8).reshape(-1, SIDE, SIDE, 3)


def sketches_of_pixels(pixels: Pixels) -> Sketches:
    """Sketches of images in memory, grey or in colour."""
    pictures = (Image.fromarray(image.squeeze()).convert("RGB") for image in pixels)
    return sketches_of(b"".join(map(sketch, pictures)))


def _places() -> list[tuple[float, float]]:
    """Where windows begin along an axis, and how long they are; the whole axis comes first."""
    found = []
    for size in SIZES:
        steps = int(np.ceil(round((1 - size) / STEP, 6)))
        starts = np.linspace(0, 1 - size, steps + 1) if steps else [0.0]
        found += [(float(start), size) for start in starts]
    return found


def _averages(start: float, size: float, cells: int) -> Tensor:
    """How much each pixel along an axis counts in each cell of a window, ``(cells, SIDE)``."""
    edges = SIDE * np.linspace(start, start + size, cells + 1)
    pixel = np.arange(SIDE)
    shared = np.minimum(edges[1:, None], pixel + 1) - np.maximum(edges[:-1, None], pixel)
    weight = shared.clip(0)
    return torch.tensor(weight / weight.sum(axis=1, keepdims=True), dtype=torch.float32)


_PLACES = _places()
_CHOSEN = [
    (row, column)
    for row, (_, height) in enumerate(_PLACES)
    for column, (_, width) in enumerate(_PLACES)
    if 1 / STRETCH <= width / height <= STRETCH
]
_ROWS, _COLUMNS = (torch.tensor(numbers) for numbers in zip(*_CHOSEN, strict=True))
# All windows that are looked at; the first is the whole picture.
WINDOWS = [
    Window(_PLACES[column][0], _PLACES[row][0], _PLACES[column][1], _PLACES[row][1])
    for row, column in _CHOSEN
]
_BY_CELLS = {
    cells: torch.stack([_averages(start, size, cells) for start, size in _PLACES])
    for cells in (CELLS, COLOUR_CELLS)
}


class Descriptions(NamedTuple):
    """What windows look like: vectors of unit length, but for faint ones, in two halves.

    Two windows are as alike as the product of their vectors. That of a mirrored window has the same
    first half, and the second with the other sign.

    Attributes:
        even: what a window shares with its mirror image, ``(..., EVEN)``.
        odd: in what it differs, ``(..., ODD)``.
    """

    even: Tensor
    odd: Tensor


def describe_windows(sketches: Sketches, whole: bool = False) -> Descriptions:
    """Describe all windows of some sketches, ``(N, windows, ...)``.

    Args:
        sketches: ``(N, SIDE, SIDE, 3)``.
        whole: describe the whole pictures alone.
    """
    chosen = slice(1 if whole else None)
    values = torch.tensor(sketches, dtype=torch.float32).permute(3, 0, 1, 2)
    light = _cells(values[:1], CELLS, chosen)
    light = light - light.mean(dim=(3, 4), keepdim=True)
    colour = _cells(values[1:] - 128, COLOUR_CELLS, chosen) * COLOUR_WEIGHT
    even, odd = zip(_halves(light), _halves(colour), strict=True)
    halves = torch.cat(even, dim=-1), torch.cat(odd, dim=-1)
    scale = 1 / (torch.cat(halves, dim=-1).norm(dim=-1, keepdim=True) + FAINT)
    return Descriptions(halves[0] * scale, halves[1] * scale)


def _cells(values: Tensor, cells: int, chosen: slice) -> Tensor:
    """Means of the cells of each window, ``(channels, N, windows, cells, cells)``."""
    matrix = _BY_CELLS[cells]
    rows, columns = _ROWS[chosen], _COLUMNS[chosen]
    across = torch.einsum("cnij,whj->cnwih", values, matrix)[:, :, columns]
    return torch.einsum("wgi,cnwih->cnwgh", matrix[rows], across) / cells


def _halves(cells: Tensor) -> tuple[Tensor, Tensor]:
    """What stays and what changes its sign if left and right change places, a vector each."""
    half = (cells.shape[-1] + 1) // 2
    mirrored = cells.flip(-1)
    # A pair of cells counts twice and a column in the middle once.
    weight = torch.full((half,), 0.5**0.5)
    if cells.shape[-1] % 2:
        weight[-1] = 0.5
    even = (cells + mirrored)[..., :half] * weight
    odd = (cells - mirrored)[..., : cells.shape[-1] // 2] * 0.5**0.5
    return even.permute(1, 2, 0, 3, 4).flatten(2), odd.permute(1, 2, 0, 3, 4).flatten(2)
