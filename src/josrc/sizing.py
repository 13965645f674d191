"""Settings for a person's own images, from what they are: each has its reason beside it."""

from __future__ import annotations

import statistics

import numpy as np
import torch
from torch import Tensor, nn

from josrc.config import ModelConfig, RunConfig
from josrc.data.classes import odd_classes
from josrc.data.decode import UnreadableImageError, picture_size
from josrc.data.files import ImageFiles
from josrc.data.sidecars import describe_left_out
from josrc.data.source import Source
from josrc.engine.distributed import world
from josrc.engine.program import Program
from josrc.losses import smooth_labels
from josrc.models.factory import expected_images
from josrc.resolution import OWN_IMAGES as OWN_IMAGES
from josrc.resolution import Values
from josrc.selection import clean_likelihood

# P_clean of an undecided prediction with the paper's smoothing of 0.6 and 100 classes.
UNDECIDED = 0.795
LOOKED_AT = 32


def sized_values(source: Source, model: ModelConfig) -> Values:
    """Values that stand where a named data set has its recipe; the user's own go over them."""
    learned = model.pretrained or model.weights is not None
    samples, epochs = len(source), epochs_for(len(source), learned)
    in_files = source.files is not None
    size = model.image_size or image_size_for(source, model.name)
    return {
        "recipe": OWN_IMAGES,
        "model": {"image_size": size},
        # Tiles of files are larger than a crop by themselves. Arrays are padded as CIFAR's images
        # are, by an eighth.
        "views": {"pad": 0 if in_files else min(source.size) // 8},
        "epochs": epochs,
        "batch_size": batch_size_for(samples, size),
        # Adam's usual rate; a tenth where there is something learned to lose.
        "optimizer": {"lr": 1e-4 if learned else 1e-3},
        "methods": {
            "josrc": {
                "method": {
                    "smoothing": smoothing_for(source.closed),
                    # As for the digits: with few classes the labels are sharper, and above 0.9
                    # nearly nothing would be left of the clean set.
                    "threshold_max": 0.9 if source.closed < 50 else 0.95,
                    # A tenth of the epochs, as for the digits.
                    "warm_up": max(1, round(epochs / 10)),
                }
            }
        },
    }


def epochs_for(samples: int, learned: bool) -> int:
    """Enough for five million images to be seen, half a million where weights are learned.

    CIFAR has seen half of its ten million when its threshold has done most of its way; Clothing1M
    is trained for 10 to 20 epochs by most.
    """
    if learned:
        return min(40, max(10, round(500_000 / samples)))
    return min(100, max(20, round(5_000_000 / samples)))


def batch_size_for(samples: int, size: int) -> int:
    """Twenty steps an epoch or more; the paper's 128 at most, half of it for large images."""
    batch = 64 if size > 96 else 128
    while batch > 8 and batch * 20 > samples:
        batch //= 2
    return batch


def smoothing_for(classes: int) -> float:
    """Jo-SRC's epsilon with which an undecided prediction scores as it does in the paper.

    The fewer classes, the nearer is a smoothed label to a uniform prediction: with the paper's 0.6
    and 8 classes, a network that has learned nothing takes every sample for clean.
    """
    uniform, label = torch.full((1, classes), 1 / classes), torch.zeros(1, dtype=torch.long)
    fits = [
        step / 100
        for step in range(5, 61)
        if clean_likelihood(uniform, smooth_labels(label, classes, step / 100)).item() <= UNDECIDED
    ]
    return fits[-1] if fits else 0.05


def image_size_for(source: Source, model: str) -> int:
    """What the network expects; cnn7 gets small images as small as they are."""
    size = expected_images(model)[0]
    side = typical_side(source)
    if source.files is None and model == "cnn7":
        return max(8, side) if side <= 32 else size
    return max(8, 8 * (side // 8)) if model == "cnn7" and side < 28 else size


def typical_side(source: Source) -> int:
    """Median of the shorter sides of some images, in pixels; only their headers are read."""
    files = source.files
    if files is None:
        return min(source.size)
    sides = []
    for place in range(0, len(files), max(1, len(files) // LOOKED_AT)):
        try:
            sides.append(min(picture_size(files.content(place))))
        except UnreadableImageError:
            continue
    return int(statistics.median(sides)) if sides else 256


# --- what is said before training ----------------------------------------------------------------


def describe(program: Program, config: RunConfig, source: Source) -> str:
    """Classes, skipped files, settings and memory, in a few lines."""
    lines = [describe_classes(source), *odd_classes(source), *describe_left_out(source.left_out)]
    if source.skipped:
        lines.append(f"Files skipped, see skipped.csv: {len(source.skipped):,}.")
    lines += [describe_settings(config), describe_memory(program, config, source)]
    if config.model.name == "cnn7" and typical_side(source) > 2 * source.size[0]:
        lines.append(
            f"cnn7 sees these images at {source.size[0]} pixels. For photographs, try --model "
            "resnet18 --pretrained."
        )
    return "\n".join(lines)


def describe_classes(source: Source) -> str:
    """How many images each class has; of many classes the largest and the smallest."""
    counts = np.bincount(source.given, minlength=source.closed)
    order = np.argsort(-counts, kind="stable")
    named = [f"{source.class_names[place]} {counts[place]:,}" for place in order]
    if len(named) > 12:
        named = [*named[:5], "...", *named[-5:]]
    return f"Images a class: {', '.join(named)}."


def describe_settings(config: RunConfig) -> str:
    """What was chosen, and how to choose otherwise."""
    size, optimizer = config.model.image_size, config.optimizer
    parts = [
        f"{config.model.name} at {size} x {size} pixels",
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


def describe_memory(program: Program, config: RunConfig, source: Source) -> str:
    """Where the images are, and about how much the training will take."""
    images = program.loader.tiles.numel()
    state = sum(t.numel() * t.element_size() for t in program.tensors().values())
    trained = [p for p in program.method.parameters() if p.requires_grad]
    gradients = sum(p.numel() * p.element_size() for p in trained)
    total = images + state + gradients + activation_bytes(program, config, source)
    streamed = isinstance(source.images, ImageFiles)
    where = "are read from their files each epoch" if streamed else "stay in memory"
    return f"The images {where}; training takes about {total / 2**20:,.0f} MiB on {program.device}."


def activation_bytes(program: Program, config: RunConfig, source: Source) -> int:
    """What the layers of a network put out for a batch and keep until it has been learned from."""
    sizes: list[int] = []

    def count(module: nn.Module, inputs: object, output: object) -> None:
        if isinstance(output, Tensor):
            sizes.append(output.numel())

    network = program.method.network
    leaves = [m for m in network.modules() if not list(m.children())]
    hooks = [leaf.register_forward_hook(count) for leaf in leaves]
    pixels = torch.zeros(1, source.images.shape[3], *source.size, device=program.device)
    try:
        with torch.no_grad():
            network.eval()(program.loader.normalise(pixels))
    finally:
        for hook in hooks:
            hook.remove()
        program.method.train()
    width = 2 if program.bfloat16 else 4
    return width * sum(sizes) * config.batch_size // world() * program.method.views
