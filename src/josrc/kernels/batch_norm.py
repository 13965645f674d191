"""Batch norm, ReLU and an optional 2x2 max pool in one pass over channels-last images.

The compiler writes the normalised image, the pooled one and the pool's choices one after the other
and reads them back for the gradient. Here the forward pass reads the convolution's output twice
(statistics, then the result) and writes only the result; the backward pass recomputes the rest.

Images are rows of channels: ``(batch * height * width, channels)``. They may have more channels
than the norm, added for the hardware's sake: those come out as zeros and get no gradient.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

# Rows and channels of a tile, and tiles that a program asks for at once.
ROWS, CHANNELS, TILES_AT_ONCE = 128, 64, 4
# Programs that share the sums of a tensor, about two for each multiprocessor of a large GPU. Their
# parts are added up by a second kernel, for few channels at a time: all would wait for a last one.
PROGRAMS, FEW = 256, 8


@triton.jit
def _sums(
    x, parts, rows, channels, share,
    ROWS: tl.constexpr, CHANNELS: tl.constexpr, TILES_AT_ONCE: tl.constexpr,
):  # fmt: skip
    """Sum and sum of squares of each channel over a share of the rows."""
    program, column = tl.program_id(0), tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    inside = column < channels
    first = tl.zeros((ROWS, CHANNELS), tl.float32)
    second = tl.zeros((ROWS, CHANNELS), tl.float32)
    for offset in range(0, share, TILES_AT_ONCE * ROWS):
        for k in tl.static_range(TILES_AT_ONCE):
            row = program * share + offset + k * ROWS + tl.arange(0, ROWS)
            here = (row < rows)[:, None] & inside[None, :]
            place = row[:, None].to(tl.int64) * channels + column[None, :]
            value = tl.load(x + place, mask=here, other=0.0).to(tl.float32)
            first += value
            second += value * value
    tl.store(parts + 2 * program * channels + column, tl.sum(first, 0), mask=inside)
    tl.store(parts + (2 * program + 1) * channels + column, tl.sum(second, 0), mask=inside)


@triton.jit
def _add_up(parts, count, channels, column, PARTS: tl.constexpr):
    """Both sums over all programs, always in the same order: runs can be repeated to the bit."""
    part = tl.arange(0, PARTS)
    here = (part < count)[:, None] & (column < channels)[None, :]
    place = parts + 2 * part[:, None] * channels + column[None, :]
    first = tl.load(place, mask=here, other=0.0)
    second = tl.load(place + channels, mask=here, other=0.0)
    return tl.sum(first, 0), tl.sum(second, 0)


@triton.jit
def _settle(
    parts, count, rows, channels, weight, bias, normed, eps, table,
    PARTS: tl.constexpr, FEW: tl.constexpr,
):  # fmt: skip
    """Rows of ``table``: mean, inverse of the deviation, scale, shift, variance."""
    column = tl.program_id(0) * FEW + tl.arange(0, FEW)
    first, second = _add_up(parts, count, channels, column, PARTS)
    mean = first / rows
    variance = tl.maximum(second / rows - mean * mean, 0.0)
    inverse = 1.0 / tl.sqrt(variance + eps)
    real, inside = column < normed, column < channels
    scale = tl.load(weight + column, mask=real, other=0.0) * inverse
    shift = tl.load(bias + column, mask=real, other=0.0) - mean * scale
    tl.store(table + column, mean, mask=inside)
    tl.store(table + channels + column, inverse, mask=inside)
    tl.store(table + 2 * channels + column, scale, mask=inside)
    tl.store(table + 3 * channels + column, tl.where(real, shift, 0.0), mask=inside)
    tl.store(table + 4 * channels + column, variance, mask=inside)


@triton.jit
def _first_of_window(row, width, POOL: tl.constexpr):
    """The input row at the upper left of an output row's window; both sizes are even."""
    first = row.to(tl.int64)
    if POOL:
        first = (4 * (row // width) * width + 2 * (row % width)).to(tl.int64)
    return first


@triton.jit
def _apply(
    x, y, table, rows, channels, width,
    POOL: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """The result, from scale and shift; ``rows`` and ``width`` are the result's."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    inside = column < channels
    scale = tl.load(table + 2 * channels + column, mask=inside, other=0.0)[None, :]
    shift = tl.load(table + 3 * channels + column, mask=inside, other=0.0)[None, :]
    here = (row < rows)[:, None] & inside[None, :]
    place = x + _first_of_window(row, width, POOL)[:, None] * channels + column[None, :]
    best = tl.load(place, mask=here, other=0.0).to(tl.float32) * scale + shift
    if POOL:
        below = 2 * width * channels
        for k in tl.static_range(1, 4):
            other = place + (k % 2) * channels + (k // 2) * below
            value = tl.load(other, mask=here, other=0.0).to(tl.float32) * scale + shift
            best = tl.maximum(best, value)
    result = tl.maximum(best, 0.0).to(y.dtype.element_ty)
    tl.store(y + row[:, None].to(tl.int64) * channels + column[None, :], result, mask=here)


@triton.jit
def _normed(place, here, scale, shift):
    """Values before and after the norm; the latter rounded, so that ties fall as in the twin."""
    value = tl.load(place, mask=here, other=0.0).to(tl.float32)
    return value, (value * scale + shift).to(place.dtype.element_ty).to(tl.float32)


@triton.jit
def _gradient_sums(
    gradient, x, table, parts, rows, channels, width, share,
    POOL: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Sums of the gradient behind the ReLU and of its product with the centred input."""
    program, column = tl.program_id(0), tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    inside = column < channels
    mean = tl.load(table + column, mask=inside, other=0.0)[None, :]
    scale = tl.load(table + 2 * channels + column, mask=inside, other=0.0)[None, :]
    shift = tl.load(table + 3 * channels + column, mask=inside, other=0.0)[None, :]
    first = tl.zeros((ROWS, CHANNELS), tl.float32)
    second = tl.zeros((ROWS, CHANNELS), tl.float32)
    for offset in range(0, share, ROWS):
        row = program * share + offset + tl.arange(0, ROWS)
        here = (row < rows)[:, None] & inside[None, :]
        out = row[:, None].to(tl.int64) * channels + column[None, :]
        slope = tl.load(gradient + out, mask=here, other=0.0).to(tl.float32)
        place = x + _first_of_window(row, width, POOL)[:, None] * channels + column[None, :]
        winner, best = _normed(place, here, scale, shift)
        if POOL:
            below = 2 * width * channels
            for k in tl.static_range(1, 4):
                other = place + (k % 2) * channels + (k // 2) * below
                value, normed = _normed(other, here, scale, shift)
                winner = tl.where(normed > best, value, winner)
                best = tl.maximum(best, normed)
        slope = tl.where(best > 0, slope, 0.0)
        first += slope
        second += slope * (winner - mean)
    tl.store(parts + 2 * program * channels + column, tl.sum(first, 0), mask=inside)
    tl.store(parts + (2 * program + 1) * channels + column, tl.sum(second, 0), mask=inside)


@triton.jit
def _settle_gradient(
    parts, count, channels, table, totals, PARTS: tl.constexpr, FEW: tl.constexpr
):  # fmt: skip
    """Rows of ``totals``: gradient of the norm's weight, gradient of its bias."""
    column = tl.program_id(0) * FEW + tl.arange(0, FEW)
    bias, weight = _add_up(parts, count, channels, column, PARTS)
    inside = column < channels
    inverse = tl.load(table + channels + column, mask=inside, other=0.0)
    tl.store(totals + column, weight * inverse, mask=inside)
    tl.store(totals + channels + column, bias, mask=inside)


@triton.jit
def _spread(out, here, slope, value, mean, inverse, scale, each, skew):
    """Write the gradient of one input value."""
    result = scale * (slope - each - (value - mean) * inverse * skew)
    tl.store(out, result.to(out.dtype.element_ty), mask=here)


@triton.jit
def _gradient(
    gradient, x, table, totals, result, rows, channels, width, all_rows,
    POOL: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Gradient of the input; ``all_rows`` are the input's, ``rows`` the output's."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    inside = column < channels
    mean = tl.load(table + column, mask=inside, other=0.0)[None, :]
    inverse = tl.load(table + channels + column, mask=inside, other=0.0)[None, :]
    scale = tl.load(table + 2 * channels + column, mask=inside, other=0.0)[None, :]
    shift = tl.load(table + 3 * channels + column, mask=inside, other=0.0)[None, :]
    skew = tl.load(totals + column, mask=inside, other=0.0)[None, :] / all_rows
    each = tl.load(totals + channels + column, mask=inside, other=0.0)[None, :] / all_rows
    here = (row < rows)[:, None] & inside[None, :]
    start = _first_of_window(row, width, POOL)[:, None] * channels + column[None, :]
    out = row[:, None].to(tl.int64) * channels + column[None, :]
    slope = tl.load(gradient + out, mask=here, other=0.0).to(tl.float32)
    one, best = _normed(x + start, here, scale, shift)
    if POOL:
        # The first of equals wins, as in PyTorch's pool; nobody does where the ReLU cut all off.
        below = 2 * width * channels
        two, normed_two = _normed(x + start + channels, here, scale, shift)
        three, normed_three = _normed(x + start + below, here, scale, shift)
        four, normed_four = _normed(x + start + below + channels, here, scale, shift)
        top = tl.maximum(tl.maximum(best, normed_two), tl.maximum(normed_three, normed_four))
        left = tl.where(top > 0, slope, 0.0)
        slope = tl.where(best == top, left, 0.0)
        left -= slope
        given = tl.where(normed_two == top, left, 0.0)
        _spread(result + start + channels, here, given, two, mean, inverse, scale, each, skew)
        left -= given
        given = tl.where(normed_three == top, left, 0.0)
        _spread(result + start + below, here, given, three, mean, inverse, scale, each, skew)
        left -= given
        place = result + start + below + channels
        _spread(place, here, left, four, mean, inverse, scale, each, skew)
    else:
        slope = tl.where(best > 0, slope, 0.0)
    _spread(result + start, here, slope, one, mean, inverse, scale, each, skew)


# --- launching -----------------------------------------------------------------------------------


def forward(
    x: Tensor, weight: Tensor, bias: Tensor, eps: float, pool: bool
) -> tuple[Tensor, Tensor]:
    """The result and a table ``(5, channels)``: mean, inverse deviation, scale, shift, variance.

    Args:
        x: ``(batch, channels, height, width)`` in channels-last memory; height and width even if
            ``pool``.
        weight: of the norm; it may have fewer channels than ``x``.
        bias: of the norm.
        eps: added to the variance.
        pool: whether a 2x2 max pool follows.
    """
    channels, rows = x.shape[1], x.numel() // x.shape[1]
    count, share, columns = _shares(rows, channels, TILES_AT_ONCE * ROWS)
    parts, table = weight.new_empty(count, 2, channels), weight.new_empty(5, channels)
    _sums[count, columns](
        x, parts, rows, channels, share, ROWS, CHANNELS, TILES_AT_ONCE, num_warps=8
    )
    _settle[triton.cdiv(channels, FEW),](
        parts, count, rows, channels, weight, bias, len(weight), eps, table, PROGRAMS, FEW
    )
    return apply(x, table, pool), table


def apply(x: Tensor, table: Tensor, pool: bool) -> Tensor:
    """The result alone, from a table whose rows 2 and 3 are scale and shift."""
    channels, y = x.shape[1], empty_result(x, pool)
    rows, width = y.numel() // channels, y.shape[3]
    tile = ROWS // 2
    _apply[triton.cdiv(rows, tile), triton.cdiv(channels, CHANNELS)](
        x, y, table, rows, channels, width, pool, tile, CHANNELS, num_warps=8
    )
    return y


def backward(gradient: Tensor, x: Tensor, table: Tensor, pool: bool) -> tuple[Tensor, Tensor]:
    """Gradient of ``x``, and a table ``(2, channels)`` with those of weight and bias."""
    channels = x.shape[1]
    rows, width = gradient.numel() // channels, gradient.shape[3]
    tile = ROWS // 2
    count, share, columns = _shares(rows, channels, tile)
    parts, totals = table.new_empty(count, 2, channels), table.new_empty(2, channels)
    _gradient_sums[count, columns](
        gradient, x, table, parts, rows, channels, width, share, pool, tile, CHANNELS, num_warps=8
    )
    _settle_gradient[triton.cdiv(channels, FEW),](
        parts, count, channels, table, totals, PROGRAMS, FEW
    )
    result = torch.empty_like(x)
    tile = ROWS // 4 if pool else ROWS // 2  # fewer rows where more values of each are at hand
    _gradient[triton.cdiv(rows, tile), columns](
        gradient, x, table, totals, result, rows, channels, width, x.numel() // channels,
        pool, tile, CHANNELS, num_warps=8,
    )  # fmt: skip
    return result, totals


def empty_result(x: Tensor, pool: bool) -> Tensor:
    """Room for the result, in channels-last memory."""
    batch, channels, height, width = x.shape
    step = 2 if pool else 1
    return torch.empty(
        (batch, channels, height // step, width // step),
        dtype=x.dtype,
        device=x.device,
        memory_format=torch.channels_last,
    )


def _shares(rows: int, channels: int, unit: int) -> tuple[int, int, int]:
    """Programs that share the rows, rows of each (a multiple of ``unit``), columns of programs."""
    columns = triton.cdiv(channels, CHANNELS)
    share = triton.cdiv(triton.cdiv(rows * columns, PROGRAMS), unit) * unit
    return triton.cdiv(rows, share), share, columns
