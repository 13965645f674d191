"""What came of a sweep: one table, in the terminal and as CSV, and its picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from josrc._console import say
from josrc._io import write_csv
from josrc.engine.run_folder import RunFolder
from josrc.errors import UserError
from josrc.runs.plots import create_figure, save_figure
from josrc.sweep.plan import SweepPlan, Trial
from josrc.sweep.record import Record, SweepFolder

# Of the run folders; test accuracy is left where it is, as nothing may be chosen by it.
NUMBERS = ("agreement", "estimated_precision", "noise_rate", "seconds")
# This many runs are shown in a terminal; the CSV has all of them.
MAX_LISTED_RUNS = 30

Line = dict[str, Any]


def write_table(plan: SweepPlan, trials: Sequence[Trial], folder: SweepFolder) -> list[Line]:
    """Write ``table.csv`` and ``parallel.png``; the lines, the best first where there is a metric.

    A run that was stopped is behind all that were trained to their end: its last value is of an
    earlier epoch.
    """
    lines = [_line(plan, trial, folder) for trial in trials]
    if plan.metric is not None:
        lines.sort(key=lambda line: (line["state"] != "finished", -_known(line["value"])))
    columns = ["run", "state", "epochs", *plan.varied, "value", *NUMBERS, "message"]
    rows = [["" if line[key] is None else line[key] for key in columns] for line in lines]
    titles = [f"{plan.metric or 'value'}_last" if key == "value" else key for key in columns]
    write_csv(folder.table, [titles, *rows])
    plot_parallel(plan, lines, folder.picture)
    return lines


def _known(value: float | None) -> float:
    return -np.inf if value is None else value


def _line(plan: SweepPlan, trial: Trial, folder: SweepFolder) -> Line:
    run, record = folder.run(trial.name), Record.read(folder.record(trial.name))
    summary = run.read_summary() if run.summary.is_file() else {}
    audit = run.read_audit() or {}
    reached, value = record.reports[-1] if record.reports else (None, None)
    return {
        "run": trial.name,
        "state": folder.state(trial.name),
        "epochs": summary.get("epochs", _epochs(run) or reached),
        **trial.varied,
        "value": value,
        "agreement": summary.get("agreement"),
        "estimated_precision": audit.get("estimated_precision"),
        "noise_rate": audit.get("noise_rate"),
        "seconds": summary.get("seconds_total"),
        "message": record.message.partition("\n")[0],
    }


def _epochs(run: RunFolder) -> int | None:
    """Epochs that a run without a summary has been trained."""
    try:
        return len(run.read_metrics())
    except (OSError, UserError):
        return None


def show(lines: Sequence[Line], plan: SweepPlan, folder: SweepFolder, console: Console) -> None:
    """The table on a terminal, and where everything is."""
    # Of a finished run the last value of the metric is what its folder says.
    numbers = [name for name in NUMBERS if name != plan.metric]
    names = ("state", "epochs", *plan.varied, "value", *numbers)
    keys = [key for key in names if any(line[key] is not None for line in lines)]
    table = Table()
    table.add_column("run", no_wrap=True)
    for key in keys:
        title = str(plan.metric) if key == "value" else key
        table.add_column(title, overflow="fold", no_wrap=key == "state")
    for line in lines[:MAX_LISTED_RUNS]:
        table.add_row(line["run"], *(_cell(line[key]) for key in keys))
    console.print(table, markup=False)
    if len(lines) > MAX_LISTED_RUNS:
        say(console, f"{len(lines) - MAX_LISTED_RUNS:,} more runs are in the table.")
    best = lines[0]
    if plan.metric is not None and best["state"] == "finished" and best["value"] is not None:
        say(console, f"Best by {plan.metric}: {folder.run(best['run']).path}")
    say(console, f"Table: {folder.table}\nPicture: {folder.picture}")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


# --- the picture ---------------------------------------------------------------------------------


def plot_parallel(plan: SweepPlan, lines: Sequence[Line], path: Path) -> None:
    """Parallel coordinates: an axis for each setting that differs, the metric last, a line per run.

    Without a metric the last axis has the seconds. Runs without a value there are left out; those
    that were stopped are drawn thin.
    """
    import matplotlib

    last = "value" if plan.metric else "seconds"
    drawn = [line for line in lines if line[last] is not None]
    keys = [*plan.varied, last]
    logs = {key for key, span in plan.ranges.items() if span.log}
    figure, ((axes,),) = create_figure(size=(max(6.4, 1.7 * len(keys)), 4.6))
    axes.grid(False)
    heights = [_heights([line[key] for line in drawn], key in logs) for key in keys]
    colours = matplotlib.colormaps["viridis"]
    for place in np.argsort(heights[-1][0]):  # the best on top
        points = [height[0][place] for height in heights]
        whole = drawn[place]["state"] == "finished"
        axes.plot(
            range(len(keys)),
            points,
            color=colours(points[-1]),
            linewidth=1.8 if whole else 0.7,
            linestyle="-" if whole else ":",
        )
    for x, (_, ticks) in enumerate(heights):
        axes.axvline(x, color="0.4", linewidth=0.8)
        for height, text in ticks:
            axes.annotate(text, (x, height), (4, 0), textcoords="offset points", fontsize=8)
    axes.set_xticks(range(len(keys)), [*plan.varied, plan.metric or "seconds"])
    axes.set_yticks([])
    axes.set_xlim(-0.2, len(keys) - 0.4)
    axes.set_title(f"{len(drawn)} runs; dotted: stopped early", fontsize=9)
    for side in axes.spines.values():
        side.set_visible(False)
    save_figure(figure, path)


def _heights(values: Sequence[Any], log: bool) -> tuple[list[float], list[tuple[float, str]]]:
    """Where values are on an axis of length 1, and what stands beside it."""
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    if not values or not numbers:
        known = list(dict.fromkeys(map(str, values)))
        at = {name: (i + 0.5) / len(known) for i, name in enumerate(known)}
        return [at[str(value)] for value in values], [(at[name], name) for name in known]
    scaled = np.log(values) if log else np.asarray(values, dtype=float)
    low, high = scaled.min(), scaled.max()
    placed = (scaled - low) / (high - low) if high > low else np.full(len(values), 0.5)
    different = sorted(set(values))
    marked = different if len(different) <= 6 else [different[0], different[-1]]
    return placed.tolist(), [(float(placed[list(values).index(v)]), f"{v:.4g}") for v in marked]
