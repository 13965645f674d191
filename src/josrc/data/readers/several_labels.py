"""Manifests whose cells hold several labels: recognised, and not taken for classes of their own."""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from josrc.errors import UserError

# What several labels in one cell are kept apart with.
SEPARATORS = (";", "|", ",")


def listed_label(cell: Any) -> list[Any] | None:
    """The labels in a cell that is a list, or the text of one; none if it is neither."""
    if isinstance(cell, list | tuple):
        return list(cell)
    if not isinstance(cell, str) or not (cell.startswith("[") and cell.endswith("]")):
        return None
    for parse in (json.loads, ast.literal_eval):
        try:
            found = parse(cell)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(found, list) and all(isinstance(one, str | int | float) for one in found):
            return found
    return None


def refuse_several(place: str, cell: str, rows: int) -> UserError:
    """The error of cells that hold several labels; one of them is an example."""
    images = "1 image seems" if rows == 1 else f"{rows:,} images seem"
    return UserError(
        f"{place}: {images} to have several labels, such as {cell}. josrc handles one label per "
        "image. Give each image one class, or make one manifest per question (dog: yes or no). "
        "If these are names of single classes, use --whole-labels."
    )


def check_single(place: str, counts: Mapping[str, int]) -> None:
    """Raise an error if names of classes are several labels in one.

    A name is taken for several if all its parts are labels of other rows, alone or in another
    combination: so 'Jackson, Michael' is a class, and 'cat, dog' is two where cats are about. It is
    refused where that is so of most images whose class has such a separator in its name.

    Args:
        place: what is read, for the message.
        counts: how many images have each name.
    """
    for separator in SEPARATORS:
        joined = dict(_joined(counts, separator))
        alone = counts.keys() - joined.keys()
        seen = Counter(part for parts in joined.values() for part in parts)
        several = [
            name
            for name, parts in joined.items()
            if all(part in alone or seen[part] > 1 for part in parts)
        ]
        rows = sum(counts[name] for name in several)
        if several and 2 * rows > sum(counts[name] for name in joined):
            raise refuse_several(place, repr(several[0]), rows)


def _joined(counts: Mapping[str, int], separator: str) -> Iterator[tuple[str, set[str]]]:
    """Names that a separator makes of others, and these."""
    for name in counts:
        parts = [part.strip() for part in name.split(separator)]
        if len(parts) > 1 and all(parts):
            yield name, set(parts)
