"""Pictures of a run: what people would rather look at than read."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from josrc._console import clipped
from josrc._io import atomic_write
from josrc.config import RunConfig
from josrc.data.source import Source
from josrc.data.views import create_view
from josrc.engine.listeners.base import Listener
from josrc.engine.metrics import GROUP_TITLES, Row
from josrc.engine.run_folder import RunFolder

BLUE, ORANGE, GREEN, GREY = "#2563eb", "#ea580c", "#16a34a", "#6b7280"
GROUP_COLOURS = {"clean": GREEN, "id": BLUE, "ood": ORANGE}


def create_figure(rows: int = 1, columns: int = 1, size: tuple[float, float] = (6.4, 4)) -> Any:
    """A matplotlib figure and its axes ``(rows, columns)``, in the style of all of josrc's."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    return figure, axes


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure as PNG, whole or not at all, and forget it."""
    import matplotlib.pyplot as plt

    with atomic_write(path) as partial, warnings.catch_warnings():
        # Names in a script that matplotlib's font lacks are drawn as boxes.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(partial, dpi=120, format="png")
    plt.close(figure)


class PlotWriter(Listener):
    """Draws a run when it ends: also when it was stopped or failed, which one wants to see."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    def ended(self, summary: dict[str, Any] | None) -> None:
        """Draw what ``metrics.csv`` holds."""
        rows = self.folder.read_metrics()
        if rows:
            plot_run(rows, self.folder.plots)


def plot_run(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Accuracy, selection, threshold and group accuracies; whatever the run has numbers for."""
    pictures = []
    for name, draw in {
        "accuracy": _accuracy,
        "selection": _selection,
        "threshold": _threshold,
        "groups": _groups,
    }.items():
        figure = draw(rows)
        if figure is not None:
            pictures.append(folder / f"{name}.png")
            save_figure(figure, pictures[-1])
    return pictures


def _curve(axis: Any, rows: Sequence[Row], column: str, **style: Any) -> bool:
    """Draw a column over the epochs; false if it is empty."""
    points = [(row["epoch"], row.get(column)) for row in rows if row.get(column) is not None]
    if points:
        marker = "o" if len(points) == 1 else None
        axis.plot(*zip(*points, strict=True), marker=marker, **style)
    return bool(points)


def _accuracy(rows: Sequence[Row]) -> Any:
    if all(row.get("test_accuracy") is None for row in rows):
        return _agreement(rows)
    figure, ((axis,),) = create_figure()
    _curve(axis, rows, "test_accuracy", color=BLUE, label="network")
    if _curve(axis, rows, "teacher_accuracy", color=GREY, linestyle="--", label="mean teacher"):
        axis.legend(frameon=False)
    axis.set(title="Test accuracy", xlabel="epoch", ylabel="%")
    return figure


def _agreement(rows: Sequence[Row]) -> Any:
    if all(row.get("agreement") is None for row in rows):
        return None
    figure, ((axis,),) = create_figure()
    _curve(axis, rows, "agreement", color=BLUE)
    axis.set(title="Agreement with the given labels, held out", xlabel="epoch", ylabel="%")
    return figure


def _selection(rows: Sequence[Row]) -> Any:
    if all(row.get("n_clean") is None for row in rows):
        return None
    figure, ((sizes, precisions),) = create_figure(1, 2, (10, 4))
    for name, colour in GROUP_COLOURS.items():
        _curve(sizes, rows, f"n_{name}", color=colour, label=GROUP_TITLES[name])
        _curve(precisions, rows, f"{name}_precision", color=colour)
    sizes.set(title="Samples in each group", xlabel="epoch")
    sizes.legend(frameon=False)
    precisions.set(title="Precision of the selection", xlabel="epoch", ylabel="%", ylim=(0, 101))
    return figure


def _threshold(rows: Sequence[Row]) -> Any:
    if all(row.get("threshold") is None for row in rows):
        return None
    figure, ((axis,),) = create_figure()
    _curve(axis, rows, "threshold", color=BLUE)
    axis.set(title="Threshold of the clean likelihood", xlabel="epoch", ylim=(0, 1))
    return figure


def _groups(rows: Sequence[Row]) -> Any:
    curves = {
        "fit_clean": "clean: given label",
        "fit_id": "mislabelled: given label",
        "fit_ood": "out of distribution: given label",
        "recover_id": "mislabelled: true label",
    }
    if all(row.get(column) is None for row in rows for column in curves):
        return None
    figure, ((axis,),) = create_figure()
    for (column, title), colour in zip(curves.items(), (GREEN, BLUE, ORANGE, GREY), strict=True):
        style = "--" if column == "recover_id" else "-"
        _curve(axis, rows, column, color=colour, linestyle=style, label=title)
    axis.set(title="Training samples predicted as ...", xlabel="epoch", ylabel="%", ylim=(0, 101))
    axis.legend(frameon=False)
    return figure


def plot_views(source: Source, config: RunConfig, path: Path, samples: int = 8) -> None:
    """A few training images, each with two of its random views and its given label."""
    pad = config.views.pad
    view = create_view(config.views, source.size)
    index = torch.linspace(0, len(source) - 1, samples).long()
    chosen = torch.from_numpy(source.images.tiles(index.numpy()))
    tiles = torch.nn.functional.pad(chosen, (0, 0, pad, pad, pad, pad))
    draws = torch.rand(2, samples, view.draws, generator=torch.Generator().manual_seed(0))
    seen = (view(tiles, torch.arange(samples), d).permute(0, 2, 3, 1) for d in draws)
    pictures = [chosen] + [pixels.round().to(torch.uint8) for pixels in seen]
    # One sheet, not an axis for each of them: matplotlib takes its time for an axis.
    gap = max(1, max(source.size) // 16)
    height, width = (int(side) + gap for side in chosen.shape[1:3])
    sheet = torch.full((len(pictures), samples, height, width, chosen.shape[3]), 255).byte()
    for row, images in enumerate(pictures):  # a view may be smaller than its image
        sheet[row, :, : images.shape[1], : images.shape[2]] = images
    sheet = sheet.transpose(1, 2).reshape(len(pictures) * height, samples * width, -1)
    names = [source.class_names[int(label)] for label in source.given[index.numpy()]]
    # A name may not be valid UTF-8, and a dollar in it begins no formula.
    titles = [
        f"given: {clipped(name, 20)}".encode("utf-8", "replace").decode("utf-8") for name in names
    ]
    figure, ((axis,),) = create_figure(size=(1.25 * samples, 4.2))
    axis.imshow(sheet.numpy().squeeze(), cmap="gray", vmin=0, vmax=255)
    axis.set_xticks([width * (column + 0.5) for column in range(samples)], titles, fontsize=8)
    axis.set_yticks([height * (row + 0.5) for row in range(3)], ["image", "view 1", "view 2"])
    axis.tick_params(length=0, labelbottom=False, labeltop=True)
    for tick in axis.xaxis.get_major_ticks():
        tick.label2.set_parse_math(False)
    axis.grid(visible=False)
    axis.spines[:].set_visible(False)
    save_figure(figure, path)


# More names than this can't be read beside a matrix, nor more numbers in it.
MAX_NAMED_CLASSES, MAX_NUMBERED_CLASSES = 40, 15


def plot_confusion(matrix: NDArray[np.int64], names: Sequence[str], path: Path) -> None:
    """True classes (rows) against predicted ones; a cell is the share of its row."""
    from matplotlib.colors import PowerNorm

    side = min(14.0, 4 + 0.28 * len(names))
    figure, ((axis,),) = create_figure(size=(side + 1, side))
    total = matrix.sum(axis=1, keepdims=True)
    share = 100 * matrix / np.maximum(total, 1)
    # By its root: a few images in a hundred are what one looks for.
    image = axis.imshow(share, cmap="Blues", norm=PowerNorm(0.5, 0, 100))
    for row, column in np.argwhere(share >= 0.5) if len(names) <= MAX_NUMBERED_CLASSES else ():
        colour = "white" if share[row, column] > 40 else "black"
        text = f"{share[row, column]:.0f}"
        axis.text(column, row, text, ha="center", va="center", color=colour, fontsize=8)
    figure.colorbar(image, ax=axis, label="% of the images per class", shrink=0.8)
    axis.grid(visible=False)
    axis.set(title="Confusion", xlabel="predicted", ylabel="true")
    if len(names) <= MAX_NAMED_CLASSES:
        # A dollar sign would begin a formula.
        shown = [name[:24].replace("$", r"\$") for name in names]
        axis.set_xticks(range(len(names)), shown, rotation=90)
        axis.set_yticks(range(len(names)), shown)
    save_figure(figure, path)


def plot_calibration(bins: Sequence[Mapping[str, Any]], error: float, path: Path) -> None:
    """Accuracy over confidence: on the diagonal a network is as often right as it is sure."""
    figure, ((upper, lower),) = create_figure(1, 2, (10, 4.4))
    full = [row for row in bins if row["images"]]
    middles = [(row["from"] + row["to"]) / 2 for row in bins]
    width = 100 / len(bins)
    sure, right = ([row[key] for row in full] for key in ("mean_confidence", "accuracy"))
    upper.plot([0, 100], [0, 100], color=GREY, linestyle="--")
    upper.plot(sure, right, color=BLUE, marker="o")
    limits = {"xlim": (0, 100), "ylim": (0, 101)}
    title = f"Calibration error {error:.1f} %"
    upper.set(title=title, xlabel="confidence, %", ylabel="accuracy, %", **limits)
    lower.bar(middles, [row["images"] for row in bins], width=0.9 * width, color=BLUE)
    lower.set(title="Images", xlabel="confidence, %", xlim=(0, 100))
    save_figure(figure, path)
