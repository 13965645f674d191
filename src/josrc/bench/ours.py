"""Tables of Posterior, which the paper does not have: beside its peers, and setting by setting."""

from __future__ import annotations

from josrc.bench.paper import BEST_KNOWN
from josrc.bench.plan import CHANGED, SUITES
from josrc.bench.results import Results
from josrc.bench.tables import TableView, accuracies, format_measured, runs_of

# What is said of the data of the paper's tables, and of labels that people gave.
OURS_NOTES = {
    True: "Posterior has one setting for all cells and is not told how many labels are wrong; SED, "
    "SOP+ and DivideMix have what their authors set for a noise, and DivideMix was made for "
    "another network. Best known is what others publish for this network: SED with one, CA2C with "
    "two after 700 epochs.",
    False: "All with PreAct-ResNet-18 for 100 epochs; DivideMix has its code's settings for "
    "CIFAR-10 and 50 % noise.",
}


def ours_table(name: str, results: Results) -> TableView:
    """Posterior beside its peers: a row per method and length, a column per cell."""
    suite = SUITES[name]
    view = TableView(
        f"Posterior and its peers on {suite.data} (not in the paper)",
        "Test accuracy in %, mean of the last 10 epochs over n runs. One network is tested, of "
        f"DivideMix two together. {OURS_NOTES[suite.data in BEST_KNOWN]}",
        ("method", "epochs", *(cell.title for cell in suite.cells)),
        names=2,
    )
    for entry in suite.entries:
        runs = [runs_of(results, suite, cell, entry) for cell in suite.cells]
        cells = [format_measured(*accuracies(found)) for found in runs]
        view.rows.append((entry.title, "100" if entry.recipe else "200", *cells))
    known = [f"{score:.2f} ({who})" for score, who in BEST_KNOWN.get(suite.data, ())]
    if known:
        view.rows.append(("Best known", "", *known))
    return view


def development_table(name: str, results: Results) -> TableView:
    """Posterior with one setting changed: a row per setting, a column per cell."""
    suite = SUITES[name]
    view = TableView(
        f"Parts of Posterior on {suite.data} (not in the paper)",
        "Test accuracy in %, mean of the last 10 of 100 epochs. Noise and its draw (seed 1) are of "
        "no table: settings were to be chosen here.",
        ("model", "setting", *(cell.title for cell in suite.cells)),
    )
    for entry in suite.entries:
        runs = [runs_of(results, suite, cell, entry) for cell in suite.cells]
        changed = CHANGED.get(entry.variant or "", {})
        told = ", ".join(f"{key}={value}" for key, value in changed.items())
        cells = [format_measured(*accuracies(found)) for found in runs]
        view.rows.append((entry.variant or "whole", told, *cells))
    return view
