"""Which method learns heads best from wrong labels, at equal cost: small sets of real pictures.

    python tools/measure_heads.py DIR --out results/heads/heads.json

DIR holds cifar10.npz, with the labels that people gave, and cifar-100-python. Every method trains
the head of the same network, on the same features where it asks for the same views, for as many
epochs as josrc chooses, with errors planted as josrc does unasked. Told is the test accuracy, mean
of the last ten epochs, by seed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from josrc._io import write_text
from josrc.bench.look_alikes import confuse_pairs, look_alikes
from josrc.data.noise import draw_labels, transition_matrix
from josrc.engine.run_folder import RunFolder, versions
from josrc.engine.trainer import Trainer
from josrc.runs.data import with_noise_rate
from josrc.runs.start import plan

METHODS = ("standard", "josrc", "posterior", "gce", "elr", "sop")
NETWORK, SIDE = "tf_efficientnet_lite0", 64
TRAINING, TESTED = 800, 600
Images = NDArray[np.uint8]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Pictures:
    """A small set: pictures, true labels, and given ones of several kinds by their names."""

    name: str
    images: Images
    true: Labels
    given: dict[str, Labels]
    test_images: Images
    test_labels: Labels


def main() -> None:
    """Train every method in every cell, and keep what came of it after each of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", nargs="*", default=METHODS)
    parser.add_argument("--sets", nargs="*", help="only these")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, Any] = {
        "network": NETWORK, "image_size": SIDE, "training": TRAINING, "versions": versions(),
    }  # fmt: skip
    for pictures in sets(asked.root):
        if asked.sets and pictures.name not in asked.sets:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            for noise, given in pictures.given.items():
                wrong = float(np.mean(given != pictures.true))
                cell: dict[str, Any] = {"wrong_share": wrong}
                found[f"{pictures.name}, {noise}"] = cell
                for method in asked.methods:
                    runs = [
                        run(pictures, given, method, seed, Path(scratch))
                        for seed in range(asked.seeds)
                    ]
                    cell[method] = runs
                    write_text(asked.out, json.dumps(found, indent=1) + "\n")
                    mean = statistics.fmean(each["last10_mean"] for each in runs)
                    print(f"{pictures.name}, {noise}, {method}: {mean:.2f}", flush=True)


def sets(root: Path) -> Iterator[Pictures]:
    """Photographs with people's labels, photographs of look-alikes, and digits."""
    chosen = np.random.default_rng(0)
    with np.load(root / "cifar10.npz", allow_pickle=False) as file:
        train = chosen.permutation(len(file["train_labels"]))[:TRAINING]
        test = chosen.permutation(len(file["test_labels"]))[:TESTED]
        true = file["train_labels"][train].astype(np.int64)
        people = {name: file[name][train].astype(np.int64) for name in ("aggregate", "worst")}
        yield Pictures(
            "CIFAR-10N", file["train_images"][train], true, {"none": true, **people},
            file["test_images"][test], file["test_labels"][test].astype(np.int64),
        )  # fmt: skip
    images, true = look_alikes(root)
    order = chosen.permutation(len(true))
    train, test = order[:TRAINING], order[TRAINING:][:TESTED]
    yield Pictures(
        "look-alikes", images[train], true[train],
        {
            "symmetric 0.3": noisy(true[train], "symmetric", 0.3, 8),
            "pairs 0.3": confuse_pairs(true[train], 0.3, 1),
        },
        images[test], true[test],
    )  # fmt: skip
    digits = load_digits()
    order = chosen.permutation(len(digits.target))
    grey = np.repeat((digits.images[order] * 255 / 16).astype(np.uint8)[..., None], 3, axis=3)
    large = grey.repeat(4, axis=1).repeat(4, axis=2)
    labels = digits.target[order].astype(np.int64)
    true, rest = labels[:TRAINING], labels[TRAINING:]
    yield Pictures(
        "digits", large[:TRAINING], true,
        {"asymmetric 0.4": noisy(true, "asymmetric", 0.4, 10)},
        large[TRAINING:][:TESTED], rest[:TESTED],
    )  # fmt: skip


def noisy(true: Labels, noise: str, rate: float, classes: int) -> Labels:
    """Labels with noise that is drawn with seed 1."""
    return draw_labels(true, transition_matrix(noise, rate, classes, classes), 1)


def run(
    pictures: Pictures, given: Labels, method: str, seed: int, scratch: Path
) -> dict[str, float]:
    """One training; features of the same views are computed once for all."""
    begun = time.process_time()
    config, source = plan(
        (pictures.images, given), test=(pictures.test_images, pictures.test_labels),
        layers=[{"data": {"near_duplicates": False}}], model=NETWORK, pretrained=True,
        train="head", image_size=SIDE, method=method, seed=seed, device="cpu",
    )  # fmt: skip
    assert source is not None
    config = with_noise_rate(config, source)
    folder = RunFolder(scratch / "run")
    trainer = Trainer(config, source, folder)
    if folder.path.exists():
        folder.clear()
    folder.create(config, source, trainer.device)
    kept = scratch / f"{config.views.strong}-{config.views.policy}.safetensors"
    if kept.is_file():
        folder.frozen.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(kept, folder.frozen)
    summary = trainer.run()
    if not kept.is_file():
        shutil.copy(folder.frozen, kept)
    return {
        "seed": seed,
        "last10_mean": summary["last10_mean"],
        "best": summary["best"],
        "epochs": config.epochs,
        "seconds_of_processors": time.process_time() - begun,
    }


if __name__ == "__main__":
    main()
