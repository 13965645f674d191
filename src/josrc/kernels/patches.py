"""3x3 convolutions with few channels as matrix products over the patches of an image."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def as_product(x: Tensor, weight: Tensor) -> Tensor:
    """The convolution of an image that has few channels.

    Args:
        x: ``(batch, channels, height, width)``.
        weight: ``(outputs, channels * 9)``.
    """
    around = neighbourhoods(x)
    extra = -around.shape[3] % 8
    product = F.linear(F.pad(around, (0, extra)), F.pad(weight, (0, extra)))
    return product.permute(0, 3, 1, 2)


def neighbourhoods(x: Tensor) -> Tensor:
    """The 3x3 pixels around every pixel, ``(batch, height, width, channels * 9)``."""
    framed = F.pad(x, (1, 1, 1, 1)).permute(0, 2, 3, 1)
    return framed.unfold(1, 3, 1).unfold(2, 3, 1).flatten(3)


# An operator, and no autograd.Function: the compiler's cache has no place for the latter.
@torch.library.custom_op("josrc::few_outputs", mutates_args=())
def few_outputs(x: Tensor, weight: Tensor) -> Tensor:
    """A convolution with few outputs, the gradient of whose weights is a product."""
    return F.conv2d(x, weight, padding=1)


@few_outputs.register_fake
def _(x: Tensor, weight: Tensor) -> Tensor:
    return F.conv2d(x, weight, padding=1)


def _remember(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
    x, weight = ctx.saved_tensors
    ones, outputs, inputs = [1, 1], gradient.shape[1], x.shape[1]
    of_x = torch.ops.aten.convolution_backward(
        gradient, x, weight, None, ones, ones, ones, False, [0, 0], 1, [True, False, False]
    )[0]
    # Output (h, w) saw input (h + i - 1, w + j - 1): from the input's side the offsets turn.
    pixels = x.permute(0, 2, 3, 1).reshape(-1, inputs)
    product = pixels.t() @ neighbourhoods(gradient).reshape(-1, outputs * 9)
    of_weight = product.view(inputs, outputs, 3, 3).flip(2, 3).transpose(0, 1)
    return of_x, of_weight


few_outputs.register_autograd(_backward, setup_context=_remember)
