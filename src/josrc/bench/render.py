"""The comparison with the paper, in the terminal and as RESULTS.md, from ``results/`` alone."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from josrc.bench.paper import CELLS, TABLES, Cell, PaperTable, Score
from josrc.bench.results import load_results

Results = dict[Path, dict[str, Any]]
HEADER = ("method", "noise", "paper", "josrc", "difference")
NOTE = (
    "Test accuracy in %, mean over the last 10 epochs, ± over seeds (n: how many runs stand behind "
    "the number). Every run is listed below and lies in `results/`; none was left out."
)


def runs_of(results: Results, table: PaperTable, cell: Cell, method: str) -> list[dict[str, Any]]:
    """Results of one method in one cell."""
    place = f"{table.data}-{cell.key}/{method}/"
    return [result for path, result in results.items() if place in path.as_posix()]


def ours(runs: list[dict[str, Any]]) -> str:
    """``65.54 ± 0.10 (n=3)``."""
    if not runs:
        return "not run"
    means = [run["last10_mean"] for run in runs]
    spread = f" ± {statistics.stdev(means):.2f}" if len(means) > 1 else ""
    return f"{statistics.fmean(means):.2f}{spread} (n={len(means)})"


def difference(runs: list[dict[str, Any]], score: Score) -> str:
    """How far our mean lies above the paper's."""
    if not runs:
        return ""
    return f"{statistics.fmean(run['last10_mean'] for run in runs) - score.mean:+.2f}"


def rows_of(table: PaperTable, results: Results) -> Iterable[tuple[str, str, str, str, str]]:
    """Method, cell, paper, ours and difference of every cell of a table."""
    from josrc.methods import method_names

    for method in (m for m in table.scores if m in method_names()):
        for cell in CELLS:
            score = table.score(method, cell)
            assert score is not None
            runs = runs_of(results, table, cell, method)
            paper = f"{score.mean:.2f} ± {score.spread:.2f}"
            yield method, cell.title, paper, ours(runs), difference(runs, score)


def show(suite: str, root: Path, console: Console) -> None:
    """Print a table of the paper beside ours."""
    from josrc.errors import UserError

    if suite not in TABLES:
        raise UserError(f"Unknown suite '{suite}'. Known: {', '.join(TABLES)}.")
    results, problems = load_results(root, suite)
    table = Table(*HEADER, title=TABLES[suite].title)
    for row in rows_of(TABLES[suite], results):
        table.add_row(*row)
    console.print(table)
    for problem in problems:
        console.print(f"skipped {problem}", highlight=False, soft_wrap=True)


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
