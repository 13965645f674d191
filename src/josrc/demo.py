"""``josrc demo``: a minute that shows what wrong labels do, and what Jo-SRC does about them."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from josrc.audit.folder import verdict_line
from josrc.engine.metrics import GROUPS, Row
from josrc.engine.runfolder import free_name
from josrc.runs import Run, configure, start
from josrc.terminal import say

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
    judged = runs[-1]
    if judged.audit:
        say(console, verdict_line(judged.audit, judged.path / "audit"))
    say(
        console,
        f"See which digits it doubts, in a browser: {judged.path / 'audit' / 'report.html'}\n"
        "On images of your own: josrc train FOLDER",
    )
    return runs


def _table(runs: list[Run]) -> Table:
    table = Table(title="Test accuracy, and what training samples were taken for (share rightly)")
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
        table.add_row(
            run.summary["method"],
            f"{run.summary['last10_mean']:.1f} %",
            *(_found(last, group) for group in GROUPS),
            f"{run.summary['seconds_total']:.0f}",
        )
    return table


def _found(row: Row, group: str) -> str:
    """How many samples were sorted into a group, and how many of them rightly."""
    count, precision = row[f"n_{group}"], row[f"{group}_precision"]
    if count is None:
        return "-"
    return f"{count:.0f}" if precision is None else f"{count:.0f} ({precision:.0f} %)"
