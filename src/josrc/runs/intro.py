"""What is said before training: classes, skipped files, settings and memory."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from josrc.config import RunConfig
from josrc.data.class_checks import warn_of_odd_classes
from josrc.data.readers.folder import describe_left_out
from josrc.data.source import Source
from josrc.distributed import world
from josrc.engine.state import TrainState
from josrc.errors import install_command
from josrc.models.pretrained import PACKAGED_MODEL, is_pretrained_at_hand
from josrc.runs.auto import fewest_to_plant_in
from josrc.runs.network import typical_side


def introduce(state: TrainState, config: RunConfig, source: Source) -> str:
    """Classes, skipped files, settings and memory, in a few lines."""
    lines = [
        describe_classes(source),
        *warn_of_odd_classes(source),
        *describe_left_out(source.left_out),
    ]
    if source.skipped:
        lines.append(f"Files skipped, see skipped.csv: {len(source.skipped):,}.")
    lines += [describe_settings(config), *describe_planting(state, source)]
    lines.append(describe_memory(state, config, source))
    at_hand = is_pretrained_at_hand(PACKAGED_MODEL)
    if config.model.name == "cnn7" and typical_side(source) > 2 * source.size[0]:
        lines.append(
            f"cnn7 sees these images at {source.size[0]} pixels. For photographs, "
            + ("try --pretrained." if at_hand else f"{install_command('features')}.")
        )
    return "\n".join(lines)


def describe_classes(source: Source) -> str:
    """How many images each class has; of many classes the largest and the smallest."""
    counts = np.bincount(source.given, minlength=source.closed)
    order = np.argsort(-counts, kind="stable")
    named = [f"{source.class_names[place]} {counts[place]:,}" for place in order]
    if len(named) > 12:
        named = [*named[:5], "...", *named[-5:]]
    return f"Images per class: {', '.join(named)}."


def describe_settings(config: RunConfig) -> str:
    """What was chosen, and how to choose otherwise."""
    size, optimizer = config.model.image_size, config.optimizer
    parts = [
        f"{config.model.name} at {size} x {size} pixels",
        *(["its head alone is trained"] if config.model.train == "head" else []),
        f"epochs {config.epochs}",
        f"batch size {config.batch_size}",
        f"{optimizer.name} with learning rate {optimizer.lr:g}, {optimizer.decay} decay after "
        f"epoch {optimizer.decay_start}",
    ]
    for name in ("warm_up", "smoothing", "threshold", "threshold_max", "forget_rate"):
        value = getattr(config.method, name, None)
        if value is not None:
            parts.append(f"method.{name} {value:g}")
    return f"Settings: {'; '.join(parts)}. Change any of them: --epochs 50, optimizer.lr=0.0005."


def describe_planting(state: TrainState, source: Source) -> list[str]:
    """Whether labels are made wrong to measure the verdicts by, or why not; nothing if unwanted."""
    count = len(state.planted)
    if count:
        return [
            f"{count:,} labels ({100 * count / len(source):.1f} %) are made wrong in training "
            "alone, to measure the verdicts by: planted errors. Without any: --plant 0."
        ]
    least = fewest_to_plant_in()
    if len(source) >= least:
        return []
    return [
        f"No errors are planted to measure the verdicts by: of fewer than {least:,} images a tenth "
        "is too few. Verdicts come without an estimate of how many are right; josrc scan has one."
    ]


def describe_memory(state: TrainState, config: RunConfig, source: Source) -> str:
    """Where the images are, and about how much the training will take."""
    images = state.loader.tiles.nbytes
    held = sum(t.numel() * t.element_size() for t in state.tensors().values())
    trained = [p for p in state.method.parameters() if p.requires_grad]
    gradients = sum(p.numel() * p.element_size() for p in trained)
    total = images + held + gradients + activation_bytes(state, config, source)
    resident = source.images.in_memory or state.frozen
    where = "stay in memory" if resident else "are read from their files each epoch"
    kept = f"features of {config.views.stored} views of each image" if state.frozen else "images"
    mib = f"{total / 2**20:,.0f} MiB"
    return f"The {kept} {where}; training takes about {mib} on {state.device}."


def activation_bytes(state: TrainState, config: RunConfig, source: Source) -> int:
    """What the layers of a network put out for a batch and keep until it has been learned from."""
    sizes: list[int] = []

    def count(module: nn.Module, inputs: object, output: object) -> None:
        if isinstance(output, Tensor):
            sizes.append(output.numel())

    network = state.method.network
    leaves = [m for m in network.modules() if not list(m.children())]
    hooks = [leaf.register_forward_hook(count) for leaf in leaves]
    pixels = torch.zeros(1, source.spec.channels, *source.size, device=state.device)
    if state.frozen:
        pixels = torch.zeros(1, state.num_features, device=state.device)
    try:
        with torch.no_grad():
            network.eval()(state.loader.normalise(pixels))
    finally:
        for hook in hooks:
            hook.remove()
        state.method.train()
    width = 2 if state.bfloat16 else 4
    return width * sum(sizes) * config.batch_size // world() * state.method.needs.views
