"""Verdicts against the truth, ours beside cleanlab's: a row a cell and side."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from josrc.bench.plan import AUDIT_CELLS, AUDIT_SIDES, WITH_FOREIGN, audit_title
from josrc.bench.results import AUDIT, AuditResult, Results, place_of
from josrc.bench.tables import NOT_RUN, TableView

NONE = "-"
# Columns of the first table, those of SURE beside the noise rate that is said, and of the second.
ACCUSED = {
    "noise_rate": "wrong labels",
    "accused": "accused",
    "precision_wrong": "of these wrong",
    "recall_wrong": "of the wrong found",
    "f1_wrong": "F1",
    "average_precision_wrong": "AP",
    "first_100_right": "first 100",
    "first_500_right": "first 500",
}
SURE = {
    "suggestion_accuracy": "suggestion right",
    "sure_right": "sure: right",
    "sure_reached": "sure: reached",
}
THREE = {
    "f1_clean": "F1: clean",
    "f1_mislabelled": "F1: mislabelled",
    "f1_out_of_distribution": "F1: out of distribution",
    "auroc_wrong": "AUROC: wrong label",
    "auroc_ood": "AUROC: out of distribution",
    "auroc_ood_of_predictions": "the same by predictions",
}


def audit_table(name: str, results: Results) -> TableView:
    """Which labels are accused, and what is said of them."""
    view = TableView(
        "Verdicts against the truth (not in the paper)",
        "In %, means over n runs, ± over seeds. josrc: one training with Jo-SRC in which errors "
        "are planted, as in everybody's own images. cleanlab: predictions and features of five "
        "networks, each trained the plain way on four fifths of the data, and stopped after 30 "
        "epochs, before it memorises wrong labels. Wrong labels: the truth, including "
        "out-of-distribution images. Accused: every verdict but clean. AP: average precision of "
        "the order. First 100, first 500: share of wrong labels among those that look most "
        "wrong; where fewer are wrong, not all can be. Estimated noise rate: ours with its "
        "interval; cleanlab's is how many label issues it finds. Suggestion: the likeliest class "
        "other than the given label, for all samples of a class with a wrong label. Sure: called "
        "mislabelled or out of distribution with a confidence of 0.9 or more; right counts the "
        "suggestion, reached is the share of what is rightly accused. A dash: there is no such "
        "number. Seconds are of training, with compilation, and of the verdicts.",
        ("data", "side", *ACCUSED.values(), "estimated noise rate", *SURE.values(), "seconds"),
        names=2,
    )
    for title, side, runs in _sides(results, tuple(AUDIT_CELLS)):
        accused, sure = ([percent(runs, key) for key in keys] for keys in (ACCUSED, SURE))
        seconds = [run.seconds_training + run.seconds_audit for run in runs]
        spent = f"{statistics.fmean(seconds):.0f}" if seconds else NONE
        view.rows.append(_row(title, side, runs, (*accused, format_rate(runs), *sure, spent)))
    return view


def three_verdicts_table(name: str, results: Results) -> TableView:
    """Of data with foreign images: how well each of the three verdicts is recognised."""
    view = TableView(
        "Three verdicts against the truth (not in the paper)",
        "In %, the same runs, of the data in which some images are out of distribution: they "
        "belong to no class. An outlier by the default of cleanlab's Datalab counts as out of "
        "distribution, any other of its label issues as mislabelled. It scores outliers by their "
        "features, or by their predictions.",
        ("data", "side", *THREE.values()),
        names=2,
    )
    for title, side, runs in _sides(results, WITH_FOREIGN):
        view.rows.append(_row(title, side, runs, tuple(percent(runs, key) for key in THREE)))
    return view


def percent(runs: Sequence[AuditResult], key: str) -> str:
    """The mean of a measure, and its spread on a second line; a dash where there is none."""
    values = [100 * value for run in runs if (value := run.measures.get(key)) is not None]
    if not values:
        return NONE
    # The labels of a cell are the same with every seed, and so is how many are wrong.
    varies = len(values) > 1 and key != "noise_rate"
    spread = f"\n±{statistics.stdev(values):.1f}" if varies else ""
    return f"{statistics.fmean(values):.1f}{spread}"


def format_rate(runs: Sequence[AuditResult]) -> str:
    """The noise rate that a side says, and its interval on a second line where it has one."""
    rate, low, high = (
        percent(runs, f"noise_rate_{name}").partition("\n")[0]
        for name in ("estimated", "low", "high")
    )
    return rate if NONE in (low, high) else f"{rate}\n{low} to {high}"


def _sides(results: Results, data: Sequence[str]) -> Iterator[tuple[str, str, list[AuditResult]]]:
    for name in data:
        for cell in AUDIT_CELLS[name]:
            for side in AUDIT_SIDES:
                place = place_of(AUDIT, name, cell, side, "augmented")
                yield f"{name}\n{audit_title(cell)}", side, results.audits_at(place)


def _row(
    title: str, side: str, runs: Sequence[AuditResult], cells: tuple[str, ...]
) -> tuple[str, ...]:
    if not runs:
        return (title, f"{side}\n{NOT_RUN}", *("" for _ in cells))
    return (title, f"{side}\nn={len(runs)}", *cells)
