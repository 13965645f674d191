"""Several processes on one run: which one this is, and sums over all.

They are a process group that is there already, as in a worker of Ray Train, or found by what
torchrun, srun or MPI say in the environment. This is decided when a run begins.

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
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from josrc._launch import Place, find_place
from josrc.errors import LostProcessError, UserError

Value = TypeVar("Value")

# The first process may look for copies among a million files before the others hear of it again. A
# process that has ended is noticed at once, whatever the patience.
TIMEOUT = timedelta(hours=2)
# Where the processes meet on MASTER_ADDR if MASTER_PORT is not set; torch's own.
DEFAULT_PORT = "29500"


# Where this process stands as long as a run goes on; none before it begins.
_place: Place | None = None
# Whether the process group is of our making.
_made = False
_store: Any = None
_joined = 0
# Samples of the present batch if it is divided among the processes, else 0.
_divided = 0


def place() -> Place:
    """Which process this is: as the run found it, or as it would now."""
    if _place is not None:
        return _place
    return _place_in_group() if _has_group() else find_place()


def _has_group() -> bool:
    return dist.is_available() and dist.is_initialized()


def _place_in_group() -> Place:
    """In a process group that somebody else has made; it does not know of machines."""
    rank, world = dist.get_rank(), dist.get_world_size()
    try:
        told = find_place()
    except UserError:  # the group is there, whatever the environment lacks
        told = Place()
    if (told.rank, told.world) == (rank, world):
        return told
    return Place(rank, world, rank, world)


def rank() -> int:
    """The number of this process."""
    return place().rank


def world() -> int:
    """How many processes train this run."""
    return place().world


def is_main() -> bool:
    """Whether this is the process that writes and prints."""
    return rank() == 0


def local_rank() -> int:
    """The number of this process on its machine."""
    return place().local_rank


def local_world() -> int:
    """How many processes of this run its machine has."""
    return place().local_world


# --- beginning and end ---------------------------------------------------------------------------


@contextmanager
def joined() -> Iterator[None]:
    """Take part in the run of several processes; alone, do nothing.

    A process group that is there already is taken as it is, and left so.
    """
    global _place, _joined
    before, _place = _place, place()
    try:
        if world() == 1:
            yield
            return
        _joined += 1  # a second run of these processes meets at a place of its own
        if not _has_group():
            _meet()
        elif not _made:
            _check_group()
        # After an error the others may be gone: then the group is left as it is, to end with us.
        try:
            yield
            barrier()  # nobody leaves while the first one still writes
        except RuntimeError as error:
            check_lost(error, lambda: "It was not training.")
            raise
        _leave()
    finally:
        _place = before


def _meet() -> None:
    """Make the process group of a run."""
    global _made
    # Tensors in main memory go by gloo, also in a run on GPUs: it tells when a process ends.
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    try:
        store = dist.PrefixStore(f"josrc/{_joined}", _meeting_place())  # type: ignore[attr-defined]
        dist.init_process_group(
            backend, store=store, rank=rank(), world_size=world(), timeout=TIMEOUT
        )
    except RuntimeError as error:
        where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        raise LostProcessError(
            f"Process {rank()} of {world()} (counted from 0) did not find the others at {where} "
            f"({_first_sentence(error)}). Check that all were started, that MASTER_ADDR is the "
            "machine of process 0, and that MASTER_PORT is free there."
        ) from None
    _made = True


def _leave() -> None:
    """End the process group, if a run has made it."""
    global _made
    if _made:
        dist.destroy_process_group()
        _made = False


def _check_group() -> None:
    """Raise an error if tensors in main memory can't be summed in the group that is there."""
    backends = dist.get_backend_config()
    if "cpu:" not in backends:
        raise UserError(
            f"The process group that is initialised here ({backends}) has no backend for tensors "
            "in main memory. Initialise it with cpu:gloo,cuda:nccl; in Ray Train: "
            'TorchConfig(backend="cpu:gloo,cuda:nccl").'
        )


def _meeting_place() -> Any:
    """Where the processes find each other: torchrun's, which outlives them, or the first one's."""
    from torch.distributed.rendezvous import rendezvous

    global _store
    if _store is None:
        os.environ.setdefault("MASTER_PORT", DEFAULT_PORT)
        _store = next(rendezvous("env://", rank(), world()))[0]
    return _store


def check_lost(error: RuntimeError, then: Callable[[], str]) -> None:
    """Raise what its user should know if an error is due to another process that ended."""
    text = str(error)
    if isinstance(error, dist.DistError) or "gloo" in text or "NCCL" in text:
        reason = _first_sentence(error)
        raise LostProcessError(
            f"Another process of this run has ended or can't be reached ({reason}).\n{then()}"
        ) from None


def _first_sentence(error: RuntimeError) -> str:
    """Of what gloo and stores say, without its place in their code."""
    return re.sub(r"^\[.*?\] ", "", str(error).splitlines()[0]).split(". ")[0]


def is_first_to_tell() -> bool:
    """Whether no other process has told yet why the run ends; all of them may know.

    Without torchrun that is known only once they have met, and as long as the first one is there.
    """
    if _store is None and "TORCHELASTIC_RUN_ID" not in os.environ:
        return True
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
        unit: that many stay together; what is over goes to the last process.
    """
    units = count // unit
    if units < 2 * world():
        return slice(0, count)
    start, stop = (units * place // world() * unit for place in (rank(), rank() + 1))
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
        return world() * gradient


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
def gather(rows: Tensor, part: slice, count: int) -> Tensor:
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


def gather_in_main(value: Value) -> list[Value] | None:
    """Every process's value in the first one, by rank; it must be picklable. None in the others."""
    found: list[Any] | None = [None] * world() if is_main() else None
    dist.gather_object(value, found)
    return found
