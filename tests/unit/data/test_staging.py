"""The way of batches from the host to the device."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import josrc
from josrc.data.staging import Staging


@pytest.mark.gpu
def test_batches_reach_a_busy_device_whole_and_in_order() -> None:
    device = torch.device("cuda")
    staging, target = Staging((4, 2, 2, 3), device), torch.zeros(6, 4, 4, 3, device=device)
    seen = []
    for number in range(1, 9):
        size = 3 if number == 8 else 4  # the last of an epoch is smaller
        tiles = torch.full((size, 2, 2, 3), number, dtype=torch.uint8).pin_memory()
        staging.send(tiles, target[:size, 1:3, 1:3])
        torch.cuda._sleep(20_000_000)  # a step of some milliseconds
        seen.append(target.clone())
    for number, found in enumerate(seen, start=1):
        assert (found[:3, 1:3, 1:3] == number).all()
        assert found.sum() == (4 * number if number < 8 else 3 * 8 + 7) * 2 * 2 * 3


@pytest.mark.gpu
def test_the_host_is_never_far_ahead_of_the_device() -> None:
    device = torch.device("cuda")
    staging, target = Staging((4, 2, 2, 3), device), torch.zeros(4, 2, 2, 3, device=device)
    steps = []
    for number in range(6):
        staging.send(torch.zeros(4, 2, 2, 3, dtype=torch.uint8).pin_memory(), target)
        ended = [step.query() for step in steps]
        assert all(ended[: max(0, number - Staging.AHEAD)])
        torch.cuda._sleep(20_000_000)
        steps.append(torch.cuda.Event())
        steps[-1].record()


@pytest.mark.gpu
def test_a_captured_step_reads_each_batch_of_files(folder: Path, tmp_path: Path) -> None:
    # With workers: another thread pins what they send, also while a step is captured.
    options = {"epochs": 6, "batch_size": 8, "engine": "captured", "method": "josrc", "workers": 2}
    runs = []
    for resident in (True, False):
        settings = {"data.resident": resident}
        out = tmp_path / str(resident)
        runs.append(josrc.train(str(folder), out=out, settings=settings, **options).metrics)
    for memory, files in zip(*runs, strict=True):
        assert files["loss"] == pytest.approx(memory["loss"], rel=0.02)
        assert abs(files["n_clean"] - memory["n_clean"]) <= 3
