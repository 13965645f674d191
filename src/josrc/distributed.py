"""Several processes on one run, as torchrun starts them: which one this is, and sums over all.

Every process holds the same networks and takes its portion of every batch. What is summed over a
batch is summed over all processes (``total``), so that each of them knows the loss of the whole
batch; torch's ``DistributedDataParallel`` averages the gradients. In a run of one process all of
this does nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from josrc.errors import LostProcessError

Value = TypeVar("Value")

# The first process may read a million files before the others hear of it again. A process that
# has ended is noticed at once, whatever the patience.
PATIENCE = timedelta(hours=2)


@dataclass(frozen=True)
class Place:
    """Which process this is, of how many; on its machine, of how many there."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    local_world: int = 1


def _whoami() -> Place:
    """As torchrun tells in the environment."""
    if not launched():
        return Place()
    keys = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    return Place(*(int(os.environ[key]) for key in keys))


def launched() -> bool:
    """Whether torchrun started several processes, of which this is one."""
    return "TORCHELASTIC_RUN_ID" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1


_place = _whoami()
_store: Any = None
_joined = 0
# Samples of the present batch if it is divided among the processes, else 0.
_divided = 0


def rank() -> int:
    """The number of this process."""
    return _place.rank


def world() -> int:
    """How many processes train this run."""
    return _place.world


def is_main() -> bool:
    """Whether this is the process that writes and prints."""
    return _place.rank == 0


def local_rank() -> int:
    """The number of this process on its machine."""
    return _place.local_rank


def local_world() -> int:
    """How many processes of this run its machine has."""
    return _place.local_world


# --- beginning and end ---------------------------------------------------------------------------


@contextmanager
def joined() -> Iterator[None]:
    """Take part in the run that torchrun started; alone, do nothing."""
    global _joined
    if world() == 1:
        yield
        return
    _joined += 1  # a second run of these processes meets at a place of its own
    if not dist.is_initialized():
        store = dist.PrefixStore(f"josrc/{_joined}", _meeting_place())  # type: ignore[attr-defined]
        # Tensors in main memory go by gloo, also in a run on GPUs: it tells when a process ends.
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(
            backend, store=store, rank=rank(), world_size=world(), timeout=PATIENCE
        )
    # After an error the others may be gone: then the group is left as it is, to end with us.
    try:
        yield
        barrier()  # nobody leaves while the first one still writes
    except RuntimeError as error:
        check_lost(error, lambda: "It was not training yet, or not any more.")
        raise
    dist.destroy_process_group()


def _meeting_place() -> Any:
    """What torchrun keeps for its processes to find each other; it outlives them."""
    from torch.distributed.rendezvous import rendezvous

    global _store
    if _store is None:
        _store = next(rendezvous("env://"))[0]
    return _store


def check_lost(error: RuntimeError, then: Callable[[], str]) -> None:
    """Raise what its user should know if an error is due to another process that ended."""
    text = str(error)
    if isinstance(error, dist.DistError) or "gloo" in text or "NCCL" in text:
        # The first sentence, without its place in gloo's code.
        reason = re.sub(r"^\[.*?\] ", "", text.splitlines()[0]).split(". ")[0]
        raise LostProcessError(
            f"Another process of this run has ended or can't be reached ({reason}).\n{then()}"
        ) from None


def first_to_tell() -> bool:
    """Whether no other process has told yet why the run ends; all of them may know."""
    try:
        return bool(_meeting_place().add(f"josrc/told/{_joined}", 1) == 1)
    except RuntimeError:  # it is gone with its machine
        return True


# --- dividing ------------------------------------------------------------------------------------


def portion(count: int, unit: int = 1) -> slice:
    """This process's part of ``count`` things in a row.

    Where there are fewer than two for each process, all of them take all: batch statistics need
    two, and what everybody computes alike needs no sum.

    Args:
        count: how many things.
        unit: so many stay together; what is over goes to the last process.
    """
    units = count // unit
    if units < 2 * _place.world:
        return slice(0, count)
    start, stop = (units * place // _place.world * unit for place in (rank(), rank() + 1))
    return slice(start, count if rank() == world() - 1 else stop)


@contextmanager
def dividing(size: int, unit: int = 1) -> Iterator[None]:
    """Inside, ``total`` sums over all processes if a batch of ``size`` samples is divided."""
    global _divided
    own = portion(size, unit)
    _divided = 0 if own.stop - own.start == size else size
    try:
        yield
    finally:
        _divided = 0


def is_divided() -> bool:
    """Whether this process has a part of the present batch only."""
    return _divided > 0


def batch_size(own: int) -> int:
    """Samples of the present batch in all processes; ``own`` are those of this one."""
    return _divided or own


class _Total(torch.autograd.Function):
    """A sum over all processes.

    All of them compute the same loss from it, and each differentiates it for its own summand.
    The sum of these gradients is the gradient of the loss. ``DistributedDataParallel`` divides that
    sum by the number of processes, which is therefore put in here.
    """

    @staticmethod
    def forward(ctx: Any, own: Tensor) -> Tensor:
        summed = own.clone()
        dist.all_reduce(summed)
        return summed

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return _place.world * gradient


def total(*values: Tensor) -> tuple[Tensor, ...]:
    """Sums over the batch, each of this process's samples, summed over all processes."""
    if not is_divided():
        return values
    row = torch.cat([value.reshape(-1).to(values[0].dtype) for value in values])
    parts = _Total.apply(row).split([value.numel() for value in values])
    return tuple(part.view_as(value) for part, value in zip(parts, values, strict=True))


# --- means over a batch -------------------------------------------------------------------------


def batch_mean(values: Tensor) -> Tensor:
    """Mean over all samples, ``(...)`` of ``(batch, ...)``."""
    if not is_divided():
        return values.mean(dim=0)
    summed, count = total(values.sum(dim=0), values.new_full((), len(values)))
    return summed / count


def mean_over(values: Tensor, chosen: Tensor, at_least: float = 1.0) -> Tensor:
    """Mean of the chosen values, scalar; 0 where none is chosen.

    Args:
        values: ``(batch,)``.
        chosen: which to average, ``(batch,)``, bool or 0 and 1.
        at_least: smallest divisor.
    """
    summed, count = total((values * chosen).sum(), chosen.sum())
    return summed / count.clamp(min=at_least)


# --- putting together ----------------------------------------------------------------------------


@torch.no_grad()
def gathered(rows: Tensor, part: slice, count: int) -> Tensor:
    """All ``count`` rows, of which this process computed its ``portion``."""
    if len(rows) == count:
        return rows
    table = rows.new_zeros(count, *rows.shape[1:])
    table[part] = rows
    dist.all_reduce(table)
    return table


@torch.no_grad()
def merge_rows(table: Tensor, own: Tensor, dim: int = 0) -> None:
    """Bring every row of a table of all samples to all processes from the one that wrote it.

    Args:
        table: changed in place.
        own: which rows this process wrote, ``(N,)`` bool; no two processes wrote the same.
        dim: the dimension that counts samples.
    """
    if world() == 1:
        return
    wide = torch.int32 if table.dtype == torch.int16 else table.dtype  # NCCL knows no int16
    shape = [-1 if place == dim else 1 for place in range(table.dim())]
    written = own.int()
    summed = torch.where(own.view(shape), table, torch.zeros_like(table)).to(wide).contiguous()
    dist.all_reduce(written)
    dist.all_reduce(summed)
    table.copy_(torch.where((written > 0).view(shape), summed.to(table.dtype), table))


@torch.no_grad()
def mean_of_all(values: Tensor) -> Tensor:
    """The mean of all processes' values."""
    summed = values.clone()
    dist.all_reduce(summed)
    return summed / world()


@torch.no_grad()
def copy_from_main(values: Iterable[Tensor]) -> None:
    """Give all processes the first one's values, in place."""
    if world() == 1:
        return
    for value in values:
        dense = value.contiguous()
        dist.broadcast(dense, 0)
        value.copy_(dense)


def sums(*values: Tensor) -> Tensor:
    """Sums of some scalars over all processes."""
    row = torch.stack(values)
    if world() > 1:
        dist.all_reduce(row)
    return row


def highest(value: int) -> int:
    """The highest of all processes' numbers; it fails if one of them has ended."""
    if world() == 1:
        return value
    found = torch.tensor(value)
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return int(found)


def barrier() -> None:
    """Wait for all processes; it fails if one of them has ended."""
    highest(0)


def main_first(make: Callable[[], Value]) -> Value:
    """What each process makes, after the first one of its machine has: it may be a download."""
    early = local_rank() == 0
    value = make() if early else None
    barrier()
    return make() if value is None else value


def broadcast(make: Callable[[], Value]) -> Value:
    """What the first process makes, in all of them; it must be picklable."""
    if world() == 1:
        return make()
    found: list[Any] = [make() if is_main() else None]
    dist.broadcast_object_list(found, device=torch.device("cpu"))
    value: Value = found[0]
    return value
