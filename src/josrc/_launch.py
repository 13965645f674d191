"""Which process this is, of how many, read from what launchers set; and what ends it early."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from josrc.errors import UserError


@dataclass(frozen=True)
class Place:
    """Which process this is, of how many; on its machine, of how many there."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    local_world: int = 1


@dataclass(frozen=True)
class Launcher:
    """The variables by which a launcher tells each process its place."""

    rank: str
    world: str
    local_rank: str
    local_world: str


TORCHRUN = Launcher("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
SRUN = Launcher("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE")
OPEN_MPI = Launcher(
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
)
MPICH = Launcher("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
# torchrun may itself be started by the others: what it says is nearer.
LAUNCHERS = (TORCHRUN, SRUN, OPEN_MPI, MPICH)


def find_place(environment: Mapping[str, str] | None = None) -> Place:
    """The place that the launcher gave to this process; alone unless one tells otherwise.

    ``WORLD_SIZE=1`` is one process whatever else is set. A ``WORLD_SIZE`` without ``RANK`` takes
    the rank that srun or MPI tells.
    """
    told = os.environ if environment is None else environment
    if told.get(TORCHRUN.world) == "1":
        return Place()
    for launcher in LAUNCHERS:
        if (
            launcher.rank in told
            and launcher.world in told
            and not _is_batch_script(launcher, told)
        ):
            place = _place(launcher, told)
            break
    else:
        if TORCHRUN.world not in told:
            return Place()
        raise UserError(
            f"WORLD_SIZE={told[TORCHRUN.world]}, but nothing says which of these processes this "
            "one is. Set RANK too, or WORLD_SIZE=1 if it is the only one."
        )
    if place.world > 1 and not told.get("MASTER_ADDR"):
        raise UserError(
            f"This is one of {place.world} processes ({launcher.world}={told[launcher.world]}), "
            "and MASTER_ADDR is not set: they can't find each other. Set it to the machine of the "
            "first one, and MASTER_PORT to a free port there. If each of them is a run of its own, "
            "set WORLD_SIZE=1."
        )
    if place.world > 1 and "MASTER_PORT" in told:
        port = _number("MASTER_PORT", told)
        if not 0 < port < 2**16:
            raise UserError(f"MASTER_PORT={port}: a port is a number from 1 to 65535.")
    if not 0 <= place.local_rank < place.local_world:
        raise UserError(
            f"{launcher.local_rank}={place.local_rank} is not possible with {place.local_world} "
            "processes on this machine: they count from 0."
        )
    return place


def count_processes() -> int:
    """How many processes this one belongs to; 1 where what the launcher says makes no sense."""
    try:
        return find_place().world
    except UserError:
        return 1


def _is_batch_script(launcher: Launcher, told: Mapping[str, str]) -> bool:
    """Whether this is the script of a Slurm job, which knows of tasks that srun would start."""
    return launcher is SRUN and "SLURM_JOB_ID" in told and "SLURM_STEP_ID" not in told


def _place(launcher: Launcher, told: Mapping[str, str]) -> Place:
    rank, world = _number(launcher.rank, told), _number(launcher.world, told)
    if TORCHRUN.world in told and _number(TORCHRUN.world, told) != world:
        raise UserError(
            f"WORLD_SIZE={told[TORCHRUN.world]}, but {launcher.world}={world}. Set RANK too, or "
            "leave out WORLD_SIZE."
        )
    if not 0 <= rank < world:
        raise UserError(
            f"{launcher.rank}={rank} is not possible with {launcher.world}={world}: ranks count "
            "from 0."
        )
    if launcher.local_rank not in told:  # then all of them are on one machine
        return Place(rank, world, rank, world)
    local_rank = _number(launcher.local_rank, told)
    if launcher is SRUN:
        return Place(rank, world, local_rank, _tasks_here(told, world))
    if launcher.local_world not in told:
        return Place(rank, world, local_rank, world)
    return Place(rank, world, local_rank, _number(launcher.local_world, told))


def _number(key: str, told: Mapping[str, str]) -> int:
    try:
        return int(told[key])
    except ValueError:
        raise UserError(f"{key}={repr(told[key])[:80]} is not a whole number.") from None


def _tasks_here(told: Mapping[str, str], world: int) -> int:
    """Tasks on this node, of ``2(x3),1``: two on each of three nodes, and one on the fourth."""
    here = _number("SLURM_NODEID", told) if "SLURM_NODEID" in told else 0
    if not 0 <= here < world:
        raise UserError(f"SLURM_NODEID={here} is not possible with {world} tasks.")
    behind = 0
    for tasks, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", told.get(SRUN.local_world, "")):
        behind += int(times or 1)
        if here < behind:
            return int(tasks)
    return world


@contextmanager
def ended_at_once() -> Iterator[None]:
    """Let Ctrl-C end the process without a word, while modules are imported and nothing is begun.

    As an error it would be torn off in the middle of somebody's module, which may swallow it, or
    end the process with all that it has to say about it.
    """
    before = signal.getsignal(signal.SIGINT)
    ours = before is signal.default_int_handler
    ours = ours and threading.current_thread() is threading.main_thread()
    if ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, before)
