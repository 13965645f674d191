"""The paper's tables beside ours, as rows of text; a cell may have several lines."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from josrc.bench.paper import (
    ABLATION,
    BACKBONE_TABLES,
    METHOD_TITLES,
    SELECTION,
    TABLES,
    Cell,
    Score,
)
from josrc.bench.plan import (
    DEVELOPMENT,
    EARLIER,
    RELEASED,
    SUITES,
    VARIED,
    Entry,
    Suite,
)
from josrc.bench.results import AUDIT, Result, Results, place_of

NOT_RUN = "not run"
# Groups as the paper calls them.
GROUP_TITLES = {"clean": "clean", "id": "ID noisy", "ood": "out of distribution"}
# Of 50,000 training images: a precision over fewer is chance.
MIN_SELECTED = 500
# Suites whose folders hold the results that the tables show.
FOLDERS = (
    *("table1", "table2", "table3", "table4", "ablation", *VARIED),
    *("others-c", "others-o", "ours", DEVELOPMENT, "digits", EARLIER, AUDIT),
)


@dataclass(frozen=True)
class TableView:
    """A table, ready to be printed or written.

    Attributes:
        title: with its number in the paper.
        note: what a reader must know to read it.
        header: a title per column.
        rows: the cells; lines in a cell are parted by a newline.
        names: how many columns, the first ones, name a row.
    """

    title: str
    note: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    names: int = 1


def format_measured(values: Sequence[float], failed: int = 0) -> str:
    """``65.54 ± 0.10 (n=3)``."""
    if not values:
        return NOT_RUN
    spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    note = f", {failed} failed" if failed else ""
    return f"{statistics.fmean(values):.2f}{spread} (n={len(values)}{note})"


def format_published(score: Score) -> str:
    """``65.83 ± 0.13``."""
    return f"{score.mean:.2f}" + ("" if score.spread is None else f" ± {score.spread:.2f}")


def difference(values: Sequence[float], score: Score) -> str:
    """How far our mean lies above the paper's."""
    return f"{statistics.fmean(values) - score.mean:+.2f}" if values else ""


def format_compared(values: Sequence[float], score: Score, failed: int = 0) -> str:
    """Ours on the first line; the paper's, and how far ours lies above it, on the second."""
    parts = [f"paper {format_published(score)}", difference(values, score)]
    return f"{format_measured(values, failed)}\n{', '.join(filter(None, parts))}"


def runs_of(
    results: Results, suite: Suite, cell: Cell, entry: Entry, recipe: str = "augmented"
) -> list[Result]:
    """The seeds of an entry in a cell, wherever their files lie."""
    folder = entry.folder(recipe)
    return results.at(place_of(entry.home, suite.data, cell, entry.method, folder))


def accuracies(runs: Sequence[Result]) -> tuple[list[float], int]:
    """Mean accuracy of each run's last 10 epochs, and how many of the runs failed.

    A failed run counts with chance in the epochs that it never reached: leaving it or them out
    would flatter the method.
    """
    return [run.last10_mean for run in runs], sum(run.failed is not None for run in runs)


def recipes_of(results: Results, suite: Suite, entry: Entry) -> list[str]:
    """Recipes a table has a row for: ``plain`` where the paper trained so, and where it was run."""
    quoted = suite is SUITES["table1"] and entry.method != "josrc"
    return [
        recipe
        for recipe in suite.recipes
        if recipe == "augmented" or quoted or has_runs(results, suite, entry, recipe)
    ]


def has_runs(results: Results, suite: Suite, entry: Entry, recipe: str = "augmented") -> bool:
    """Whether there is a run of an entry in any cell."""
    return any(runs_of(results, suite, cell, entry, recipe) for cell in suite.cells)


def with_earlier(results: Results, suite: Suite, recipe: str = "augmented") -> list[Entry]:
    """The rows of a suite, each followed by what was made before its method was mended."""
    rows = []
    for entry in suite.entries:
        earlier = entry.as_earlier
        rows += [entry, earlier] if has_runs(results, suite, earlier, recipe) else [entry]
    return rows


def title_of(entry: Entry) -> str:
    """``P-correction (earlier)``."""
    return entry.title + (" (earlier)" if entry.home == EARLIER else "")


def accuracy_table(name: str, results: Results) -> TableView:
    """Tables 1 and 2: a row per method and recipe, a column per cell."""
    suite, table = SUITES[name], TABLES[name]
    view = TableView(
        f"{table.title} (Table {table.number})",
        "Test accuracy in %, mean of the last 10 epochs over n runs; the paper's, and how far ours "
        f"lies above it. {TABLE_NOTES[name]}",
        ("method", "recipe", *(cell.title for cell in suite.cells)),
    )
    for entry in with_earlier(results, suite):
        for recipe in ["augmented"] if entry.home == EARLIER else recipes_of(results, suite, entry):
            cells = [
                format_compared(values, table.score(entry.method, cell), failed)
                for cell in suite.cells
                for values, failed in [accuracies(runs_of(results, suite, cell, entry, recipe))]
            ]
            view.rows.append((title_of(entry), recipe, *cells))
    return view


TABLE_NOTES = {
    "table1": "Plain is without augmentation, and its Asym-40 is JoCoR's noise.",
    "table2": "All with augmentation: the paper trained the methods of this table itself, and so "
    "trained Decoupling, Co-teaching and JoCoR end within 3 points of it. Rows without (recipe "
    "plain) would compare with nothing, and are left out.",
}


def ablation_table(name: str, results: Results) -> TableView:
    """Table 6: a row a step of the method."""
    suite = SUITES[name]
    view = TableView(
        f"Steps of Jo-SRC on CIFAR80N-O, {suite.cells[0].title} (Table 6)",
        "Test accuracy in %, mean of the last 10 epochs. Standard and Jo-SRC are the runs of "
        "Table 2. C: trained on samples selected as clean; CI: and on ID ones; CIO: on all.",
        ("model", "paper", "ours", "difference"),
    )
    for entry in suite.entries:
        values, failed = accuracies(runs_of(results, suite, suite.cells[0], entry))
        score = ABLATION[entry.method, entry.variant]
        row = (format_published(score), format_measured(values, failed), difference(values, score))
        view.rows.append((entry.title, *row))
    return view


def selection_table(name: str, results: Results) -> TableView:
    """Table 5: precision at the last epoch, and at the best one in both senses."""
    suite = SUITES[name]
    view = TableView(
        "Precision of Jo-SRC's ID and OOD selection on CIFAR80N-O (Table 5)",
        "In %. The paper does not say what its best epoch is, so its number is next to two of "
        "ours: our precision in the epoch of the best test accuracy, and the highest of an epoch "
        f"after the warm-up in which at least {MIN_SELECTED} samples were selected, with how "
        f"many these "
        "were (the fewest over the runs). In the released code there is no such group during the "
        "warm-up, and the precision of a handful says little.",
        ("noise", "samples", "last epoch", "best: best accuracy", "best: highest precision"),
    )
    (entry,) = suite.entries
    for cell in suite.cells:
        runs = runs_of(results, suite, cell, entry)
        for group in ("id", "ood"):
            paper = SELECTION[cell][group]
            cells = [
                precision_cell(runs, group, at_last, paper.last),
                precision_cell(runs, group, at_best_accuracy, paper.best),
                precision_cell(runs, group, at_highest, paper.best),
            ]
            sizes = [run.points(f"n_{group}").get(at_highest(run, group), 0) for run in runs]
            cells[-1] += f"\nof {min(sizes):,.0f} selected" if sizes else ""
            view.rows.append((cell.title, GROUP_TITLES[group], *cells))
    return view


def precision_cell(
    runs: Sequence[Result], group: str, epoch_of: Callable[[Result, str], int], paper: float
) -> str:
    """Precision of a group in an epoch of each run, beside the paper's."""
    found = [run.points(f"{group}_precision").get(epoch_of(run, group)) for run in runs]
    values = [value for value in found if value is not None]
    if runs and not values:
        return f"none selected\npaper {paper:.2f}"
    return format_compared(values, Score(paper), sum(run.failed is not None for run in runs))


def at_last(run: Result, group: str) -> int:
    """The last epoch."""
    return max(run.points("test_accuracy"), default=0)


def at_best_accuracy(run: Result, group: str) -> int:
    """The epoch of the best test accuracy."""
    return run.best_epoch


def at_highest(run: Result, group: str) -> int:
    """The first epoch after the warm-up with the group's highest precision; 0 without any.

    Epochs in which the group has next to no samples don't count.
    """
    warm_up = int(run.settings.get("warm_up", 0))
    sizes = run.points(f"n_{group}")
    points = {
        epoch: precision
        for epoch, precision in run.points(f"{group}_precision").items()
        if epoch > warm_up and sizes.get(epoch, 0) >= MIN_SELECTED
    }
    return max(points, key=lambda epoch: points[epoch], default=0)


# Tables that are not in the paper.
OTHERS_NOTE = (
    "Labels turned: the share for which the method puts another label in the given one's place "
    "in the end, and in brackets the share of these that are right then. Methods of tables 3 and "
    "4 with the 7-layer CNN, the data and the schedule of Jo-SRC's run, but for Joint-Optim and "
    "P-correction, whose learning rate stays high for longer, and M-correction, which has the "
    "steps of its code. CleanNet knows for a tenth of the labels whether they are right, "
    "which no other method knows. A row (earlier) was made before its method was fixed, and says "
    "nothing about what it does now. Standard and Jo-SRC are the runs of Table "
)
OWN_NOTES = {
    "digits": "JoCoR's weight, Jo-SRC's smoothing, DeepSelf's prototypes, P-correction's rates, "
    "Meta-Learning's teacher and CleanNet's updates were chosen on this same noise, so this is a "
    "demonstration and no benchmark. CleanNet knows from the truth whether a fifth of the labels "
    "are right, and forget rates are the true ones. Labels turned: the share for which the method "
    "puts another label in the given one's place in the end, and in brackets the share of these "
    "that are right then; foreign images, a quarter of all, have no right one.",
    "others-c": f"{OTHERS_NOTE}1. No image in this data is out of distribution.",
    "others-o": f"{OTHERS_NOTE}2.",
}


def own_table(name: str, results: Results) -> TableView:
    """A suite that the paper does not have: a row per method."""
    suite = SUITES[name]
    (cell,) = suite.cells
    view = TableView(
        f"{suite.data}, {cell.title} (not in the paper)",
        "Test accuracy in %, mean of the last 10 epochs, and precision of the groups in the last "
        f"epoch. {OWN_NOTES[name]}",
        ("method", "test accuracy", "clean", "ID noisy", "out of distribution", "labels turned"),
    )
    for entry in with_earlier(results, suite):
        runs = runs_of(results, suite, cell, entry)
        precisions = [precision_of_last(runs, group) for group in GROUP_TITLES]
        row = (
            title_of(entry),
            format_measured(*accuracies(runs)),
            *precisions,
            format_turned(runs),
        )
        view.rows.append(row)
    return view


def format_turned(runs: Sequence[Result]) -> str:
    """``12.3 (87.6)``: the share of labels that a method turned, and of these the right ones."""
    shares = [run.labels_turned for run in runs if run.labels_turned is not None]
    right = [run.turned_right for run in runs if run.turned_right is not None]
    if not shares:
        return "-"
    return f"{statistics.fmean(shares):.1f}" + (
        f" ({statistics.fmean(right):.1f})" if right else ""
    )


def precision_of_last(runs: Sequence[Result], group: str) -> str:
    """Mean precision of a group in the last epoch; a dash for a method without such a group."""
    found = [run.points(f"{group}_precision").get(at_last(run, group)) for run in runs]
    values = [value for value in found if value is not None]
    return f"{statistics.fmean(values):.1f}" if values else "-"


def backbone_table(name: str, results: Results) -> TableView:
    """Tables 3 and 4: a row a method and backbone."""
    suite, table = SUITES[name], BACKBONE_TABLES[name]
    validated = table.data == "clothing1m"
    first = "ours, by validation" if validated else "ours, last epoch"
    view = TableView(
        f"{table.title} (Table {table.number})",
        "Test accuracy in %, of "
        + ("the epoch that the validation images choose, " if validated else "")
        + "the last epoch, and of the best one on the test images themselves, as the released "
        "Jo-SRC code chooses it. Not every number of the paper says which it is.",
        ("method", "backbone", "paper", first, "difference", "last", "best on test"),
    )
    # The released configuration is for the first backbone that Jo-SRC has in a table.
    released = next(r for r in table.rows if r.method == "josrc")
    rows = [*table.rows, released]
    for entry, row in zip(suite.entries, rows, strict=True):
        runs = runs_of(results, suite, suite.cells[0], entry)
        chosen = [r.val_chosen for r in runs if r.val_chosen is not None]
        last = [r.final for r in runs]
        ours, failed = chosen if validated else last, sum(r.failed is not None for r in runs)
        score = Score(row.accuracy)
        title = f"{METHOD_TITLES[row.method]} {row.variant}".strip()
        title += f" ({entry.recipe})" if entry.recipe == RELEASED else ""
        cells = (format_published(score), format_measured(ours, failed), difference(ours, score))
        rest = [
            format_measured(values) if values else "" for values in (last, [r.best for r in runs])
        ]
        view.rows.append((title, row.backbone, *cells, *rest))
    return view
