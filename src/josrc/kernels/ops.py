"""The kernels as PyTorch operators: they have gradients, and the compiler leaves them whole."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from josrc.kernels import batch_norm


@torch.library.custom_op("josrc::norm_relu", mutates_args=())
def norm_relu(
    x: Tensor, weight: Tensor, bias: Tensor, eps: float, pool: bool
) -> tuple[Tensor, Tensor]:
    """See ``batch_norm.forward``."""
    return batch_norm.forward(_pack(x), weight, bias, eps, pool)


@norm_relu.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor, eps: float, pool: bool) -> tuple[Tensor, Tensor]:
    return batch_norm.empty_result(x, pool), weight.new_empty(5, x.shape[1])


@torch.library.custom_op("josrc::norm_relu_backward", mutates_args=())
def norm_relu_backward(
    gradient: Tensor, x: Tensor, table: Tensor, pool: bool
) -> tuple[Tensor, Tensor]:
    """See ``batch_norm.backward``."""
    return batch_norm.backward(_pack(gradient), _pack(x), table, pool)


@norm_relu_backward.register_fake
def _(gradient: Tensor, x: Tensor, table: Tensor, pool: bool) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), table.new_empty(2, x.shape[1])


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, weight, _, _, ctx.pool = inputs
    ctx.save_for_backward(x, output[1])
    ctx.normed = len(weight)


def _backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    x, table = ctx.saved_tensors
    result, totals = norm_relu_backward(gradient, x, table, ctx.pool)
    of_weight, of_bias = totals[:, : ctx.normed]
    return result, of_weight, of_bias, None, None


norm_relu.register_autograd(_backward, setup_context=_remember)


@torch.library.custom_op("josrc::scale_relu", mutates_args=())
def scale_relu(x: Tensor, table: Tensor, pool: bool) -> Tensor:
    """See ``batch_norm.apply``."""
    return batch_norm.apply(_pack(x), table, pool)


@scale_relu.register_fake
def _(x: Tensor, table: Tensor, pool: bool) -> Tensor:
    return batch_norm.empty_result(x, pool)


def _pack(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)
