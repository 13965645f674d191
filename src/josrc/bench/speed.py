"""``josrc bench speed``: what a training step costs, beside a loop written by hand."""

from __future__ import annotations

import csv
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from rich.console import Console
from rich.table import Table
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from josrc._console import say
from josrc._reading import read_json, regular
from josrc.bench.reference import count_workers, reference_steps
from josrc.bench.speed_ratios import read_earlier, write_measurement
from josrc.config import DataKind, RunConfig
from josrc.data.images import ArrayImages
from josrc.data.registry import open_source
from josrc.data.source import Source
from josrc.engine.capture import create_stepper
from josrc.engine.device import choose_device, device_name, kept_memory, peak_memory_mib
from josrc.engine.run_folder import RunFolder, versions
from josrc.engine.state import TrainState
from josrc.runs.data import with_noise_rate
from josrc.runs.start import configure

TIMED_WINDOWS = 5  # a time is the median of this many windows
NOISE: dict[str, Any] = {"noise": "symmetric", "rate": 0.2}


def run_speed(
    *,
    data_root: Path | None,
    device_name_wanted: str | None,
    method: str | None,
    model: str | None,
    precision: str | None = None,
    steps: int | None,
    whole_runs: bool,
    results: Path,
    scratch: Path,
    console: Console,
    compare: Path | None = None,
) -> Path:
    """Measure and write ``results/speed/DEVICE-MODEL.json``; returns its path.

    With ``compare`` an earlier file is shown beside what was found.
    """
    earlier = read_earlier(compare) if compare else None
    options: dict[str, Any] = {"method": method, "model": model, "device": device_name_wanted}
    layers = precision_layer(precision)
    config = configure("cifar80n-o", layers=layers, **NOISE, data_root=data_root, **options)
    source = open_source(config.data) if data_root else synthetic_source()
    config = with_noise_rate(config, source)
    device = choose_device(config.device)
    found = measure_speed(
        config, source, device, steps or (100 if device.type == "cuda" else 2), console
    )
    if whole_runs and data_root and device.type == "cuda" and precision is None:
        found |= whole_run_seconds(data_root, options, scratch / "speed", console)
    path = result_path(results, device, config, precision)
    show(found, console)
    return write_measurement(path, found, earlier, console)


def synthetic_source(samples: int = 50_000, size: int = 32) -> Source:
    """CIFAR80N-O's shape with random pixels: speed does not depend on what they show."""
    generator = np.random.default_rng(0)
    shape = (size, size, 3)
    return Source(
        name="synthetic",
        data_kind=DataKind.BUILTIN,
        images=ArrayImages(generator.integers(0, 256, (samples, *shape), dtype=np.uint8)),
        true=generator.integers(0, 80, samples),
        given=generator.integers(0, 80, samples),
        class_names=[str(number) for number in range(80)],
        closed=80,
        test_images=ArrayImages(generator.integers(0, 256, (samples // 5, *shape), dtype=np.uint8)),
        test_labels=generator.integers(0, 80, samples // 5),
        mean=(0.5, 0.5, 0.5),
        std=(0.25, 0.25, 0.25),
    )


def measure_speed(
    config: RunConfig, source: Source, device: torch.device, steps: int, console: Console
) -> dict[str, Any]:
    """Times of the three loops, and the machine's two ceilings, in one process."""
    say(console, f"{device_name(device)}: {TIMED_WINDOWS} windows of {steps} steps each ...")
    load_before = psutil.getloadavg()[0]
    state = TrainState(config, source, device)
    flops, moved = step_cost(state, config)
    times: dict[str, Any] = times_of(
        "reference", reference_steps(config, source, device), device, steps
    )
    for engine in ("eager", "captured"):
        wanted = engine == "eager" or device.type == "cuda"
        times |= (
            _engine_times(config, source, device, engine, steps)
            if wanted
            else {f"{engine}_ms": None}
        )
    peak = peak_memory_mib(device)  # of training; the measures of the machine below take more
    ours = times["captured_ms"] or times["eager_ms"]
    return {
        "device": device_name(device),
        "cpu_cores": os.cpu_count(),
        "loader_workers": count_workers(),
        "load_before": load_before,
        "load_after": psutil.getloadavg()[0],
        "data": source.name,
        "method": config.method.name,
        "model": config.model.name,
        "batch_size": config.batch_size,
        "views": state.method.needs.views,
        "precision": "bfloat16" if state.bfloat16 else "float32",
        "windows": TIMED_WINDOWS,
        "steps_a_window": steps,
        **times,
        "ratio_reference": times["reference_ms"] / ours,
        **_processor_ratio(times),
        "step_gflop": flops / 1e9,
        "step_gbyte_unfused": moved / 1e9,
        "matmul_tflops": matmul_rate(device) / 1e12,
        "copy_tb_s": copy_rate(device) / 1e12,
        "run_seconds_cold": None,
        "run_seconds_warm": None,
        "peak_memory_mib": peak,
        "versions": versions(),
    }


def _processor_ratio(times: Mapping[str, Any]) -> dict[str, float]:
    """The same ratio of processors' time, on a CPU."""
    ours = times.get("eager_processor_ms")
    if ours is None:
        return {}
    return {"processor_ratio_reference": times["reference_processor_ms"] / ours}


def _engine_times(
    config: RunConfig, source: Source, device: torch.device, engine: str, steps: int
) -> dict[str, float]:
    state = TrainState(config, source, device)
    stepper = create_stepper(state, engine)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)

    def forever() -> Iterator[None]:
        while True:
            state.begin_epoch(config, config.epochs // 2)
            for size in state.loader.sizes():
                if size == config.batch_size:
                    stepper(size)
                    yield

    with kept_memory(device):
        return times_of(engine, forever(), device, steps)


def times_of(
    loop: str, steps_taken: Iterator[Any], device: torch.device, steps: int
) -> dict[str, float]:
    """Milliseconds per step; on a CPU also those of all processors, its workers' included.

    The second hardly change where others use the machine.
    """
    spent: list[float] = []

    def window() -> None:
        list(islice(steps_taken, steps))
        spent.append(processor_seconds())

    found = {f"{loop}_ms": 1000 / steps * _seconds(window, device)}
    if device.type == "cpu":
        # From the end of the first window on, which is not counted in either.
        found[f"{loop}_processor_ms"] = 1000 / steps * (spent[-1] - spent[0]) / TIMED_WINDOWS
    return found


def processor_seconds() -> float:
    """Seconds that processors have worked for this process and those that it started."""
    this, total = psutil.Process(), 0.0
    for process in (this, *this.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def now(device: torch.device) -> float:
    """The time in seconds once the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


class TrafficCounter(TorchDispatchMode):
    """Bytes that go in and out of every operation, were none of them fused with another."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.moved = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count an operation; views move nothing."""
        result = func(*args, **(kwargs or {}))
        if not func.is_view:
            tensors = [
                t for t in tree_leaves((args, kwargs, result)) if isinstance(t, torch.Tensor)
            ]
            self.moved += sum(t.numel() * t.element_size() for t in tensors)
        return result


def step_cost(state: TrainState, config: RunConfig) -> tuple[int, int]:
    """Floating-point operations and unfused bytes of one training step."""
    flops = step_flops(state, config)
    # The data set is an argument of the gather, but a step reads only its own batch of it.
    resident = state.loader.tiles.numel()
    with TrafficCounter() as traffic:
        state.train_step(config.batch_size)
    return flops, max(0, traffic.moved - resident)


def step_flops(state: TrainState, config: RunConfig) -> int:
    """Floating-point operations of the first training step of an epoch."""
    state.begin_epoch(config, config.epochs // 2)
    state.loader.prepare(config.batch_size)
    with FlopCounterMode(display=False) as flops:
        state.train_step(config.batch_size)
    return int(flops.get_total_flops())


def matmul_rate(device: torch.device) -> float:
    """Operations a second of a large matrix product in the precision that is trained in."""
    on_gpu = device.type == "cuda"
    size, dtype = (8192, torch.bfloat16) if on_gpu else (2048, torch.float32)
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    return 2 * size**3 / _seconds(lambda: a @ b, device)


def copy_rate(device: torch.device) -> float:
    """Bytes a second of a large copy, read and written."""
    source = torch.rand(2**30 if device.type == "cuda" else 2**26, device=device)
    target = torch.empty_like(source)
    return (
        2 * source.numel() * source.element_size() / _seconds(lambda: target.copy_(source), device)
    )


def _seconds(work: Callable[[], Any], device: torch.device) -> float:
    """Seconds that some work takes: the median over windows, the first one not counted."""
    times = []
    for _ in range(TIMED_WINDOWS + 1):
        begun = now(device)
        work()
        times.append(now(device) - begun)
    return statistics.median(times[1:])


def whole_run_seconds(
    data_root: Path, options: dict[str, Any], scratch: Path, console: Console
) -> dict[str, Any]:
    """``josrc train`` from command to exit, without and with a compile cache.

    Seconds, what the two runs of one seed reached, and in how many epochs all their metrics agree
    to the last digit. The runs stay in ``scratch``.
    """
    found: dict[str, Any] = {}
    rows: list[list[dict[str, str]]] = []
    command = [sys.executable, "-m", "josrc", "train", "cifar80n-o", "--noise", "symmetric"]
    command += ["--rate", "0.2", "--data-root", str(data_root), "--quiet"]
    for name, value in options.items():
        command += [f"--{name}", value] if value else []
    with tempfile.TemporaryDirectory() as folder:
        caches = {
            "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
            "TRITON_CACHE_DIR": f"{folder}/triton",
        }
        for kind in ("cold", "warm"):
            run = RunFolder(scratch / kind)
            with run.locked():
                run.clear()
            begun = time.perf_counter()
            subprocess.run([*command, "--out", str(run.path)], env=os.environ | caches, check=True)
            found[f"run_seconds_{kind}"] = time.perf_counter() - begun
            summary = read_json(run.summary)
            for key in ("last10_mean", "seconds_per_epoch", "peak_memory_mib"):
                found[f"run_{key}_{kind}"] = summary[key]
            rows.append(read_metrics(run.metrics))
            say(console, f"A whole run, {kind} cache: {found[f'run_seconds_{kind}']:.0f} s")
    found["run_epochs"] = len(rows[0])
    found["run_epochs_equal"] = sum(one == two for one, two in zip(*rows, strict=True))
    return found


def read_metrics(path: Path) -> list[dict[str, str]]:
    """The rows of a ``metrics.csv``, without the time they took."""
    with regular(path).open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def short_name(device: torch.device) -> str:
    """``h200`` of ``NVIDIA H200``; ``cpu`` for any processor."""
    if device.type == "cpu":
        return "cpu"
    return device_name(device).lower().removeprefix("nvidia ").replace(" ", "-")


def precision_layer(precision: str | None) -> list[dict[str, Any]]:
    """A precision that was asked for, as a layer of settings."""
    return [] if precision is None else [{"precision": precision}]


def result_path(
    results: Path, device: torch.device, config: RunConfig, precision: str | None
) -> Path:
    """Where a measurement goes; one in a precision that was asked for beside the usual one."""
    name = "-".join(filter(None, [short_name(device), config.model.name, precision]))
    return results / "speed" / f"{name}.json"


def show(found: dict[str, Any], console: Console) -> None:
    """The times as a table."""
    title = f"{found['method']}, {found['model']}, batch {found['batch_size']}, {found['device']}"
    table = Table(title=title)
    for column in (
        "loop",
        "ms per step",
        "images/s",
        "times the reference",
        "matrix rate",
        "memory",
    ):
        table.add_column(column, justify="left" if column == "loop" else "right")
    for loop in ("reference", "eager", "captured"):
        ms = found[f"{loop}_ms"]
        if ms is None:
            table.add_row(loop, "-", "-", "-", "-", "-")
            continue
        flops = found["step_gflop"] / ms / found["matmul_tflops"]
        bytes_ = found["step_gbyte_unfused"] / ms / found["copy_tb_s"]
        table.add_row(
            loop,
            f"{ms:.2f}",
            f"{1000 * found['batch_size'] / ms:,.0f}",
            f"{found['reference_ms'] / ms:.2f}",
            f"{flops:.0%}",
            f"{bytes_:.0%}",
        )
    console.print(table)
    say(
        console,
        f"Ceilings measured here: {found['matmul_tflops']:.3g} TFLOP/s (matrix product), "
        f"{found['copy_tb_s']:.3g} TB/s (copy). A step is {found['step_gflop']:.0f} GFLOP and, "
        f"were nothing fused, {found['step_gbyte_unfused']:.2f} GB. "
        f"Peak memory {found['peak_memory_mib']:.0f} MiB.",
    )
    if "processor_ratio_reference" in found:
        by_hand, ours = (found[f"{loop}_processor_ms"] for loop in ("reference", "eager"))
        say(
            console,
            f"Processors worked {by_hand:,.0f} ms per step of the reference, {ours:,.0f} of josrc: "
            f"{found['processor_ratio_reference']:.2f} times less.",
        )
