"""The paper's figures from our results, each with a CSV of what it shows."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from josrc._io import write_csv
from josrc.bench.paper import CELLS, SYM20, TABLES, Cell
from josrc.bench.plan import GROUPS, RECIPES, SUITES, Entry
from josrc.bench.results import Result, Results
from josrc.bench.tables import recipes_of, runs_of
from josrc.runs.plots import create_figure, save_figure

# Okabe and Ito's palette, which colour-blind people can tell apart; Jo-SRC has the strongest.
COLOURS = {
    "standard": "#7f7f7f",
    "decoupling": "#e69f00",
    "coteaching": "#56b4e9",
    "coteaching-plus": "#009e73",
    "jocor": "#cc79a7",
    "josrc": "#0072b2",
    "posterior": "#d55e00",
    "dividemix": "#009e73",
}
# Whose curves stand beside each other in the figures of our own method.
COMPARED = ("posterior", "josrc", "dividemix")
GROUP_CURVES = {
    "fit_clean": "Clean samples: given label",
    "fit_id": "ID noisy samples: given label",
    "fit_ood": "OOD samples: given label",
    "recover_id": "ID noisy samples: true label",
}
SMALL = {"fontsize": 9, "color": "#595959"}
CSV_HEADER = ("panel", "method", "recipe", "epoch", "mean", "std", "runs")


@dataclass(frozen=True)
class Panel:
    """One pair of axes: a column of the metrics in one cell."""

    key: str
    title: str
    cell: Cell
    column: str


@dataclass(frozen=True)
class Figure:
    """A figure: what it shows of a suite's runs with a recipe, a curve a method.

    Attributes:
        number: that of the paper; none for a figure that it does not have.
        subject: what is shown.
        label: of the upright axes.
        suite: whose runs.
        recipe: theirs.
        panels: pairs of axes.
        methods: only these; none: all of the suite.
    """

    number: int | None
    subject: str
    label: str
    suite: str
    recipe: str
    panels: tuple[Panel, ...]
    methods: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """``fig3-cifar80n-o``, without an ending."""
        other = "" if self.recipe == "augmented" else f"-{self.recipe}"
        start = "ours" if self.number is None else f"fig{self.number}"
        return f"{start}-{SUITES[self.suite].data}{other}"

    @property
    def title(self) -> str:
        """What it shows, and its number in the paper, which draws them for CIFAR80N-O alone."""
        data = next(t.title for t in TABLES.values() if t.data == SUITES[self.suite].data)
        if self.number is None:
            return f"{self.subject} on {data} (not in the paper)"
        origin = f"{'' if self.suite == 'table2' else 'as '}Fig. {self.number} of the paper"
        other = "" if self.recipe == "augmented" else f", recipe {self.recipe}"
        return f"{self.subject} on {data}{other} ({origin})"


class Point(NamedTuple):
    """A curve in one epoch, over the runs that reached it."""

    epoch: int
    mean: float
    std: float | None
    runs: int


class Line(NamedTuple):
    """A method's curve in a panel, and how many runs there are; a run may lack the column."""

    entry: Entry
    runs: int
    points: list[Point]


Drawn = dict[Panel, list[Line]]


def figures_of(results: Results) -> list[Figure]:
    """Figures 3 to 5; those of the plain recipe and of Posterior once there is a run of it."""
    run = {(path.parts[0], path.parts[3]) for path in results.runs}
    groups = tuple(Panel(column, text, SYM20, column) for column, text in GROUP_CURVES.items())
    figures = []
    for suite, recipe in product(("table2", "table1"), RECIPES):
        if recipe == "augmented" or (suite, recipe) in run:
            figures += [
                Figure(
                    3, "Test accuracy", "test accuracy (%)", suite, recipe, _cells("test_accuracy")
                ),
                Figure(
                    4, "Clean selection", "precision (%)", suite, recipe, _cells("clean_precision")
                ),
            ]
            if suite == "table2":
                subject = f"Predictions of training samples, {SYM20.title},"
                figures.append(Figure(5, subject, "accuracy (%)", suite, recipe, groups))
    figures.sort(key=lambda figure: figure.number or 0)
    for suite in GROUPS["ours"]:
        data = SUITES[suite].data
        own = [run for path, run in results.runs.items() if path.parts[0] == "ours"]
        key = "posterior", data, "augmented"
        if any((run.method, run.data, run.recipe) == key for run in own):
            panels = _cells("test_accuracy")
            subject, label = "Test accuracy of Posterior", "test accuracy (%)"
            figures.append(Figure(None, subject, label, suite, "augmented", panels, COMPARED))
    return figures


def _cells(column: str) -> tuple[Panel, ...]:
    return tuple(Panel(cell.key, cell.title, cell, column) for cell in CELLS)


def curve(runs: Sequence[Result], column: str) -> list[Point]:
    """Mean and spread of a column over runs, epoch by epoch."""
    columns = [run.points(column) for run in runs]
    points = []
    for epoch in sorted(set().union(*columns)):
        values = [known[epoch] for known in columns if epoch in known]
        std = statistics.stdev(values) if len(values) > 1 else None
        points.append(Point(epoch, statistics.fmean(values), std, len(values)))
    return points


def lines_of(figure: Figure, panel: Panel, results: Results) -> list[Line]:
    """A line for every method that a panel should show, empty for one without runs."""
    suite, lines = SUITES[figure.suite], []
    for entry in suite.entries:
        if figure.methods and (entry.method not in figure.methods or entry.recipe):
            continue
        selects = entry.method != "standard"  # Standard has no selection and so no precision
        if (selects or figure.number != 4) and figure.recipe in recipes_of(results, suite, entry):
            runs = runs_of(results, suite, panel.cell, entry, figure.recipe)
            lines.append(Line(entry, len(runs), curve(runs, panel.column)))
    return lines


def described(figure: Figure, results: Results) -> str:
    """A figure in words, for who can't see it: where each curve ends."""
    panels = []
    for panel in figure.panels:
        lines = [line for line in lines_of(figure, panel, results) if line.points]
        ends = [f"{line.entry.title} {line.points[-1].mean:.0f}" for line in lines]
        panels.append(f"{panel.title}: {', '.join(ends) or 'not run'}")
    return f"{figure.title}. Last epoch, in %. {'; '.join(panels)}"


def write_figure(figure: Figure, results: Results, folder: Path) -> None:
    """Write ``NAME.png`` and ``NAME.csv``."""
    drawn = {panel: lines_of(figure, panel, results) for panel in figure.panels}
    write_csv(folder / f"{figure.name}.csv", _rows(figure, drawn), line_end="\n")
    _draw(figure, drawn, folder / f"{figure.name}.png")


def _rows(figure: Figure, drawn: Drawn) -> Iterator[Sequence[Any]]:
    """A line a point; a method without any has one line with its number of runs."""
    yield CSV_HEADER
    for panel, lines in drawn.items():
        for entry, count, points in lines:
            start = (panel.key, entry.method, figure.recipe)
            for epoch, mean, std, runs in points:
                spread = "" if std is None else f"{std:.4f}"
                yield (*start, epoch, f"{mean:.4f}", spread, runs)
            if not points:
                yield (*start, "", "", "", count)


def _draw(figure: Figure, drawn: Drawn, path: Path) -> None:
    canvas, axes = create_figure(2, 2, (10.4, 7.8))
    canvas.get_layout_engine().set(w_pad=0.12, h_pad=0.1, wspace=0.03, hspace=0.03)
    for axis, (panel, lines) in zip(axes.flat, drawn.items(), strict=True):
        for line in lines:
            _plot(axis, line)
        axis.set_title(panel.title, loc="left", fontsize=12, fontweight="bold", pad=20)
        axis.annotate(missing(lines), (0, 1), (0, 6), "axes fraction", "offset points", **SMALL)
        axis.set(xlabel="epoch", ylabel=figure.label)
        if not any(line.points for line in lines):
            axis.set(xlim=(0, 200), ylim=(0, 100))
        axis.set_xlim(left=0)
        whole = (figure.number or 0) > 3
        axis.set_ylim(bottom=0, top=101 if whole else None)  # 101: 100 is a curve too
    canvas.suptitle(figure.title, fontsize=13)
    handles = {
        line.get_label(): line for axis in axes.flat for line in axis.get_legend_handles_labels()[0]
    }
    if handles:
        canvas.legend(
            handles.values(),
            handles,
            loc="outside lower center",
            ncols=6,
            frameon=False,
            fontsize=11,
        )
    save_figure(canvas, path)


def _plot(axis: Any, line: Line) -> None:
    """A curve, and a band of one standard deviation where there is more than one run."""
    points, colour = line.points, COLOURS[line.entry.method]
    if not points:
        return
    epochs, means = [p.epoch for p in points], [p.mean for p in points]
    order = 3 if line.entry.method == "josrc" else 2
    marker = "o" if len(points) == 1 else None
    title = line.entry.title
    axis.plot(epochs, means, color=colour, marker=marker, lw=1.8, zorder=order, label=title)
    if any(p.std is not None for p in points):
        low = [p.mean - (p.std or 0) for p in points]
        high = [p.mean + (p.std or 0) for p in points]
        axis.fill_between(epochs, low, high, color=colour, alpha=0.2, lw=0)


def missing(lines: Sequence[Line]) -> str:
    """``not run: JoCoR``, or nothing."""
    absent = [line.entry.title for line in lines if not line.runs]
    empty = [line.entry.title for line in lines if line.runs and not line.points]
    notes = {"not run": absent, "without this number": empty}
    return "; ".join(f"{note}: {', '.join(names)}" for note, names in notes.items() if names)
