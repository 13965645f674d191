"""Pages rendered from results that a test has put there."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from bench_results import PutResult
from josrc.bench.render import render, show
from josrc.bench.results import load_results
from josrc.bench.tables import FOLDERS

SYM20 = "table2/cifar80n-o-symmetric-0.2"


def page_of(root: Path) -> str:
    return render(load_results(root, FOLDERS))


def shown(suite: str, root: Path, width: int = 200) -> str:
    console = Console(record=True, width=width, file=io.StringIO())
    show(suite, root, console)
    return console.export_text()


def two_seeds(put_result: PutResult) -> None:
    """Three epochs of two runs; the second failed before its third."""
    for seed, accuracies in enumerate(([10.0, 20.0, 30.0], [12.0, 26.0])):
        epochs = list(range(1, len(accuracies) + 1))
        metrics = {"epoch": epochs, "test_accuracy": accuracies, "fit_id": [None, 5.0, 6.0]}
        metrics["fit_id"] = metrics["fit_id"][: len(epochs)]
        put_result(f"{SYM20}/josrc/augmented", seed, metrics=metrics)
