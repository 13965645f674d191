"""Accuracy against the seconds somebody waits for it: from the command to its exit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Table

from josrc._console import say
from josrc._io import write_csv, write_text
from josrc._reading import read_json
from josrc.bench.figures import SMALL
from josrc.bench.paper import ASYM40, METHOD_TITLES, SYM20, SYM50, TABLES, Cell
from josrc.config import DataKind
from josrc.engine.run_folder import RunFolder
from josrc.errors import UserError, reason
from josrc.methods import get_method
from josrc.runs.plots import create_figure, save_figure
from josrc.runs.resolve import recipe_of

METHODS = ("standard", "josrc", "dividemix", "posterior")
# The longest first: what is compiled for it is there for the others.
EPOCHS = (200, 100, 50, 20, 10)
CELLS: dict[str, tuple[Cell, ...]] = {
    "cifar80n-o": (SYM20, ASYM40),
    "cifar100n-c": (SYM50,),
    "digits-o": (SYM20,),
}
DEFAULT = ("cifar80n-o", "cifar100n-c")
NAME, TITLE = "time", "Accuracy against time, from command to exit"
CSV_HEADER = (
    "data", "cell", "method", "recipe", "epochs", "seed", "seconds", "accuracy", "device",
)  # fmt: skip
AUGMENTED = "augmented"
COLOURS = ("#7f7f7f", "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9")


@dataclass(frozen=True)
class Schedule:
    """A run of so many epochs."""

    data: str
    cell: Cell
    method: str
    epochs: int
    recipe: str = AUGMENTED
    seed: int = 0

    @property
    def path(self) -> Path:
        """``time/cifar80n-o-symmetric-0.2/josrc/epochs-50.json``, below the results.

        Before ``epochs`` stands another recipe, behind the number another seed than 0.
        """
        recipe = "" if self.recipe == AUGMENTED else f"{self.recipe}-"
        seed = f"-seed-{self.seed}" if self.seed else ""
        folder = Path(NAME) / f"{self.data}-{self.cell.key}" / self.method
        return folder / f"{recipe}epochs-{self.epochs}{seed}.json"

    @property
    def line(self) -> str:
        """What its line in the figure is called."""
        recipe = "" if self.recipe == AUGMENTED else f", {self.recipe}"
        return f"{METHOD_TITLES[self.method]}{recipe}"

    @property
    def title(self) -> str:
        """What it is called on screen."""
        seed = f", seed {self.seed}" if self.seed else ""
        return f"{self.line} {self.data} {self.cell.title}, {self.epochs} epochs{seed}"

    def command(self, options: Mapping[str, Any]) -> list[str]:
        """The words after ``josrc``, but for the folder."""
        words = ["train", self.data, "--noise", self.cell.noise, "--rate", f"{self.cell.rate:g}"]
        words += ["--method", self.method, "--epochs", str(self.epochs), "--quiet"]
        words += ["--recipe", self.recipe] if self.recipe != AUGMENTED else []
        words += ["--seed", str(self.seed)] if self.seed else []
        for name, value in options.items():
            words += [f"--{name}", str(value)] if value is not None else []
        return words


def run_times(
    *,
    data: Sequence[str],
    methods: Sequence[str],
    epochs: Sequence[int],
    options: Mapping[str, Any],
    results: Path,
    scratch: Path,
    console: Console,
    recipe: str = AUGMENTED,
    seeds: int = 1,
) -> None:
    """Train every schedule that has no file yet, each in a process of its own, and draw them all.

    Args:
        data: names; each has its own cells.
        methods: keys.
        epochs: lengths of the schedules; of another recipe than ``augmented`` its own by default.
        options: of ``josrc train``, those that are not None.
        results: where files and figure go.
        scratch: where run folders go.
        console: where it is said.
        recipe: that of the data, as ``fast``.
        seeds: runs per schedule.
    """
    schedules = _schedules(data or DEFAULT, methods or METHODS, epochs, recipe, seeds)
    missing = [one for one in schedules if not (results / one.path).is_file()]
    made = len(schedules) - len(missing)
    say(console, f"{NAME}: {len(schedules)} runs, {made} of them already done.")
    for schedule in missing:
        run = _measure(schedule, options, scratch / schedule.path.with_suffix(""))
        write_text(results / schedule.path, json.dumps(run, indent=1) + "\n")
        said = f"{run['accuracy']:.2f} % after {run['seconds']:.1f} s"
        say(console, f"{schedule.title}: {said}")
    found = read_times(results)
    write_csv(results / "figures" / f"{NAME}.csv", _rows(found), line_end="\n")
    means = _means(found)
    _draw(means, results / "figures" / f"{NAME}.png")
    _show(means, console)
    say(console, f"Wrote {results / 'figures' / NAME}.png and .csv.")


def _schedules(
    data: Sequence[str], methods: Sequence[str], epochs: Sequence[int], recipe: str, seeds: int
) -> list[Schedule]:
    for name in data:
        if name not in CELLS:
            raise UserError(f"'{name}' is not timed. There are: {', '.join(CELLS)}.")
    for method in methods:
        get_method(method)
    for wrong in [count for count in epochs if count < 1]:
        raise UserError(f"--epochs {wrong}: a schedule has one epoch or more.")
    lengths = {name: epochs or _lengths(name, recipe) for name in data}
    return [
        Schedule(name, cell, method, count, recipe, seed)
        for name in data
        for cell in CELLS[name]
        for method in methods
        for count in sorted(lengths[name], reverse=True)
        for seed in range(seeds)
    ]


def _lengths(data: str, recipe: str) -> Sequence[int]:
    """The schedules of the usual recipe; of another one the length that it has."""
    known = recipe_of(data, DataKind.BUILTIN, recipe)
    return EPOCHS if recipe == AUGMENTED else (int(known["epochs"]),)


def _measure(schedule: Schedule, options: Mapping[str, Any], place: Path) -> dict[str, Any]:
    """Train once; a run that stood there goes."""
    run = RunFolder(place)
    with run.locked():
        run.clear()
    command = schedule.command(options)
    begun = time.perf_counter()
    words = [sys.executable, "-m", "josrc", *command, "--out", str(run.path)]
    done = subprocess.run(words, capture_output=True, text=True)
    seconds = time.perf_counter() - begun
    if done.returncode:
        last = (done.stderr or done.stdout).strip()[-2000:]
        raise UserError(f"josrc {' '.join(command)} ended with {done.returncode}: {last}")
    summary = read_json(run.summary)
    environment = read_json(run.path / "environment.json")
    return {
        "data": schedule.data,
        "noise": schedule.cell.noise,
        "rate": schedule.cell.rate,
        "method": schedule.method,
        "recipe": schedule.recipe,
        "epochs": schedule.epochs,
        "seed": schedule.seed,
        "seconds": seconds,
        "seconds_of_epochs": summary["seconds_total"],
        "accuracy": summary["final"],
        "best": summary["best"],
        "command": f"josrc {' '.join(command)}",
        "cpu_cores": os.cpu_count(),
        "device": environment["device"],
        "versions": environment["versions"],
    }


def read_times(results: Path) -> list[dict[str, Any]]:
    """What every schedule has reached, in the order of data, cell, method, epochs and seed.

    Raises:
        UserError: a file among them is none of theirs.
    """
    found = []
    for path in (results / NAME).glob("*/*/*epochs-*.json"):
        try:
            one: dict[str, Any] = {"recipe": AUGMENTED, "seed": 0, **read_json(path)}
            cell = Cell(one["noise"], one["rate"])
            schedule = Schedule(
                one["data"], cell, one["method"], one["epochs"], one["recipe"], one["seed"]
            )
            if results / schedule.path != path:
                raise ValueError("by what it says, it belongs elsewhere")
            measured = {name: float(one[name]) for name in ("seconds", "accuracy")}
            found.append({**one, **measured, "cell": cell, "line": schedule.line})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path} is no result of josrc bench time: {reason(error)}") from None
    order = list(METHOD_TITLES)
    return sorted(
        found,
        key=lambda one: (
            one["data"], one["cell"].key, order.index(one["method"]), one["recipe"],
            one["epochs"], one["seed"],
        ),
    )  # fmt: skip


def _rows(found: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[Any]]:
    yield CSV_HEADER
    for one in found:
        schedule = one["data"], one["cell"].key, *(one[name] for name in CSV_HEADER[2:6])
        yield (*schedule, f"{one['seconds']:.2f}", f"{one['accuracy']:.4f}", one["device"])


def _means(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The mean over the seeds of every schedule."""
    means = []
    for _, group in groupby(
        found, key=lambda one: [one[name] for name in ("data", "cell", "line", "epochs")]
    ):
        runs = list(group)
        values = {name: fmean(run[name] for run in runs) for name in ("seconds", "accuracy")}
        means.append({**runs[0], **values, "runs": len(runs)})
    return means


def _by_panel(means: Sequence[Mapping[str, Any]]) -> dict[tuple[str, Cell], dict[str, list[Any]]]:
    """By data and cell, and then by line of the figure."""
    panels: dict[tuple[str, Cell], dict[str, list[Any]]] = {}
    for one in means:
        lines = panels.setdefault((one["data"], one["cell"]), {})
        lines.setdefault(one["line"], []).append(one)
    return panels


def published(data: str, cell: Cell) -> float | None:
    """What the paper reports for Jo-SRC after 200 epochs, if it has the data."""
    tables = [table for table in TABLES.values() if table.data == data]
    return tables[0].score("josrc", cell).mean if tables else None


def _draw(means: Sequence[Mapping[str, Any]], path: Path) -> None:
    panels = _by_panel(means)
    canvas, axes = create_figure(1, max(len(panels), 1), (5.2 * max(len(panels), 1), 4.6))
    colours = dict(zip(METHODS, COLOURS, strict=False))
    for axis, ((data, cell), lines) in zip(axes.flat, panels.items(), strict=False):
        for line, runs in lines.items():
            seconds, reached = ([run[name] for run in runs] for name in ("seconds", "accuracy"))
            colour = colours.get(runs[0]["method"], COLOURS[-1])
            style = "o-" if runs[0]["recipe"] == AUGMENTED else "D"
            axis.plot(seconds, reached, style, lw=1.8, color=colour, label=line)
            for run in runs:
                place = run["seconds"], run["accuracy"]
                axis.annotate(run["epochs"], place, (0, 6), textcoords="offset points", **SMALL)
        if (paper := published(data, cell)) is not None:
            axis.axhline(paper, color="#7f7f7f", ls="--", lw=1)
            axis.annotate("paper, 200 epochs", (0.02, paper), (0, 3), ("axes fraction", "data"),
                          "offset points", **SMALL)  # fmt: skip
        axis.set_xscale("log")
        axis.set_title(f"{data} {cell.title}", loc="left", fontsize=12, fontweight="bold")
        axis.set(xlabel="seconds from command to exit", ylabel="test accuracy (%)")
        axis.legend(frameon=False, fontsize=9, loc="lower right")
    canvas.suptitle(f"{TITLE}; numbers are epochs", fontsize=13)
    save_figure(canvas, path)


def _show(means: Sequence[Mapping[str, Any]], console: Console) -> None:
    """The table, and where the paper's accuracy is reached soonest."""
    table = Table(title=TITLE)
    for column in ("data", "method", "epochs", "runs", "seconds", "accuracy"):
        table.add_column(column, justify="left" if column in ("data", "method") else "right")
    for one in means:
        table.add_row(
            f"{one['data']} {one['cell'].title}",
            one["line"],
            str(one["epochs"]),
            str(one["runs"]),
            f"{one['seconds']:.1f}",
            f"{one['accuracy']:.2f}",
        )
    console.print(table)
    for (data, cell), lines in _by_panel(means).items():
        paper = published(data, cell)
        runs = [run for some in lines.values() for run in some]
        there = [run for run in runs if paper is not None and run["accuracy"] >= paper]
        if paper is None:
            continue
        best = min(there, key=lambda run: run["seconds"], default=None)
        reached = (
            f"reached in {best['seconds']:.1f} s by {best['line']}, {best['epochs']} epochs"
            if best
            else "not reached"
        )
        say(console, f"{data} {cell.title}: the paper's {paper:.2f} % {reached}.")
