"""The speed bench: what it measures, and what it writes."""

from __future__ import annotations

import io
import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from josrc.bench import speed
from josrc.bench.reference import ViewsDataset, reference_steps
from josrc.data.source import Source
from josrc.engine.state import TrainState
from josrc.runs.start import configure

CPU = torch.device("cpu")
KEYS = """
    reference_ms eager_ms captured_ms ratio_reference matmul_tflops copy_tb_s step_gflop
    run_seconds_cold run_seconds_warm peak_memory_mib
"""


def small(method: str = "josrc") -> tuple[Any, Source]:
    options = {"noise": "symmetric", "rate": 0.2, "batch_size": 16, "device": "cpu"}
    return configure("cifar80n-o", method=method, **options), speed.synthetic_source(64, 8)


# Co-teaching takes its forget rate from the data.
@pytest.mark.parametrize("method", ["standard", "coteaching"])
def test_the_command_writes_the_contracts_keys(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = speed.synthetic_source(512, 8)
    monkeypatch.setattr(speed, "synthetic_source", lambda: source)
    monkeypatch.setattr(speed, "matmul_rate", lambda device: 2e12)
    monkeypatch.setattr(speed, "copy_rate", lambda device: 1e11)
    console = Console(file=io.StringIO(), record=True, width=120)
    path = speed.run_speed(
        data_root=None,
        device_name_wanted="cpu",
        method=method,
        model=None,
        steps=1,
        whole_runs=True,
        scratch=tmp_path / "runs",
        results=tmp_path,
        console=console,
    )
    found = json.loads(path.read_text())
    assert path == tmp_path / "speed" / "cpu-cnn7.json"
    assert set(KEYS.split()) <= found.keys()
    assert found["ratio_reference"] == found["reference_ms"] / found["eager_ms"]
    by_hand, ours = found["reference_processor_ms"], found["eager_processor_ms"]
    assert found["processor_ratio_reference"] == by_hand / ours > 0
    assert (found["captured_ms"], found["run_seconds_cold"]) == (None, None)
    assert "times the reference" in console.export_text()


def test_the_reference_loop_trains_the_same_method() -> None:
    config, source = small("standard")
    losses = list(islice(reference_steps(config, source, CPU), 12))
    assert len(losses) == 12
    assert losses[-1] < losses[0], "64 samples are learned by heart in three epochs"


def test_the_reference_loop_draws_both_views_anew() -> None:
    config, source = small()
    views, label, index = ViewsDataset(source, config, 2)[3]
    assert (label, index) == (int(source.given[3]), 3)
    assert not torch.equal(*views)
    assert views[0].shape == (3, 8, 8)


def test_the_operations_of_a_step_are_counted() -> None:
    config, source = small("standard")
    flops, moved = speed.step_cost(TrainState(config, source, CPU), config)
    # 2 operations a multiply-add; backward costs two forwards, less the first layer's input.
    size, convolutions = 64, 0
    for inputs, outputs in [(3, 64), (64, 64)]:
        convolutions += inputs * outputs * 9 * size
    for inputs, outputs in [(64, 128), (128, 128)]:
        convolutions += inputs * outputs * 9 * size // 4
    for inputs, outputs in [(128, 196), (196, 16)]:
        convolutions += inputs * outputs * 9 * size // 16
    head = 16 * 32 + 32 * 80
    first = 3 * 64 * 9 * size
    expected = 2 * 16 * (3 * (convolutions + head) - first)
    assert flops == pytest.approx(expected, rel=0.01)
    assert moved > 0


def test_the_two_ceilings_are_positive_numbers() -> None:
    assert speed.matmul_rate(CPU) > 1e8
    assert speed.copy_rate(CPU) > 1e7


def test_a_gpu_is_named_by_its_chip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "device_name", lambda device: "NVIDIA H200")
    assert speed.short_name(torch.device("cuda")) == "h200"
    assert speed.short_name(CPU) == "cpu"
