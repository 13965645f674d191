"""Layers of a small convolutional network the way a GPU likes them; what they compute is the same.

Tensor cores want channels in multiples of 8 or 16. Weights are padded with zeros on the way into a
convolution, and what comes out of the added channels is zero: parameters, checkpoints and results
stay those of the plain layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

try:
    from josrc.kernels import ops, tensors

    HAS_TRITON = True
except ImportError:  # no Triton on this platform
    HAS_TRITON = False

# With so few channels a convolution is faster as one matrix product over the 3x3 patches: of its
# input, or for the gradient of the weights of its output.
FEW_INPUTS, FEW_OUTPUTS = 4, 16


def available(x: Tensor) -> bool:
    """Whether these layers can take ``x``."""
    return HAS_TRITON and x.is_cuda


def convolve(x: Tensor, weight: Tensor) -> Tensor:
    """3x3 convolution with padding 1; its channels are a multiple of 16, the added ones zero.

    Args:
        x: ``(batch, channels, height, width)``, channels that were added before included.
        weight: ``(outputs, inputs, 3, 3)`` of the plain layer.
    """
    outputs, inputs = weight.shape[:2]
    if inputs <= FEW_INPUTS:
        return _as_product(x, F.pad(weight.flatten(1), (0, 0, 0, -outputs % 16)))
    weight = F.pad(weight, (0, 0, 0, 0, 0, x.shape[1] - inputs, 0, -outputs % 16))
    if outputs <= FEW_OUTPUTS:
        result: Tensor = _FewOutputs.apply(x, weight.to(x.dtype))
        return result
    return F.conv2d(x, weight, padding=1)


def _as_product(x: Tensor, weight: Tensor) -> Tensor:
    patches = _patches(x)
    extra = -patches.shape[3] % 8
    product = F.linear(F.pad(patches, (0, extra)), F.pad(weight, (0, extra)))
    return product.permute(0, 3, 1, 2)


def _patches(x: Tensor) -> Tensor:
    """The 3x3 neighbourhood of every pixel, ``(batch, height, width, channels * 9)``."""
    framed = F.pad(x, (1, 1, 1, 1)).permute(0, 2, 3, 1)
    return framed.unfold(1, 3, 1).unfold(2, 3, 1).flatten(3)


class _FewOutputs(torch.autograd.Function):
    """A 3x3 convolution with few outputs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return F.conv2d(x, weight, padding=1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        ones, outputs, inputs = [1, 1], gradient.shape[1], x.shape[1]
        of_x = torch.ops.aten.convolution_backward(
            gradient, x, weight, None, ones, ones, ones, False, [0, 0], 1, [True, False, False]
        )[0]
        # Output (h, w) saw input (h + i - 1, w + j - 1): from the input's side the offsets turn.
        pixels = x.permute(0, 2, 3, 1).reshape(-1, inputs)
        product = pixels.t() @ _patches(gradient).reshape(-1, outputs * 9)
        of_weight = product.view(inputs, outputs, 3, 3).flip(2, 3).transpose(0, 1)
        return of_x, of_weight


def norm_relu(x: Tensor, norm: nn.BatchNorm2d, pool: bool) -> tuple[Tensor, Tensor]:
    """Batch norm, ReLU and, with ``pool``, 2x2 max pool; and the statistics used, ``(5, C)``.

    In training mode the running statistics are left to ``update_running``.
    """
    if norm.training:
        y, table = ops.norm_relu(x, norm.weight, norm.bias, norm.eps, pool)
        return y, table
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
    shift = norm.bias - norm.running_mean * scale
    rows = [norm.running_mean, norm.running_var, scale, shift, norm.running_var]
    table = F.pad(torch.stack(rows), (0, x.shape[1] - norm.num_features))
    return ops.scale_relu(x, table, pool), table


@torch.no_grad()
def update_running(
    norms: Sequence[nn.BatchNorm2d], tables: Sequence[Tensor], counts: Sequence[int]
) -> None:
    """Move the running statistics of all layers at once.

    Args:
        norms: the layers.
        tables: what ``norm_relu`` returned for them.
        counts: over how many values each took its statistics.
    """
    running: list[Tensor] = []
    found: list[Tensor] = []
    tracked: list[Tensor] = []
    for norm, table, count in zip(norms, tables, counts, strict=True):
        assert norm.running_mean is not None
        assert norm.running_var is not None
        assert norm.num_batches_tracked is not None
        unbiased = table[4, : norm.num_features] * (count / (count - 1))
        running += [norm.running_mean, norm.running_var]
        found += [table[0, : norm.num_features], unbiased]
        tracked.append(norm.num_batches_tracked)
    assert norms[0].momentum is not None
    torch._foreach_lerp_(running, found, norms[0].momentum)
    torch._foreach_add_(tracked, 1)


@torch.no_grad()
def move_towards(targets: Sequence[Tensor], sources: Sequence[Tensor], share: float) -> None:
    """Move every target towards its source by a share of the way, as a mean teacher does."""
    alike = all(
        t.dtype == s.dtype == torch.float32 and t.stride() == s.stride()
        for t, s in zip(targets, sources, strict=True)
    )
    if not alike or not available(targets[0]):
        torch._foreach_lerp_(list(targets), list(sources), share)
        return
    key = tuple((t.data_ptr(), t.numel()) for t in (*targets, *sources))
    if key not in _LISTS:
        _LISTS[key] = tensors.TensorLists(targets, sources)
    tensors.lerp(_LISTS[key], share)


# By address and size; they hold no tensor.
_LISTS: dict[tuple[tuple[int, int], ...], tensors.TensorLists] = {}
