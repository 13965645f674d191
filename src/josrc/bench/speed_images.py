"""``josrc bench speed --data``: training on images in files, beside a loop written by hand.

Three loops train the same method with the same network: the reference, which reads with
torchvision; josrc; and josrc's own step on a resident batch, one that already lies on the device,
which is the most that any loader could reach. The fourth is the loader alone, without a step.
"""

from __future__ import annotations

import gc
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import psutil
import torch
from rich.console import Console
from rich.table import Table

from josrc._console import say
from josrc.bench.generated import write_images
from josrc.bench.reference import reference_steps
from josrc.bench.speed import TIMED_WINDOWS, now, precision_layer, result_path, step_flops
from josrc.bench.speed_ratios import read_earlier, write_measurement
from josrc.config import RunConfig
from josrc.data.decode import picture_size
from josrc.data.image_files import ImageFiles
from josrc.data.loaders import StreamingLoader
from josrc.data.prepare import prepare_source
from josrc.data.source import Source
from josrc.data.workers import most_workers
from josrc.engine.capture import Stepper, create_stepper
from josrc.engine.device import choose_device, device_name, kept_memory, peak_memory_mib
from josrc.engine.run_folder import versions
from josrc.engine.state import TrainState
from josrc.errors import UserError
from josrc.runs.data import with_noise_rate
from josrc.runs.start import plan

GENERATE = "generate"
GENERATED = 20_000
PIXELS, CLASSES = (500, 400), 14
# No further window of a loop begins once those before took so long.
MAX_WINDOW_SECONDS = 20.0
# Steps that come before the first window: captured ones are replayed from the fourth on.
WARM_UP_STEPS = 5
# One run of the paper: noisy training images, test images, epochs.
CLOTHING1M = 1_000_000, 10_526, 15
SIZED_FILES = 1000

Walk = Iterator[Any]


def run_image_speed(
    *,
    data: str,
    device_name_wanted: str | None,
    method: str | None,
    model: str | None,
    batch_size: int | None,
    precision: str | None = None,
    steps: int | None,
    results: Path,
    console: Console,
    compare: Path | None = None,
) -> Path:
    """Measure on a folder and write ``results/speed/DEVICE-MODEL.json``; returns its path.

    With ``compare`` an earlier file is shown beside what was found.
    """
    earlier = read_earlier(compare) if compare else None
    device = choose_device(device_name_wanted or "auto")
    options: dict[str, Any] = {
        "method": method,
        "model": model or "resnet50",
        "device": device_name_wanted,
        "batch_size": batch_size,
    }
    with picture_folder(data, console) as folder:
        config, source = open_folder(folder, options, precision_layer(precision))
        found = measure_image_speed(
            config, source, device, steps or (40 if _on_gpu(device) else 2), console
        )
    found["data"] = "generated" if data.startswith(GENERATE) else folder.name
    path = result_path(results, device, config, precision)
    show(found, console)
    return write_measurement(path, found, earlier, console)


# --- the images ----------------------------------------------------------------------------------


@contextmanager
def picture_folder(data: str, console: Console) -> Iterator[Path]:
    """The folder that was named, or one of JPEGs of web size that is made for the while."""
    kind, _, count = data.partition(":")
    if kind != GENERATE:
        folder = Path(data).expanduser()
        if not folder.is_dir():
            raise UserError(
                f"{data} is not a folder. Name one that holds class folders, or generate JPEGs: "
                f"{GENERATE}:{GENERATED}."
            )
        yield folder
        return
    if count and (not count.isdecimal() or int(count) < 2):
        raise UserError(f"'{data}': after {GENERATE}: comes a number of images, two or more.")
    images = int(count or GENERATED)
    say(console, f"Making {images:,} JPEGs of {PIXELS[0]} x {PIXELS[1]} ...")
    with tempfile.TemporaryDirectory() as made:
        write_images(Path(made), images, PIXELS, min(CLASSES, images))
        yield Path(made)


def open_folder(
    folder: Path, options: dict[str, Any], layers: Sequence[dict[str, Any]] = ()
) -> tuple[RunConfig, Source]:
    """Configuration and images of a run that reads its files in every epoch."""
    layers = [{"data": {"resident": False}}, *layers]
    config, source = plan(str(folder), layers=layers, **options)
    assert source is not None
    # As in a resumed run: no look at every file before. A bad one is named when its turn comes.
    source = prepare_source(source, config, free_memory=0, known=())
    return with_noise_rate(config, source), source


def files_on_disk(images: ImageFiles) -> dict[str, Any]:
    """How many, of how many pixels and bytes; of a large number some are looked at."""
    places = range(0, len(images), -(-len(images) // SIZED_FILES))
    paths = [images.location(place) for place in places]
    sizes = [picture_size(path) for path in paths]
    return {
        "images": len(images),
        "image_pixels": [int(statistics.median(side)) for side in zip(*sizes, strict=True)],
        "file_kib": statistics.fmean(Path(path).stat().st_size for path in paths) / 1024,
    }


# --- the loops -----------------------------------------------------------------------------------


def measure_image_speed(
    config: RunConfig, source: Source, device: torch.device, steps: int, console: Console
) -> dict[str, Any]:
    """What is measured, on what, and with what."""
    state, batch = TrainState(config, source, device), config.batch_size
    loader = state.loader
    assert isinstance(loader, StreamingLoader)
    if batch not in loader.sizes():
        raise UserError(
            f"{len(source)} images don't fill a batch of {batch}: add --batch-size 8, say."
        )
    # The reference's workers send views, of four bytes a number.
    views = batch * state.method.needs.views * 3 * source.size[0] * source.size[1] * 4
    workers = min(loader.pool.workers, most_workers(views))
    say(
        console,
        f"{device_name(device)}: up to {TIMED_WINDOWS} windows of {steps} steps per loop ...",
    )
    load_before = psutil.getloadavg()[0]
    measured = time_loops(state, config, source, workers, steps, console)
    return {
        "device": device_name(device),
        "cpu_cores": os.cpu_count(),
        "loader_workers": loader.pool.workers,
        "reference_workers": workers,
        "load_before": load_before,
        "load_after": psutil.getloadavg()[0],
        "data": source.name,
        **files_on_disk(loader.images),
        "method": config.method.name,
        "model": config.model.name,
        "image_size": source.size[0],
        "batch_size": batch,
        "views": state.method.needs.views,
        "precision": "bfloat16" if state.bfloat16 else "float32",
        "steps_a_window": steps,
        **measured,
        "versions": versions(),
    }


def time_loops(
    state: TrainState, config: RunConfig, source: Source, workers: int, steps: int, console: Console
) -> dict[str, Any]:
    """Images a second of the three loops and of the loader alone, in one process."""
    device, found = state.device, dict[str, list[float]]()

    def time_loop(name: str, begin: Callable[[], Walk]) -> None:
        times = window_ms(begin, device, steps)
        found[name] = [1000 * config.batch_size / ms for ms in times]
        say(console, f"{name}: {statistics.median(found[name]):,.0f} images/s")

    # The reference comes first, when josrc's own workers have not been started yet.
    with closing(reference_steps(config, source, device, workers)) as plain:
        time_loop("reference", lambda: plain)
    gc.collect()  # its network and its workers
    flops = step_flops(state, config)
    time_loop("loader", lambda: reading(state, config))
    notices: list[str] = []
    stepper = create_stepper(state, "auto", notices.append)
    if _on_gpu(device):
        torch.cuda.reset_peak_memory_stats(device)
    with kept_memory(device):
        time_loop("josrc", lambda: training(state, config, stepper))
        peak = peak_memory_mib(device)
        time_loop("resident", lambda: repeating(state, config, stepper))
    for notice in notices:
        say(console, notice)
    return {
        "engine": "captured" if _on_gpu(device) and not notices else "eager",
        "windows_images_s": found,
        **summary(found),
        "step_gflop": flops / 1e9,
        "peak_memory_mib": peak,
    }


def summary(windows: dict[str, list[float]]) -> dict[str, float]:
    """Medians of the windows, how they compare, and what a run on Clothing1M would take.

    A test image counts there as one to train on: it goes through two networks once, and not through
    eight times the work of one.
    """
    rates = {f"{name}_images_s": statistics.median(values) for name, values in windows.items()}
    train, test, epochs = CLOTHING1M
    ours = rates["josrc_images_s"]
    return rates | {
        "ratio_reference": ours / rates["reference_images_s"],
        "ratio_resident": ours / rates["resident_images_s"],
        "clothing1m_hours": (train + test) * epochs / ours / 3600,
    }


def window_ms(begin: Callable[[], Walk], device: torch.device, steps: int) -> list[float]:
    """Milliseconds per step, of each window; ``begin`` begins a walk without end.

    Compilation and the like happen in a walk before: what workers have decoded ahead by then would
    make the first windows faster than a training is.
    """
    list(islice(begin(), max(steps, WARM_UP_STEPS) if _on_gpu(device) else steps))
    walk, times = begin(), list[float]()
    while len(times) < TIMED_WINDOWS and sum(times) < MAX_WINDOW_SECONDS:
        begun = now(device)
        list(islice(walk, steps))
        times.append(now(device) - begun)
    return [1000 * seconds / steps for seconds in times]


def reading(state: TrainState, config: RunConfig) -> Walk:
    """The loader alone: tiles on the device, and no step."""
    while True:
        state.loader.begin_epoch(config.seed, config.epochs // 2)
        for size in state.loader.sizes():
            state.loader.prepare(size)
            if size == config.batch_size:
                yield


def training(state: TrainState, config: RunConfig, stepper: Stepper) -> Walk:
    """What a run does; the smaller batch at the end of an epoch is left out."""
    while True:
        state.begin_epoch(config, config.epochs // 2)
        for size in state.loader.sizes():
            if size == config.batch_size:
                state.loader.prepare(size)
                stepper(size)
                yield


def repeating(state: TrainState, config: RunConfig, stepper: Stepper) -> Walk:
    """The same steps, captured once, on the tiles that the device got last."""
    while True:
        state.loader.cursor.zero_()
        for size in state.loader.sizes():
            if size == config.batch_size:
                stepper(size)
                yield


def _on_gpu(device: torch.device) -> bool:
    return device.type == "cuda"


# --- what is shown -------------------------------------------------------------------------------

LOOPS = ("reference", "josrc", "resident", "loader")


def show(found: dict[str, Any], console: Console) -> None:
    """The rates as a table, and what follows from them."""
    batch, size = found["batch_size"], found["image_size"]
    table = Table(
        title=f"{found['method']}, {found['model']} at {size}, batch {batch}, {found['device']}"
    )
    for column in ("loop", "ms per step", "images/s", "times the reference", "of resident"):
        table.add_column(column, justify="left" if column == "loop" else "right")
    for loop in LOOPS:
        rate = found[f"{loop}_images_s"]
        ratios = rate / found["reference_images_s"], rate / found["resident_images_s"]
        row = f"{1000 * batch / rate:.1f}", f"{rate:,.0f}", f"{ratios[0]:.2f}", f"{ratios[1]:.0%}"
        table.add_row(loop, *row)
    console.print(table)
    width, height = found["image_pixels"]
    rate = found["step_gflop"] / (1000 * batch / found["josrc_images_s"])
    say(
        console,
        f"{found['images']:,} images of {width} x {height}, {found['file_kib']:.0f} KiB each; "
        f"{found['loader_workers']} workers, of the reference {found['reference_workers']}. "
        f"{found['engine'].capitalize()} steps in {found['precision']}, "
        f"{found['step_gflop']:,.0f} GFLOP each, {rate:.3g} TFLOP/s. "
        f"Peak memory {found['peak_memory_mib']:,.0f} MiB.\n"
        f"One run on Clothing1M, {CLOTHING1M[2]} epochs: {found['clothing1m_hours']:.1f} hours.",
    )
