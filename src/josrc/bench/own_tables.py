"""Tables that the paper does not have: its ablation with one setting changed, and our method's."""

from __future__ import annotations

import statistics

from josrc.bench.paper import ABLATION, BEST_KNOWN, Score
from josrc.bench.plan import APART, HEAD, SHORT, SUITES, THRESHOLD, WITHOUT
from josrc.bench.results import Results
from josrc.bench.tables import (
    TableView,
    accuracies,
    difference,
    format_measured,
    format_published,
    runs_of,
)

VARIED_TITLES = {
    APART: (
        "with a forward pass for each view",
        "with method.joint_forward=false: the released code predicts one view after the other, "
        "each with batch statistics of its own. Everywhere else here both go together.",
    ),
    THRESHOLD: (
        "with a lower last threshold",
        "with method.threshold_max=0.83 in place of 0.95: where our selection passes there, its "
        "precision is what the paper's Table 5 has for the last epoch.",
    ),
    HEAD: (
        "with a head of one layer",
        "with model.head=linear: the released code has two layers, of which the paper is silent.",
    ),
}


def varied_table(name: str, results: Results) -> TableView:
    """The steps of the method once more, with one setting changed."""
    suite, (title, note) = SUITES[name], VARIED_TITLES[name]
    view = TableView(
        f"Steps of Jo-SRC {title}, {suite.cells[0].title} (not in the paper)",
        f"As Table 6, {note} Jo-SRC-CIO ends above Jo-SRC-CI in the paper, and below it in ours: "
        "is this the reason?",
        ("model", "paper", "as Table 6", "changed", "changed less as Table 6"),
    )
    cell = suite.cells[0]
    before = {
        entry.variant: entry for entry in SUITES["ablation"].entries if entry.method == "josrc"
    }
    for entry in suite.entries:
        score = ABLATION[entry.method, entry.variant]
        usual, failed = accuracies(runs_of(results, suite, cell, before[entry.variant]))
        changed, changed_failed = accuracies(runs_of(results, suite, cell, entry))
        gap = difference(changed, Score(statistics.fmean(usual))) if usual else ""
        cells = (format_measured(usual, failed), format_measured(changed, changed_failed), gap)
        view.rows.append((entry.title, format_published(score), *cells))
    return view


def ours_table(name: str, results: Results) -> TableView:
    """Posterior beside its peers: a row per method and length, a column per cell."""
    suite = SUITES[name]
    view = TableView(
        f"Posterior and its peers on {suite.data} (not in the paper)",
        "Test accuracy in %, mean of the last 10 epochs over n runs. One network is tested, of "
        "DivideMix two together. Posterior has one setting for all cells and is not told how many "
        "labels are wrong; SED, SOP+ and DivideMix have what their authors set for a noise, and "
        "DivideMix was made for another network. Best known is what others publish for this "
        "network: SED with one, CA2C with two after 700 epochs.",
        ("method", "epochs", *(cell.title for cell in suite.cells)),
        names=2,
    )
    for entry in suite.entries:
        runs = [runs_of(results, suite, cell, entry) for cell in suite.cells]
        cells = [format_measured(*accuracies(found)) for found in runs]
        view.rows.append((entry.title, "100" if entry.recipe == SHORT else "200", *cells))
    known = [f"{score:.2f} ({who})" for score, who in BEST_KNOWN[suite.data]]
    view.rows.append(("Best known", "", *known))
    return view


def development_table(name: str, results: Results) -> TableView:
    """Posterior without one of its parts: a row per part, a column per cell."""
    suite = SUITES[name]
    view = TableView(
        f"Parts of Posterior on {suite.data} (not in the paper)",
        "Test accuracy in %, mean of the last 10 of 100 epochs. Noise and its draw (seed 1) are of "
        "no table: settings were to be chosen here.",
        ("model", "setting", *(cell.title for cell in suite.cells)),
    )
    for entry in suite.entries:
        runs = [runs_of(results, suite, cell, entry) for cell in suite.cells]
        changed = WITHOUT.get(entry.variant or "", {})
        told = ", ".join(f"{key}={value}" for key, value in changed.items())
        cells = [format_measured(*accuracies(found)) for found in runs]
        view.rows.append((entry.variant or "whole", told, *cells))
    return view
