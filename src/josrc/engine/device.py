"""Which device a run uses, and what to call it."""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import torch

from josrc.distributed import local_rank, local_world, world
from josrc.errors import UserError


def choose_device(name: str) -> torch.device:
    """The device of a name; ``auto`` is the GPU where there is one.

    Of several processes on a machine each has the GPU of its own number.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"Unknown device '{name}'. Use auto, cpu, cuda or cuda:1.") from None
    if device.type not in ("cpu", "cuda") or (device.type == "cpu" and device.index):
        raise UserError(f"josrc trains on cpu and cuda devices, not on '{name}'.")
    if device.type == "cuda" and world() > 1:
        return _own_gpu(device)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UserError(
            f"Device '{name}' does not exist: torch sees {torch.cuda.device_count()} GPUs. Leave "
            "out --device to use what is available."
        )
    return device


def _own_gpu(device: torch.device) -> torch.device:
    """One GPU a process, by its number on the machine."""
    if device.index is not None:
        raise UserError(f"Each process has its own GPU: give --device cuda, not '{device}'.")
    if local_world() > torch.cuda.device_count():
        raise UserError(
            f"This machine has {local_world()} processes and {torch.cuda.device_count()} GPUs. "
            "Start one per GPU (torchrun --nproc-per-node), or train with --device cpu."
        )
    torch.cuda.set_device(local_rank())
    return torch.device("cuda", local_rank())


# Of glibc's mallopt: what to set, to its default, and to keep whatever was allocated once.
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
DEFAULTS = {M_TRIM_THRESHOLD: 128 * 1024, M_MMAP_MAX: 65_536}
KEEPING = {M_TRIM_THRESHOLD: 2**31 - 1, M_MMAP_MAX: 0}


@contextmanager
def kept_memory(device: torch.device) -> Iterator[None]:
    """Inside, a run on a CPU keeps the memory of its tensors for the next step.

    The C library would give every large block back to the system, and get it anew, page by page,
    in every step. After the run everything is given back.
    """
    if device.type != "cpu" or platform.libc_ver()[0] != "glibc":
        yield
        return
    library = ctypes.CDLL(None)
    try:
        for option, value in KEEPING.items():
            library.mallopt(option, value)
        yield
    finally:
        for option, value in DEFAULTS.items():
            library.mallopt(option, value)
        library.malloc_trim(0)


def device_name(device: torch.device) -> str:
    """Name of the GPU or of the processor."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def peak_memory_mib(device: torch.device) -> float:
    """Most memory this process has held: on the GPU, or in all for a CPU run."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return _peak_resident() / 2**20


def _peak_resident() -> int:
    """Most main memory this process has held, in bytes."""
    try:
        import resource
    except ImportError:  # Windows tells it otherwise
        found = psutil.Process().memory_info()
        return int(getattr(found, "peak_wset", found.rss))
    unit = 1 if sys.platform == "darwin" else 1024  # kilobytes everywhere but on macOS
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
