"""The comparison with the paper, in the terminal and as RESULTS.md, from ``results/`` alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import quote

from rich import box
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from josrc._console import say
from josrc._io import write_text
from josrc._reading import regular
from josrc.bench.audit_tables import audit_table, three_verdicts_table
from josrc.bench.calibration_figure import (
    CALIBRATION,
    CALIBRATION_NOTE,
    CALIBRATION_TITLE,
    calibration_curves,
    described_calibration,
    write_calibration,
)
from josrc.bench.figures import described, figures_of, write_figure
from josrc.bench.ours import development_table, ours_table
from josrc.bench.paper import METHOD_TITLES
from josrc.bench.plan import DEVELOPMENT, DEVELOPMENT_OPEN, GROUPS, VARIED
from josrc.bench.provenance import origins, short
from josrc.bench.results import Results, load_results
from josrc.bench.tables import (
    FOLDERS,
    TableView,
    ablation_table,
    accuracy_table,
    backbone_table,
    own_table,
    selection_table,
)
from josrc.bench.varied import varied_table
from josrc.errors import UserError

NOTE = (
    "± is over seeds, n the number of runs behind a number; the paper's are means of five. A "
    "difference is ours less the paper's. Every run is listed at the end and lies in `results/`; "
    "none was left out unless a note says so. A failed run counts with chance in the epochs that "
    "it never reached. Rows marked (earlier) were made before their method was fixed. "
    "[docs/paper/reproduce.md](docs/paper/reproduce.md) has the commands.\n"
    "\n"
    "Recipe `augmented` is Jo-SRC's: random crops and flips. `plain` is JoCoR's: images as they "
    "are. The paper's Table 1 mixes them: it quotes the baselines from JoCoR and trains Jo-SRC "
    "itself. So each baseline has a row for either, beside the same published number.\n"
    "\n"
    "Asymmetric noise is the cyclic pair flip of the published Jo-SRC code. JoCoR flips inside "
    "blocks of five classes and forgets at half the rate; on CIFAR100N-C `plain` does so too in "
    "Asym-40, for every method that forgets: a guess for all but JoCoR."
)

# The tables of each suite, in the order of the paper.
VIEWS: dict[str, tuple[Callable[[str, Results], TableView], ...]] = {
    "table1": (accuracy_table,),
    "table2": (accuracy_table,),
    "table3": (backbone_table,),
    "table4": (backbone_table,),
    "selection": (selection_table,),
    "ablation": (ablation_table,),
    **dict.fromkeys(VARIED, (varied_table,)),
    "others-c": (own_table,),
    "others-o": (own_table,),
    "ours-c": (ours_table,),
    "ours-o": (ours_table,),
    "ours-n": (ours_table,),
    DEVELOPMENT: (development_table,),
    DEVELOPMENT_OPEN: (development_table,),
    "digits": (own_table,),
    "audit": (audit_table, three_verdicts_table),
}

# In the terminal methods have room for their whole names.
NAME_WIDTH = max(map(len, METHOD_TITLES.values()))

# A file beside the results: what a reader should know of single runs.
NOTES = "notes.md"

FIGURES_NOTE = (
    "Means over seeds; a band is ± one standard deviation. A CSV lies beside each. What is clean "
    "to Co-teaching+ are small losses in the whole batch; it trains on those in dispute alone."
)


def show(suite: str, root: Path, console: Console) -> None:
    """Print a table of the paper beside ours, or the tables of an audit."""
    if suite not in VIEWS and suite not in GROUPS:
        raise UserError(f"Unknown suite '{suite}'. Known: {', '.join([*VIEWS, *GROUPS])}.")
    results = load_results(root, FOLDERS)
    for part in GROUPS.get(suite, (suite,)):
        for view_of in VIEWS[part]:
            _print(view_of(part, results), console)
        if told := origins(part, results):
            console.print(Text(told))
    for problem in results.problems:
        say(console, f"skipped {problem}")
    if not results.runs and not results.audits:
        say(console, f"There are no results in {root.absolute()}. Elsewhere: --results FOLDER.")


def _print(view: TableView, console: Console) -> None:
    for part in _fitting(view, console.width):
        # Six columns of a terminal's 80 characters: no room for vertical lines.
        table = Table(
            *(Column(view.header[column], width=width) for column, width in part.items()),
            title=view.title,
            box=box.HORIZONTALS,
            padding=(0, 1, 0, 0),
            show_lines=True,
        )
        for row in view.rows:
            table.add_row(*(Text(row[column]) for column in part))
        console.print(table)
    console.print(Text(view.note))


def _fitting(view: TableView, width: int) -> list[dict[int, int]]:
    """The columns in as few parts as fit a terminal without cutting a word, with their widths.

    Those that name a row are in every part.
    """
    texts = ["\n".join(column) for column in zip(view.header, *view.rows, strict=True)]
    words, lines = (
        [max(map(len, pieces)) for pieces in split]
        for split in (map(str.split, texts), map(str.splitlines, texts))
    )
    words[0] = max(words[0], NAME_WIDTH)
    names = {column: words[column] for column in range(view.names)}
    parts = [names]
    for column in range(view.names, len(view.header)):
        widened = parts[-1] | {column: words[column]}
        if _spare(widened, width) >= 0 or parts[-1] == names:
            parts[-1] = widened
        else:
            parts.append(names | {column: words[column]})
    return [_widened(part, lines, width) for part in parts]


def _spare(part: dict[int, int], width: int) -> int:
    """Characters that are left: two part the columns, one is the margin."""
    return width - 1 - sum(part.values()) - 2 * len(part)


def _widened(part: dict[int, int], lines: list[int], width: int) -> dict[int, int]:
    """What is left of a terminal's width goes to the columns whose lines are broken most."""
    part = dict(part)
    broken = {column: lines[column] - given for column, given in part.items()}
    for _ in range(_spare(part, width)):
        column = max(broken, key=lambda column: broken[column])
        if broken[column] <= 0:
            break
        part[column] += 1
        broken[column] -= 1
    return part


def write_results(root: Path, page: Path) -> None:
    """Write the figures into ``root/figures`` and the page that shows them."""
    if not root.is_dir():
        raise UserError(f"{root} does not exist: there are no results to render.")
    results = load_results(root, FOLDERS)
    for figure in figures_of(results):
        write_figure(figure, results, root / "figures")
    if calibration_curves(results):
        write_calibration(results, root / "figures")
    beside = Path(os.path.relpath(root / "figures", page.parent)).as_posix()
    notes = root / NOTES
    write_text(page, render(results, beside, regular(notes).read_text() if notes.is_file() else ""))


def render(results: Results, figures: str = "results/figures", notes: str = "") -> str:
    """RESULTS.md.

    Args:
        results: what there is.
        figures: their folder as seen from the page.
        notes: what else a reader should know of these runs.
    """
    lines = ["# Results", "", "Written by `josrc bench render` from `results/`. Do not edit.", ""]
    lines += [NOTE, *(["", notes.strip()] if notes else [])]
    for name, views in VIEWS.items():
        for view in (view_of(name, results) for view_of in views):
            below = [view.note, *(["", told] if (told := origins(name, results)) else [])]
            lines += ["", f"## {view.title}", "", *below]
            lines += ["", *_markdown(view.header, view.rows)]
    lines += ["", "## Figures", "", FIGURES_NOTE, ""]
    shown = figures_of(results)
    for figure in shown:
        said = described(figure, results)
        lines += [*_figure(figure.title, said, figure.name, quote(figures)), ""]
    if calibration_curves(results):
        said = described_calibration(results)
        shown_as = _figure(CALIBRATION_TITLE, said, CALIBRATION, quote(figures))
        lines += [*shown_as, "", CALIBRATION_NOTE, ""]
    lines += ["## Runs", "", *_runs(results)]
    if results.problems:
        lines += ["", "Skipped:", "", *(f"- {problem}" for problem in results.problems)]
    return "\n".join(lines) + "\n"


def _figure(title: str, said: str, name: str, folder: str) -> list[str]:
    """A picture below its title; ``said`` is what it shows, in words."""
    picture, table = f"{folder}/{name}.png", f"{folder}/{name}.csv"
    return [f"### {title}", "", f"![{said}]({picture})", "", f"[CSV]({table})"]


def _runs(results: Results) -> list[str]:
    """Every single run, with where and how long it ran."""
    if not results.runs:
        return ["None yet."]
    header = (
        "run",
        "noise",
        "last 10",
        "best (epoch)",
        "final",
        "seconds",
        "device",
        "torch",
        "commit",
    )
    rows = [
        (
            path.with_suffix("").as_posix(),
            run.noise or "",
            f"{run.last10_mean:.2f}" + (" (failed)" if run.failed else ""),
            f"{run.best:.2f} ({run.best_epoch})",
            f"{run.final:.2f}",
            f"{run.seconds_total:.0f}",
            run.device,
            run.versions.get("torch", ""),
            short(run.commit),
        )
        for path, run in results.runs.items()
    ]
    note = (
        "Seconds are of training and testing, with the compilation of the first step of a process."
    )
    return [note, "", *_markdown(header, rows)]


def _markdown(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    return lines + [f"| {' | '.join(row)} |".replace("\n", "<br>") for row in rows]
