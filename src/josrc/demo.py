"""``josrc demo``: two minutes that show what wrong labels do, and what Jo-SRC does about them."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from josrc.engine.runfolder import free_name
from josrc.runs import Run, configure, start

NOISE, RATE = "symmetric", 0.5


def run_demo(out: Path | None, epochs: int | None, console: Console) -> list[Run]:
    """Train Standard and Jo-SRC on ``digits-o`` under heavy noise and print a small table."""
    folder = out or free_name(Path("runs") / "demo")
    console.print(
        f"Digits 0 to 7, {RATE:.0%} of their labels wrong, all 8s and 9s mixed in as foreigners.",
        highlight=False,
    )
    runs = []
    for method in ("standard", "josrc"):
        config = configure("digits-o", noise=NOISE, rate=RATE, method=method, epochs=epochs)
        runs.append(start(config, folder / method, console=console))
    console.print(_table(runs))
    for run in runs:
        console.print(f"{run.path}  plots: {run.path / 'plots'}", highlight=False, soft_wrap=True)
    return runs


def _table(runs: list[Run]) -> Table:
    table = Table(title="digits-o: accuracy on clean test images, precision of the selection")
    for column in (
        "method",
        "test accuracy",
        "clean",
        "ID noisy",
        "out of distribution",
        "seconds",
    ):
        table.add_column(column, justify="left" if column == "method" else "right")
    for run in runs:
        last = run.metrics[-1]
        precisions = [last[f"{group}_precision"] for group in ("clean", "id", "ood")]
        table.add_row(
            run.summary["method"],
            f"{run.summary['last10_mean']:.1f} %",
            *("-" if p is None else f"{p:.0f} %" for p in precisions),
            f"{run.summary['seconds_total']:.0f}",
        )
    return table
