"""One kernel over many tensors: Adam's update, and the running average of a network's weights.

PyTorch's kernels of this kind give 65,536 numbers to each thread block: a network of a million
weights keeps a dozen of the 132 multiprocessors of a large GPU busy. Here a block gets 1,024.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

CHUNK = 1024


@triton.jit
def _chunk(chunks, CHUNK: tl.constexpr):
    """Which tensor a program works on, and where in it: rows of ``chunks`` (tensor, start, end)."""
    entry = chunks + 3 * tl.program_id(0)
    start, end = tl.load(entry + 1), tl.load(entry + 2)
    place = start + tl.arange(0, CHUNK)
    return tl.load(entry), place, place < end


@triton.jit
def _of(addresses, tensor):
    return tl.load(addresses + tensor).to(tl.pointer_type(tl.float32))


@triton.jit
def _adam(
    chunks, weights, gradients, means, squares, step, lr, beta1, beta2, log_beta2, eps, decay,
    CHUNK: tl.constexpr,
):  # fmt: skip
    tensor, place, here = _chunk(chunks, CHUNK)
    weight_at, mean_at = _of(weights, tensor) + place, _of(means, tensor) + place
    square_at = _of(squares, tensor) + place
    weight = tl.load(weight_at, mask=here)
    gradient = tl.load(_of(gradients, tensor) + place, mask=here) + decay * weight
    first = tl.load(beta1)
    mean = first * tl.load(mean_at, mask=here) + (1 - first) * gradient
    square = beta2 * tl.load(square_at, mask=here) + (1 - beta2) * gradient * gradient
    # In float64: at the first steps beta2's power is close to 1.
    count = tl.load(step).to(tl.float64)
    of_mean = 1 - tl.exp(count * tl.log(first.to(tl.float64)))
    of_square = 1 - tl.exp(count * log_beta2)
    size = (tl.load(lr).to(tl.float64) / of_mean).to(tl.float32)
    spread = tl.sqrt(square) / tl.sqrt(of_square).to(tl.float32) + eps
    tl.store(mean_at, mean, mask=here)
    tl.store(square_at, square, mask=here)
    tl.store(weight_at, weight - size * mean / spread, mask=here)


@triton.jit
def _lerp(chunks, targets, sources, share, CHUNK: tl.constexpr):
    tensor, place, here = _chunk(chunks, CHUNK)
    target_at = _of(targets, tensor) + place
    target = tl.load(target_at, mask=here)
    source = tl.load(_of(sources, tensor) + place, mask=here)
    tl.store(target_at, target + share * (source - target), mask=here)


class TensorLists:
    """Lists of tensors of the same shapes, as tables of addresses on their device."""

    # A captured graph reads the gradients' addresses from host memory of its own.
    CAPTURES = 64

    def __init__(self, *lists: Sequence[Tensor]) -> None:
        """Set up for tensors that stay where they are.

        Args:
            lists: float32 tensors without gaps, of the same shapes and strides in every list.
        """
        first = lists[0]
        self.device = first[0].device
        self.strides = [tensor.stride() for tensor in first]
        rows = [
            (place, start, tensor.numel())
            for place, tensor in enumerate(first)
            for start in range(0, tensor.numel(), CHUNK)
        ]
        self.chunks = torch.tensor(rows, dtype=torch.int32, device=self.device)
        self.addresses = [_addresses(tensors).to(self.device) for tensors in lists]
        on_gpu = self.device.type == "cuda"
        shape = (self.CAPTURES, len(first))
        self.host = torch.empty(shape, dtype=torch.int64, pin_memory=on_gpu)
        self.captures = 0

    def moving(self, tensors: Sequence[Tensor]) -> Tensor:
        """Addresses of tensors that are elsewhere every time, such as gradients."""
        if self.device.type != "cuda" or not torch.cuda.is_current_stream_capturing():
            return _addresses(tensors).to(self.device)
        # A graph replays the copy from the host: it must find the same addresses there for ever.
        host = self.host[self.captures]
        self.captures += 1
        host.copy_(_addresses(tensors))
        return host.to(self.device, non_blocking=True)


def _addresses(tensors: Sequence[Tensor]) -> Tensor:
    return torch.tensor([tensor.data_ptr() for tensor in tensors], dtype=torch.int64)


def adam(
    lists: TensorLists,
    gradients: Sequence[Tensor],
    *,
    step: Tensor,
    lr: Tensor,
    beta1: Tensor,
    beta2: float,
    eps: float,
    weight_decay: float,
) -> None:
    """Adam's update of ``lists`` (weights, means, squares); ``step`` counts this update."""
    weights, means, squares = lists.addresses
    gradients = [
        gradient if gradient.stride() == stride else _restride(gradient, stride)
        for gradient, stride in zip(gradients, lists.strides, strict=True)
    ]
    _adam[len(lists.chunks),](
        lists.chunks, weights, lists.moving(gradients), means, squares, step, lr, beta1,
        beta2, math.log(beta2), eps, weight_decay, CHUNK,
    )  # fmt: skip


def lerp(lists: TensorLists, share: float) -> None:
    """Move the tensors of the first list towards those of the second by a share of the way."""
    targets, sources = lists.addresses
    _lerp[len(lists.chunks),](lists.chunks, targets, sources, share, CHUNK)


def _restride(tensor: Tensor, stride: tuple[int, ...]) -> Tensor:
    return torch.empty_strided(tensor.shape, stride, device=tensor.device).copy_(tensor)
