"""Whether probabilities keep their promise: ``p_clean`` against the share of right labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from josrc._io import write_csv
from josrc.bench.figures import SMALL
from josrc.bench.paper import Cell
from josrc.bench.plan import AUDIT_CELLS, AUDIT_SIDES, audit_title
from josrc.bench.results import AUDIT, AuditResult, Results, place_of
from josrc.runs.plots import create_figure, save_figure

CALIBRATION = "calibration"
CALIBRATION_TITLE = "Calibration of the verdicts (not in the paper)"
CALIBRATION_NOTE = (
    "Labels by tenths of `p_clean`: its mean, and the share of them that is right; over all seeds "
    "together. A large dot stands for many labels. On the dashed line each promise is kept; above "
    "it more labels are right than was promised."
)
CSV_HEADER = ("data", "cell", "from", "promised", "right", "share", "runs")
# Okabe and Ito's palette, in the order of the cells.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9")
COLUMNS = 3


class Tenth(NamedTuple):
    """Labels with a ``p_clean`` in a tenth of [0, 1], as shares in [0, 1].

    Attributes:
        begin: where the tenth begins.
        promised: their mean ``p_clean``.
        right: how many of them are right.
        share: how many of all labels they are.
    """

    begin: float
    promised: float
    right: float
    share: float


class Curve(NamedTuple):
    """The tenths of a cell that have any label, and how many runs they are from."""

    data: str
    cell: Cell
    tenths: list[Tenth]
    runs: int


def tenths_of(runs: Sequence[AuditResult]) -> list[Tenth]:
    """All runs together: a run counts by how many labels it has in a tenth."""
    found = []
    for begin in (number / 10 for number in range(10)):
        name = f"calibration_{begin:g}"
        values = [
            [run.measures.get(f"{name}_{part}") for part in ("share", "promised", "right")]
            for run in runs
        ]
        known = [(s, p, r) for s, p, r in values if s and p is not None and r is not None]
        if known:
            total = sum(share for share, _, _ in known)
            promised = sum(share * value for share, value, _ in known) / total
            right = sum(share * value for share, _, value in known) / total
            found.append(Tenth(begin, promised, right, total / len(runs)))
    return found


def calibration_curves(results: Results) -> list[Curve]:
    """A curve for every cell in which our side was run."""
    curves = []
    for data, cells in AUDIT_CELLS.items():
        for cell in cells:
            runs = results.audits_at(place_of(AUDIT, data, cell, AUDIT_SIDES[0], "augmented"))
            tenths = tenths_of(runs)
            if tenths:
                curves.append(Curve(data, cell, tenths, len(runs)))
    return curves


def described_calibration(results: Results) -> str:
    """The figure in words: of the images that are most likely right, the promise and the truth."""
    ends = [
        f"{curve.data} {audit_title(curve.cell)} {100 * curve.tenths[-1].promised:.0f} and "
        f"{100 * curve.tenths[-1].right:.0f}"
        for curve in calibration_curves(results)
    ]
    return f"{CALIBRATION_TITLE}. Of the surest labels, promised and right in %: {'; '.join(ends)}"


def write_calibration(results: Results, folder: Path) -> None:
    """Write ``calibration.png`` and ``calibration.csv``."""
    curves = calibration_curves(results)
    write_csv(folder / f"{CALIBRATION}.csv", _rows(curves), line_end="\n")
    _draw(curves, folder / f"{CALIBRATION}.png")


def _rows(curves: Sequence[Curve]) -> Iterator[Sequence[Any]]:
    yield CSV_HEADER
    for data, cell, tenths, runs in curves:
        for begin, *values in tenths:
            yield (data, cell.key, f"{begin:g}", *(f"{value:.4f}" for value in values), runs)


def _draw(curves: Sequence[Curve], path: Path) -> None:
    rows = -(-len(AUDIT_CELLS) // COLUMNS)
    canvas, axes = create_figure(rows, COLUMNS, (4.2 * COLUMNS, 4.2 * rows))
    canvas.get_layout_engine().set(w_pad=0.12, h_pad=0.1, wspace=0.03, hspace=0.03)
    panels = dict(zip(AUDIT_CELLS, axes.flat, strict=False))
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    for data, axis in panels.items():
        drawn = {curve.cell: curve for curve in curves if curve.data == data}
        axis.plot([0, 1], [0, 1], color="#7f7f7f", ls="--", lw=1, zorder=1)
        for cell, colour in zip(AUDIT_CELLS[data], COLOURS, strict=False):
            if cell in drawn:
                _plot(axis, drawn[cell], colour)
        absent = [audit_title(cell) for cell in AUDIT_CELLS[data] if cell not in drawn]
        note = f"not run: {', '.join(absent)}" if absent else ""
        axis.set_title(data, loc="left", fontsize=12, fontweight="bold", pad=20)
        axis.annotate(note, (0, 1), (0, 6), "axes fraction", "offset points", **SMALL)
        axis.set(xlabel="promised: mean p_clean", ylabel="share of right labels")
        axis.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        if drawn:
            axis.legend(frameon=False, fontsize=9, loc="upper left")
    canvas.suptitle(CALIBRATION_TITLE, fontsize=13)
    save_figure(canvas, path)


def _plot(axis: Any, curve: Curve, colour: str) -> None:
    promised, right = [t.promised for t in curve.tenths], [t.right for t in curve.tenths]
    axis.plot(promised, right, color=colour, lw=1.8, zorder=2, label=audit_title(curve.cell))
    # The area says how many labels there are; the least is still seen.
    sizes = [12 + 100 * tenth.share for tenth in curve.tenths]
    axis.scatter(promised, right, s=sizes, color=colour, zorder=3, lw=0)
