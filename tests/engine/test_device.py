"""What a run asks of the machine it is on."""

from __future__ import annotations

import platform
import resource

import psutil
import pytest
import torch

from josrc.engine.device import kept_memory

CPU = torch.device("cpu")


def faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="set in glibc's allocator alone")
def test_memory_is_kept_between_steps_and_given_back_at_the_end() -> None:
    size, process = 32 * 2**20, psutil.Process()
    with kept_memory(CPU):
        for _ in range(10):
            torch.ones(size)  # 128 MiB, as the images of a layer in a step
        before = faults()
        for _ in range(5):
            torch.ones(size)
        assert faults() - before < 50
        inside = process.memory_info().rss
    assert inside - process.memory_info().rss > 100 * 2**20
