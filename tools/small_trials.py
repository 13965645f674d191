"""Trials of methods on a part of CIFAR-100 small enough for a CPU.

    python tools/small_trials.py DIR OUT METHOD CELL [key=value ...] [--name N] [--epochs 30]

20 classes of CIFAR-100, 5,000 images of 16x16 pixels, a 7-layer CNN of a quarter of its width, and
batches of 64. CELL is symmetric-0.4, asymmetric-0.2 ..., with -open for 5 more classes that are
foreign. Noise is drawn with seed 1, which no table of the paper has. OUT/CELL/NAME-seed-K.json is
the run's summary with its metrics, its settings and what became of its noise model.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from josrc._io import write_text
from josrc.data.images import ArrayImages
from josrc.data.noise import draw_labels, groups_of, transition_matrix
from josrc.data.registry import open_source
from josrc.data.source import Source
from josrc.engine.metrics import METRIC_COLUMNS
from josrc.engine.run_folder import RunFolder
from josrc.engine.trainer import Trainer
from josrc.runs.data import with_noise_rate
from josrc.runs.resolve import parse_override
from josrc.runs.start import configure

CLASSES, FOREIGN, SIDE = 20, 5, 16
# Every so-manieth training image.
EVERY = 2
# What the small network needs, whatever the method.
SIZE = {"model": {"width": 0.25}, "batch_size": 64, "views": {"pad": 2}}


def main() -> None:
    """Make one run and keep what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("method")
    parser.add_argument("cell")
    parser.add_argument("settings", nargs="*")
    parser.add_argument("--name")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--noise-seed", type=int, default=1)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    layers = [SIZE, *map(parse_override, asked.settings)]
    config = configure(
        "cifar100n-c", layers=layers, method=asked.method, epochs=asked.epochs, seed=asked.seed,
        data_root=asked.root, device="cpu",
    )  # fmt: skip
    whole = open_source(config.data)
    noise, rate, *more = asked.cell.split("-")
    source = small(whole, noise, float(rate), "open" in more, asked.noise_seed)
    config = with_noise_rate(config, source)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(config, source, RunFolder(Path(folder) / "run"))
        trainer.folder.create(config, source, trainer.device)
        summary = trainer.run()
        found = summary | {"settings": config.method.model_dump(mode="json")}
        found |= {"optimizer": config.optimizer.model_dump(mode="json")}
        found |= {"cell": asked.cell, "noise_seed": asked.noise_seed}
        found |= {"groups": groups(trainer, source)} | noise_model(trainer, source)
        found["metrics"] = {
            name: [row.get(name) for row in trainer.rows]
            for name in METRIC_COLUMNS
            if any(row.get(name) is not None for row in trainer.rows)
        }
    path = asked.out / asked.cell / f"{asked.name or asked.method}-seed-{asked.seed}.json"
    write_text(path, json.dumps(found, indent=1) + "\n")
    print(f"{path}: {summary['last10_mean']:.2f} in {summary['seconds_total']:.0f} s")


def small(source: Source, noise: str, rate: float, is_open: bool, seed: int) -> Source:
    """Its first classes, their images shrunk, with wrong labels."""
    total = CLASSES + (FOREIGN if is_open else 0)
    assert source.true is not None
    assert source.test_labels is not None
    kept = (source.true < total) & (np.arange(len(source)) % EVERY == 0)
    tested = source.test_labels < CLASSES
    true = source.true[kept]
    given = draw_labels(true, transition_matrix(noise, rate, total, CLASSES), seed)
    return replace(
        source,
        images=shrunk(source.images, kept),
        true=true,
        given=given,
        test_images=shrunk(source.test_images, tested),
        test_labels=source.test_labels[tested],
        class_names=source.class_names[:total],
        closed=CLASSES,
    )


def shrunk(images: Any, kept: np.ndarray) -> ArrayImages:
    """Images of half the side, each pixel the mean of four."""
    pixels = images.pixels[kept]
    fours = pixels.reshape(len(pixels), SIDE, 2, SIDE, 2, 3)
    return ArrayImages(fours.mean(axis=(2, 4)).round().astype(np.uint8))


def groups(trainer: Trainer, source: Source) -> list[list[int]]:
    """How many samples of each kind (row) are in each group (column) at the end."""
    found = trainer.state.ledger.fields["group"].numpy()
    assert source.true is not None
    kind = groups_of(source.given, source.true, source.closed)
    return [[int(((kind == k) & (found == g)).sum()) for g in range(3)] for k in range(3)]


def noise_model(trainer: Trainer, source: Source) -> dict[str, Any]:
    """The matrix a method estimated, as its diagonal and its distance from the truth."""
    matrix = getattr(trainer.state.method, "transitions", None)
    if matrix is None or source.true is None:
        return {}
    inside = source.true < source.closed
    truth = np.zeros((source.closed, source.closed))
    np.add.at(truth, (source.true[inside], source.given[inside]), 1)
    truth /= truth.sum(axis=1, keepdims=True)
    matrix = matrix.numpy()
    found = {
        "diagonal": float(matrix.diagonal().mean()),
        "true_diagonal": float(truth.diagonal().mean()),
        "distance": float(np.abs(matrix - truth).sum(axis=1).mean()),
    }
    for name in ("even", "power", "foreign", "agreement"):
        value = getattr(trainer.state.method, name, None)
        if value is not None:
            value = value[: trainer.config.epochs] if value.ndim else value
            found[name] = np.round(value.numpy(), 4).tolist()
    return {"noise_model": found}


if __name__ == "__main__":
    main()
