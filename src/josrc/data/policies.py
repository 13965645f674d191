"""Strong views: AutoAugment's policy for CIFAR and RandAugment, batched on the device.

Every image goes through two operations of its own. What an operation does is what torchvision does
to a picture of PIL's, to a rounding; but shears and turns interpolate between pixels, and all that
moves pixels comes first, in one resampling: what a first move takes out of the picture a second one
may bring back. In AutoAugment's policy only ``Color`` then ``TranslateX`` stand the other way
round, and that pair gives the same picture in either order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

OPERATIONS = (
    "Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color",
    "Contrast", "Sharpness", "Posterize", "Solarize", "AutoContrast", "Equalize", "Invert",
)  # fmt: skip
NUMBER = {name: number for number, name in enumerate(OPERATIONS)}
# Cubuk et al., AutoAugment, CVPR 2019, policy for CIFAR-10: twice an operation, its probability and
# its magnitude from 0 to 9, for those that have one.
AUTOAUGMENT = (
    (("Invert", 0.1, 0), ("Contrast", 0.2, 6)),
    (("Rotate", 0.7, 2), ("TranslateX", 0.3, 9)),
    (("Sharpness", 0.8, 1), ("Sharpness", 0.9, 3)),
    (("ShearY", 0.5, 8), ("TranslateY", 0.7, 9)),
    (("AutoContrast", 0.5, 0), ("Equalize", 0.9, 0)),
    (("ShearY", 0.2, 7), ("Posterize", 0.3, 7)),
    (("Color", 0.4, 3), ("Brightness", 0.6, 7)),
    (("Sharpness", 0.3, 9), ("Brightness", 0.7, 9)),
    (("Equalize", 0.6, 0), ("Equalize", 0.5, 0)),
    (("Contrast", 0.6, 7), ("Sharpness", 0.6, 5)),
    (("Color", 0.7, 7), ("TranslateX", 0.5, 8)),
    (("Equalize", 0.3, 0), ("AutoContrast", 0.4, 0)),
    (("TranslateY", 0.4, 3), ("Sharpness", 0.2, 6)),
    (("Brightness", 0.9, 6), ("Color", 0.2, 8)),
    (("Solarize", 0.5, 2), ("Invert", 0.0, 0)),
    (("Equalize", 0.2, 0), ("AutoContrast", 0.6, 0)),
    (("Equalize", 0.2, 0), ("Equalize", 0.6, 0)),
    (("Color", 0.9, 9), ("Equalize", 0.6, 0)),
    (("AutoContrast", 0.8, 0), ("Solarize", 0.2, 8)),
    (("Brightness", 0.1, 3), ("Color", 0.7, 0)),
    (("Solarize", 0.4, 5), ("AutoContrast", 0.9, 0)),
    (("TranslateY", 0.9, 9), ("TranslateY", 0.7, 9)),
    (("AutoContrast", 0.9, 0), ("Solarize", 0.8, 3)),
    (("Equalize", 0.8, 0), ("Invert", 0.1, 0)),
    (("TranslateY", 0.7, 9), ("AutoContrast", 0.9, 0)),
)
LEVELS = 9
# RandAugment's operations are all but the last.
RANDAUGMENT = len(OPERATIONS) - 1
# What pixels are where a moved image does not reach: the colour that AutoAugment's code has.
FILL = 128.0
DRAWS = 6


@dataclass(frozen=True)
class Choice:
    """An operation for every image, each ``(batch,)``.

    Attributes:
        operation: its number in ``OPERATIONS``.
        level: how much of it, from 0 to 1.
        sign: in which direction, -1 or 1.
    """

    operation: Tensor
    level: Tensor
    sign: Tensor


def autoaugment_table(device: torch.device | None = None) -> Tensor:
    """AutoAugment's policy as numbers, ``(25, 2, 3)``: operation, probability, level from 0 to 1.

    Made before the first step: a captured step can take nothing from the host.
    """
    rows = [[[NUMBER[name], p, level / LEVELS] for name, p, level in pair] for pair in AUTOAUGMENT]
    return torch.tensor(rows, device=device)


def augment(images: Tensor, draws: Tensor, table: Tensor | None) -> Tensor:
    """Images after two operations each.

    Args:
        images: pixels from 0 to 255, ``(batch, channels, height, width)``.
        draws: numbers in [0, 1), ``(batch, 6)``.
        table: AutoAugment's policy, on the device of the images; none: RandAugment.
    """
    choices = _randaugment(draws) if table is None else _autoaugment(draws, table)
    images = moved(images.float(), choices)
    for choice in choices:
        images = recoloured(images, choice)
    return images


def _autoaugment(draws: Tensor, table: Tensor) -> list[Choice]:
    row = table[(draws[:, 0] * len(table)).long()]
    choices = []
    for place in range(2):
        number, probability, level = row[:, place].unbind(1)
        number = torch.where(draws[:, 1 + place] < probability, number, 0.0).long()
        choices.append(Choice(number, level, _sign(draws[:, 3 + place])))
    return choices


def _randaugment(draws: Tensor) -> list[Choice]:
    """Two operations at random, of any magnitude up to the largest."""
    return [
        Choice((number * RANDAUGMENT).long(), level, _sign(sign))
        for number, level, sign in (draws[:, :3].unbind(1), draws[:, 3:6].unbind(1))
    ]


def _sign(draw: Tensor) -> Tensor:
    return torch.where(draw < 0.5, -1.0, 1.0)


# --- where pixels are ----------------------------------------------------------------------------


def moved(images: Tensor, choices: list[Choice]) -> Tensor:
    """Images after the shears, shifts and turns among their operations, in one resampling."""
    height, width = images.shape[2:]
    matrix = _motion(choices[0], height, width)
    for choice in choices[1:]:
        matrix = matrix @ _motion(choice, height, width)
    grid = F.affine_grid(matrix[:, :2], list(images.shape), align_corners=False)
    seen = F.grid_sample(images - FILL, grid, padding_mode="zeros", align_corners=False) + FILL
    # Fractions are cut off, as PIL does; a hair below a whole number is that number.
    return seen.add(0.02).floor().contiguous(memory_format=torch.channels_last)


def _motion(choice: Choice, height: int, width: int) -> Tensor:
    """From places of the result to places of the image, ``(batch, 3, 3)``, both from -1 to 1."""
    operation, level, sign = choice.operation, choice.level, choice.sign
    zero, one = torch.zeros_like(level), torch.ones_like(level)

    def only(name: str, amount: Tensor) -> Tensor:
        return torch.where(operation == NUMBER[name], amount * sign, zero)

    def shift(name: str, side: int) -> Tensor:
        """Whole pixels, up to 150 of 331."""
        return only(name, (level * (150 / 331 * side) + 1e-4).floor() * (2 / side))

    # A shear holds the first row, or column; a turn the middle.
    right, down = only("ShearX", -0.3 * level), only("ShearY", -0.3 * level)
    angle = only("Rotate", -math.radians(30) * level)
    cos, sin, ratio = angle.cos(), angle.sin(), height / width
    rows = [
        [cos, (sin - right) * ratio, -right * ratio - shift("TranslateX", width)],
        [(-sin - down) / ratio, cos, -down / ratio - shift("TranslateY", height)],
        [zero, zero, one],
    ]
    return torch.stack([torch.stack(row, dim=1) for row in rows], dim=1)


# --- what colour they have -----------------------------------------------------------------------


def recoloured(images: Tensor, choice: Choice) -> Tensor:
    """Images of whole numbers, each after its change of colours, if its operation is one."""
    operation, level = choice.operation.view(-1, 1, 1, 1), choice.level.view(-1, 1, 1, 1)
    factor = 1 + 0.9 * level * choice.sign.view(-1, 1, 1, 1)
    grey = _grey(images)
    changed = {
        "Brightness": _blend(torch.zeros_like(images), images, factor),
        "Color": _blend(grey, images, factor),
        "Contrast": _blend((grey.mean(dim=(2, 3), keepdim=True) + 0.5).floor(), images, factor),
        "Sharpness": _blend(_smooth(images), images, factor),
        "Posterize": _posterised(images, torch.exp2((4 * level).round())),
        "Solarize": torch.where(images < 255 * (1 - level), images, 255 - images),
        "AutoContrast": _stretched(images),
        "Equalize": equalised(images),
        "Invert": 255 - images,
    }
    result = images
    for name, candidate in changed.items():
        result = torch.where(operation == NUMBER[name], candidate, result)
    return result


def _blend(plain: Tensor, images: Tensor, factor: Tensor) -> Tensor:
    """From ``plain`` at 0 over the image at 1 and beyond; fractions are cut off, as PIL does."""
    return (plain + factor * (images - plain)).floor().clamp(0, 255)


def _grey(images: Tensor) -> Tensor:
    """Brightness as PIL weighs the colours; of other than three channels their mean."""
    if images.shape[1] != 3:
        return (images.mean(dim=1, keepdim=True) + 0.5).floor()
    red, green, blue = images.split(1, dim=1)
    weighed: Tensor = 19595 * red + 38470 * green + 7471 * blue + 32768
    grey: Tensor = (weighed / 65536).floor()
    return grey


def _smooth(images: Tensor) -> Tensor:
    """PIL's smoothing: of 13 parts the pixel itself counts 5; the border stays."""
    mean: Tensor = (F.avg_pool2d(images, 3, stride=1, padding=1) * 9 + 4 * images) / 13
    inside = torch.zeros_like(images[:1, :1], dtype=torch.bool)
    inside[:, :, 1:-1, 1:-1] = True
    return torch.where(inside, (mean + 0.5 + 1e-4).floor(), images)


def _posterised(images: Tensor, step: Tensor) -> Tensor:
    return (images / step).floor() * step


def _stretched(images: Tensor) -> Tensor:
    low, high = images.amin(dim=(2, 3), keepdim=True), images.amax(dim=(2, 3), keepdim=True)
    stretched = ((images - low) * (255 / (high - low).clamp(min=1)) + 1e-4).floor()
    return torch.where(high > low, stretched, images)


def equalised(images: Tensor) -> Tensor:
    """Every channel with an even histogram, with PIL's roundings."""
    batch, channels, height, width = images.shape
    values = images.long().clamp(0, 255).reshape(batch * channels, height * width)
    counts = torch.zeros(len(values), 256, device=images.device)
    counts.scatter_add_(1, values, torch.ones_like(values, dtype=counts.dtype))
    last = counts.gather(1, values.amax(dim=1, keepdim=True))
    step = ((height * width - last) / 255).floor()
    before = counts.cumsum(dim=1) - counts
    table = ((before + (step / 2).floor()) / step.clamp(min=1)).floor().clamp(0, 255)
    found = torch.where(step > 0, table.gather(1, values), values.to(table.dtype))
    return found.view(batch, channels, height, width).contiguous(memory_format=torch.channels_last)
