"""``predictions.csv``: what a run's networks say of images, a line an image, as they come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from josrc.audit.verdicts import doubt_of
from josrc.data.files import ImageFiles
from josrc.data.workers import Faults
from josrc.errors import UserError
from josrc.files import replacing_csv
from josrc.prediction import Opinion

COLUMNS = ("path", "predicted_label", "probability", "ood_score", "reason")


def check_target(path: Path, inputs: Iterable[Path]) -> None:
    """Raise an error if anything but earlier predictions would be replaced."""
    if not path.is_file():
        return
    if any(path.samefile(one) for one in inputs if one.exists()):
        raise UserError(f"{path} is what to predict. Name another --out.")
    with path.open("rb") as file:
        if not file.read(100).startswith(",".join(COLUMNS).encode()):
            raise UserError(f"{path} exists and holds no predictions. Name another --out.")


def write_predictions(
    path: Path,
    images: ImageFiles,
    stream: Iterable[tuple[Opinion, Faults]],
    names: Sequence[str],
    *,
    top_k: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> str:
    """Write a line an image, in their order; those that give no image have a reason alone.

    Where none does, it is an error, of which the file gives the details.

    Args:
        path: the file.
        images: where they lie.
        stream: probabilities chunk by chunk, and what could not be read.
        names: of the classes.
        top_k: how many of the likeliest classes are written.
        progress: told how many images are done, and of how many.

    Returns:
        How many images were predicted, in a sentence.
    """
    if not len(images):
        raise UserError("There is no image to predict: the folders and manifests hold none.")
    top_k = min(top_k, len(names))
    more = [f"{name}_{rank}" for rank in range(2, top_k + 1) for name in COLUMNS[1:3]]
    empty, done, reasons = [""] * len(more), 0, Counter[str]()
    with replacing_csv(path) as write:
        write([[*COLUMNS, *more]])
        for opinions, faults in stream:
            broken = dict(faults)
            reasons.update(broken.values())
            for index, cells in enumerate(_cells(opinions, names, top_k), start=done):
                row = ["", "", "", broken[index], *empty] if index in broken else cells
                write([[images.location(index), *row]])
            done += len(opinions)
            progress(done, len(images))
    told = f"{done - reasons.total():,} images predicted"
    if not reasons:
        return f"{told}."
    often = "; ".join(f"{reason}: {count:,}" for reason, count in reasons.most_common(5))
    told += f", {reasons.total():,} files give no image ({often})."
    if reasons.total() == done:
        raise UserError(f"{told} All of them are in {path}, with the reasons.")
    return told


def _cells(opinions: Opinion, names: Sequence[str], top_k: int) -> Iterator[list[str]]:
    """The cells of each image behind its path."""
    order = np.argsort(-opinions, axis=1, kind="stable")[:, :top_k]
    likely = np.take_along_axis(opinions, order, axis=1)
    for classes, shares, doubt in zip(order, likely, doubt_of(opinions), strict=True):
        pairs = [
            [names[number], f"{share:.6f}"] for number, share in zip(classes, shares, strict=True)
        ]
        rest = [cell for pair in pairs[1:] for cell in pair]
        yield [*pairs[0], f"{doubt:.6f}", "", *rest]
