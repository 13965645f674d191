"""Layers of a small convolutional network the way a GPU likes them; what they compute is the same.

Tensor cores want channels in multiples of 8 or 16. Weights are padded with zeros on the way into a
convolution, and what comes out of the added channels is zero: parameters, checkpoints and results
stay those of the plain layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from josrc.kernels import patches

if TYPE_CHECKING:
    from josrc.kernels import ops, tensors

# With so few channels a convolution is faster as one matrix product over the 3x3 patches: of its
# input, or for the gradient of the weights of its output.
MAX_PATCH_INPUTS, MAX_PATCH_OUTPUTS = 4, 16


# The kernels have a gradient, and the gradient has none.
_second_gradients = False
# Whether there are kernels; not known before somebody asks.
_has_kernels: bool | None = None


def has_kernels() -> bool:
    """Whether this platform has our kernels; they are imported here, as a CPU never needs them.

    Nothing is imported while a step is compiled or captured: that is prepared before.
    """
    global _has_kernels, ops, tensors
    if _has_kernels is None:
        try:
            from josrc.kernels import ops, tensors

            _has_kernels = True
        except ImportError:  # no Triton on this platform
            _has_kernels = False
    return _has_kernels


def prepare_for_replay(networks: nn.Module) -> None:
    """Let a GPU compute networks in its own way, where they have one: it pays in replayed steps."""
    has_kernels()
    for module in networks.modules():
        if hasattr(module, "prepared_for_replay"):
            setattr(module, "prepared_for_replay", True)  # noqa: B010, not a tensor for mypy


@contextmanager
def second_gradients() -> Iterator[None]:
    """Plain layers inside, for what differentiates a gradient."""
    global _second_gradients
    before, _second_gradients = _second_gradients, True
    try:
        yield
    finally:
        _second_gradients = before


def available(x: Tensor) -> bool:
    """Whether these layers can take ``x``."""
    return x.is_cuda and has_kernels() and not _second_gradients


def convolve(x: Tensor, weight: Tensor) -> Tensor:
    """3x3 convolution with padding 1; its channels are a multiple of 16, the added ones zero.

    Args:
        x: ``(batch, channels, height, width)``, channels that were added before included.
        weight: ``(outputs, inputs, 3, 3)`` of the plain layer.
    """
    outputs, inputs = weight.shape[:2]
    if inputs <= MAX_PATCH_INPUTS:
        return patches.as_product(x, F.pad(weight.flatten(1), (0, 0, 0, -outputs % 16)))
    weight = F.pad(weight, (0, 0, 0, 0, 0, x.shape[1] - inputs, 0, -outputs % 16))
    if outputs <= MAX_PATCH_OUTPUTS:
        result: Tensor = patches.few_outputs(x, weight.to(x.dtype))
        return result
    return F.conv2d(x, weight, padding=1)


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
@torch.no_grad()
def move_towards(
    targets: Sequence[Tensor], sources: Sequence[Tensor], share: float | Tensor
) -> None:
    """Move every target towards its source by a share of the way, as a mean teacher does.

    A share that changes between replayed steps is a scalar tensor.
    """
    if isinstance(share, Tensor):
        way = torch._foreach_sub(list(sources), list(targets))
        torch._foreach_mul_(way, share)
        torch._foreach_add_(list(targets), way)
        return
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
