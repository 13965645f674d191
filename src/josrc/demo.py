"""``josrc demo``: a minute that shows what wrong labels do, and what Jo-SRC does about them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from josrc._console import say
from josrc.engine.run_folder import free_name
from josrc.runs.run import Run
from josrc.runs.start import configure, start
from josrc.verdicts.table import VERDICT_TITLES

NOISE, RATE = "symmetric", 0.5


def run_demo(out: Path | None, epochs: int | None, console: Console) -> list[Run]:
    """Train Standard and Jo-SRC on ``digits-o`` under heavy noise and print a small table."""
    folder = out or free_name(Path("runs") / "demo")
    say(
        console,
        f"Digits 0 to 7, {RATE:.0%} of their labels wrong, all 8s and 9s mixed in as foreigners.",
    )
    runs = []
    for method in ("standard", "josrc"):
        config = configure("digits-o", noise=NOISE, rate=RATE, method=method, epochs=epochs)
        runs.append(start(config, folder / method, console=console))
    console.print(_table(runs))
    found = runs[-1].path / "audit"
    say(
        console,
        f"Every verdict with its reason: {found / 'verdicts.csv'}\n"
        f"See which digits it doubts, in a browser: {found / 'report.html'}\n"
        "On images of your own: josrc train FOLDER",
    )
    return runs


def _table(runs: list[Run]) -> Table:
    table = Table(title="Test accuracy, and verdicts on the training samples (share of them right)")
    for column in ("method", "accuracy", *VERDICT_TITLES.values(), "seconds"):
        table.add_column(
            column.replace("_", " "), justify="left" if column == "method" else "right"
        )
    for run in runs:
        table.add_row(
            run.summary["method"],
            f"{run.summary['last10_mean']:.1f} %",
            *_verdicts(run),
            f"{run.summary['seconds_total']:.0f}",
        )
    return table


def _verdicts(run: Run) -> list[str]:
    """How many samples got each verdict, and what share of them rightly; the truth is known."""
    verdict = run.verdicts()["verdict"].to_numpy()
    with np.load(run.path / "noise.npz") as labels:
        kind = labels["kind"]
    really = [kind[verdict == title] == group for group, title in VERDICT_TITLES.items()]
    return [f"{len(right)} ({100 * right.mean():.0f} %)" if len(right) else "0" for right in really]
