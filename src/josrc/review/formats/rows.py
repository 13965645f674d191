"""The images of a corrected data set with all that is known of them, for any format."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from josrc.data.images import Images
from josrc.data.readers.other_columns import OtherColumns
from josrc.data.source import Source
from josrc.errors import UserError
from josrc.review.corrected import CorrectedSample

# Columns that josrc writes; a column of the manifest that is called so gets another name.
OWN = ("path", "label", "id", "split")


@dataclass(frozen=True, slots=True)
class CorrectedRow:
    """An image of the corrected data set.

    Attributes:
        images: where it is one of.
        index: which one.
        label: the class it has now.
        id: what it is called; empty for tests without an id of their own.
        split: ``train``, ``val`` or ``test``.
        others: what its manifest says besides, by columns.
        row: its line in ``verdicts.csv``; none of a test image.
    """

    images: Images
    index: int
    label: str
    id: str
    split: str
    others: Mapping[str, Any]
    row: int | None = None

    @property
    def location(self) -> str:
        """Where its file is, if it lies in one."""
        return self.images.location(self.index) if self.images.has_paths else ""


def make_rows(
    source: Source, samples: Sequence[CorrectedSample], columns: OtherColumns
) -> Iterator[CorrectedRow]:
    """Training and held-out samples in their order, then the test images that lie beside them."""
    names = rename_columns(columns.names)
    for sample in samples:
        part, index = source.at(sample.row)
        split = "train" if part is source else "val"
        others = _named(columns.of(sample.id), names)
        yield CorrectedRow(part.images, index, sample.label, sample.id, split, others, sample.row)
    images, labels = source.test_images, source.test_labels
    if images is None or labels is None:
        return
    for index, label in enumerate(labels.tolist()):
        name, cells = columns.at(images.location(index)) if images.has_paths else ("", {})
        others = _named(cells, names)
        yield CorrectedRow(images, index, source.class_names[label], name, "test", others)


def has_splits(source: Source) -> bool:
    """Whether there are images that are not for training."""
    return source.val is not None or source.test_images is not None


def rename_columns(names: Sequence[str], taken: Sequence[str] = OWN) -> dict[str, str]:
    """What other columns are called beside josrc's own: ``original_label`` for ``label``."""
    found: dict[str, str] = {}
    for name in names:
        new = name
        while new.strip().lower() in taken or (new != name and new in names):
            new = f"original_{new}"
        found[name] = new
    return found


def _named(cells: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names[name]: cell for name, cell in cells.items()}


def plain(cell: Any) -> Any:
    """A cell as JSON can hold it."""
    if cell is None or isinstance(cell, str | bool | int):
        return cell
    if isinstance(cell, float):
        return cell if math.isfinite(cell) else None
    if isinstance(cell, list | tuple):
        return [plain(one) for one in cell]
    if isinstance(cell, dict):
        return {str(name): plain(one) for name, one in cell.items()}
    return str(cell)


def as_text(cell: Any) -> str:
    """A cell as a CSV file holds it."""
    if cell is None:
        return ""
    return json.dumps(plain(cell)) if isinstance(cell, list | tuple | dict) else str(cell)


def check_files(source: Source, what: str) -> None:
    """Raise an error for images that lie in no files that could be named."""
    if not source.images.has_paths:
        raise UserError(
            f"{source.name} is not stored in files that {what} could refer to. Write the images: "
            "--to hf --out FOLDER, or class folders: --copy --out FOLDER."
        )
