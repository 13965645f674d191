"""``josrc bench speed --data --train head``: a head over features that are computed once.

Beside it stands a loop that runs the frozen network over every image in every epoch, as one written
by hand does.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import torch
from rich.console import Console

from josrc._console import duration, say
from josrc.bench.reference import count_workers, reference_steps
from josrc.bench.speed import now, precision_layer, processor_seconds, result_path, times_of
from josrc.bench.speed_images import files_on_disk, open_folder, picture_folder
from josrc.bench.speed_ratios import read_earlier, write_measurement
from josrc.config import RunConfig
from josrc.data.source import Source
from josrc.engine.capture import create_stepper
from josrc.engine.device import choose_device, device_name, kept_memory, peak_memory_mib
from josrc.engine.frozen import gather_features
from josrc.engine.run_folder import versions
from josrc.engine.state import TrainState, uses_bfloat16
from josrc.models.pretrained import PACKAGED_MODEL

TIMED_EPOCHS = 3  # after one that is not counted


def run_head_speed(
    *,
    data: str,
    options: dict[str, Any],
    precision: str | None,
    steps: int | None,
    results: Path,
    console: Console,
    compare: Path | None = None,
) -> Path:
    """Measure on a folder and write ``results/speed/DEVICE-MODEL-head.json``; returns its path.

    Args:
        data: a folder of class folders, or ``generate:N``.
        options: of ``josrc train``, ``None`` where nothing is said.
        precision: of both loops.
        steps: of the reference, per window.
        results: where the file goes.
        console: where it is said.
        compare: an earlier file.
    """
    earlier = read_earlier(compare) if compare else None
    device = choose_device(options["device"] or "auto")
    chosen = options | {"train": "head", "pretrained": True}
    chosen["model"] = chosen["model"] or PACKAGED_MODEL
    with picture_folder(data, console) as folder:
        config, source = open_folder(folder, chosen, precision_layer(precision))
        found = measure_head_speed(config, source, device, steps or 2, console)
    name = "-".join(filter(None, [precision, "head"]))
    path = result_path(results, device, config, name)
    show(found, console)
    return write_measurement(path, found, earlier, console)


def measure_head_speed(
    config: RunConfig, source: Source, device: torch.device, steps: int, console: Console
) -> dict[str, Any]:
    """Seconds per 1,000 images of both ways, and on what they were measured."""
    load_before = psutil.getloadavg()[0]
    say(console, f"{device_name(device)}: a head over {len(source):,} images ...")
    with closing(reference_steps(config, source, device, count_workers())) as plain:
        steps_by_hand = times_of("reference", plain, device, steps)
    # Of a step in ms over samples per step are seconds per 1,000 images.
    found = {
        name.replace("_ms", "_epoch_s"): value / config.batch_size
        for name, value in steps_by_hand.items()
    }
    with kept_memory(device):
        found |= _times(config, source, device)
    epochs = config.epochs
    for kind in ("", "processor_") if device.type == "cpu" else ("",):
        found[f"{kind}run_s"] = found[f"{kind}features_s"] + epochs * found[f"{kind}epoch_s"]
        by_hand = found[f"reference_{kind}epoch_s"]
        found[f"{kind}ratio_reference"] = epochs * by_hand / found[f"{kind}run_s"]
    return {
        "device": device_name(device),
        "cpu_cores": os.cpu_count(),
        "loader_workers": config.data.workers or count_workers(),
        "load_before": load_before,
        "load_after": psutil.getloadavg()[0],
        "data": "folder",
        **files_on_disk(source.images),  # type: ignore[arg-type]
        "method": config.method.name,
        "model": config.model.name,
        "train": "head",
        "image_size": source.size[0],
        "batch_size": config.batch_size,
        "stored_views": config.views.stored,
        "precision": "bfloat16" if uses_bfloat16(config, device) else "float32",
        "epochs": config.epochs,
        **found,
        "peak_memory_mib": peak_memory_mib(device),
        "versions": versions(),
    }


def _times(config: RunConfig, source: Source, device: torch.device) -> dict[str, float]:
    """Seconds per 1,000 images for their features, and for an epoch of the head.

    ``processor_`` are those of all processors.
    """
    found: dict[str, float] = {}

    def timed(name: str, work: Callable[[], None], times: int = 1) -> None:
        begun, worked = now(device), processor_seconds()
        for _ in range(times):
            work()
        per_thousand = 1000 / len(source) / times
        found[f"processor_{name}"] = per_thousand * (processor_seconds() - worked)
        found[name] = per_thousand * (now(device) - begun)

    state = TrainState(config, source, device)
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "features.safetensors"

        def features() -> None:
            gather_features(state, config, source, kept, lambda: None, lambda text: None)

        timed("features_s", features)
    stepper = create_stepper(state, config.engine)

    def epoch() -> None:
        state.begin_epoch(config, config.epochs // 2)
        for size in state.loader.sizes():
            state.loader.prepare(size)
            stepper(size)

    epoch()
    timed("epoch_s", epoch, TIMED_EPOCHS)
    return found


def show(found: dict[str, Any], console: Console) -> None:
    """What 1,000 images take."""
    by_hand = found["epochs"] * found["reference_epoch_s"]
    say(
        console,
        f"Per 1,000 images, {found['epochs']} epochs of a head over {found['model']}: "
        f"{duration(by_hand)} by hand, {duration(found['run_s'])} with features computed once "
        f"({duration(found['features_s'])} of them; {found['stored_views']} views per image), "
        f"{found['ratio_reference']:.1f} times as fast.",
    )
