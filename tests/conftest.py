"""Shared by all tests: one thread a process, and small data in place of CIFAR-100."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

torch.set_num_threads(1)
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # kernels run in Triton's interpreter


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    count = sum("browser" in report.keywords for report in skipped)
    if count:
        terminalreporter.write_line(
            f"NOT RUN: {count} browser tests, as there is no Chromium. On Debian and Ubuntu: "
            "apt install chromium",
            red=True,
            bold=True,
        )


@pytest.fixture
def small_cifar(monkeypatch: pytest.MonkeyPatch) -> None:
    """CIFAR-100 shrunk to 200 training and 100 test images of 8x8 random pixels."""

    def read(root: object, train: bool) -> SimpleNamespace:
        generator = np.random.default_rng(int(train))
        count = 200 if train else 100
        return SimpleNamespace(
            data=generator.integers(0, 256, (count, 8, 8, 3), dtype=np.uint8),
            targets=[i % 100 for i in range(count)],
            classes=[f"class {i}" for i in range(100)],
        )

    monkeypatch.setattr("josrc.data.cifar._read", read)
