"""The comparison with the paper, in the terminal and as RESULTS.md, from ``results/`` alone."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from josrc.bench.paper import CELLS, TABLES, Cell, PaperTable, Score
from josrc.bench.results import load_results
from josrc.errors import UserError
from josrc.methods import method_names
from josrc.terminal import say

Results = dict[Path, dict[str, Any]]
HEADER = ("method", "recipe", "noise", "paper", "josrc", "difference")
NOTE = (
    "Test accuracy in %, mean over the last 10 epochs, ± over seeds (n: how many runs stand behind "
    "the number). Every run is listed below and lies in `results/`; none was left out. Seconds are "
    "of training and testing; where a process compiles its first step, that is in them.\n\n"
    "Asymmetric noise is the cyclic pair flip of the published Jo-SRC code. JoCoR, whose protocol "
    "the paper names for CIFAR100N-C, flips inside blocks of five classes (`--noise block`)."
)


def runs_of(
    results: Results, table: PaperTable, cell: Cell, method: str, recipe: str
) -> list[dict[str, Any]]:
    """Results of one method in one cell with one recipe."""
    place = f"{table.data}-{cell.key}/{method}/{recipe}/"
    return [result for path, result in results.items() if place in path.as_posix()]


def ours(runs: list[dict[str, Any]]) -> str:
    """``65.54 ± 0.10 (n=3)``; a failed run counts with what it had reached."""
    if not runs:
        return "not run"
    means = [run["last10_mean"] for run in runs]
    spread = f" ± {statistics.stdev(means):.2f}" if len(means) > 1 else ""
    failed = sum("failed" in run for run in runs)
    note = f", {failed} failed" if failed else ""
    return f"{statistics.fmean(means):.2f}{spread} (n={len(means)}{note})"


def difference(runs: list[dict[str, Any]], score: Score) -> str:
    """How far our mean lies above the paper's."""
    if not runs:
        return ""
    return f"{statistics.fmean(run['last10_mean'] for run in runs) - score.mean:+.2f}"


def rows_of(table: PaperTable, results: Results) -> Iterable[tuple[str, ...]]:
    """Method, recipe, cell, paper, ours and difference of every cell of a table."""
    recipes = sorted({path.parts[3] for path in results} | {"augmented"})
    for method in (m for m in table.scores if m in method_names()):
        for recipe, cell in product(recipes, CELLS):
            score = table.score(method, cell)
            assert score is not None
            runs = runs_of(results, table, cell, method, recipe)
            if runs or recipe == "augmented":
                paper = f"{score.mean:.2f} ± {score.spread:.2f}"
                yield method, recipe, cell.title, paper, ours(runs), difference(runs, score)


def show(suite: str, root: Path, console: Console) -> None:
    """Print a table of the paper beside ours."""
    if suite not in TABLES:
        raise UserError(f"Unknown suite '{suite}'. Known: {', '.join(TABLES)}.")
    results, problems = load_results(root, suite)
    table = Table(*HEADER, title=TABLES[suite].title)
    for row in rows_of(TABLES[suite], results):
        table.add_row(*row)
    console.print(table)
    for problem in problems:
        say(console, f"skipped {problem}")


def render(root: Path) -> str:
    """RESULTS.md."""
    lines = [
        "# Results",
        "",
        "Written by `josrc bench render` from `results/`. Do not edit.",
        "",
        NOTE,
    ]
    for suite, table in TABLES.items():
        results, problems = load_results(root, suite)
        lines += ["", f"## {table.title} (Table {table.number} of the paper)", ""]
        lines += _markdown(HEADER, rows_of(table, results))
        lines += ["", *(f"Skipped {problem}" for problem in problems)]
        lines += _runs(results)
    return "\n".join(lines).rstrip() + "\n"


def _runs(results: Results) -> list[str]:
    """Every single run, with where and how long it ran."""
    if not results:
        return []
    header = ("run", "last 10", "best (epoch)", "final", "seconds", "device", "torch")
    rows = [
        (
            path.relative_to(path.parts[0]).with_suffix("").as_posix(),
            f"{r['last10_mean']:.2f}",
            f"{r['best']:.2f} ({r['best_epoch']})",
            f"{r['final']:.2f}",
            f"{r['seconds_total']:.0f}",
            r["device"],
            r["versions"]["torch"],
        )
        for path, r in results.items()
    ]
    return ["Runs:", "", *_markdown(header, rows)]


def _markdown(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    return lines + [f"| {' | '.join(row)} |" for row in rows]
