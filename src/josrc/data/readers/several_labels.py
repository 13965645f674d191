"""Manifests whose cells hold several labels: recognised, and not taken for classes of their own."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from josrc.errors import UserError

# What several labels in one cell are kept apart with.
SEPARATORS = (";", "|", ",", "/", "&", "+")
# The brackets that the text of a list, a tuple, a set or an object stands in.
BRACKETS = ("[]", "()", "{}")
# A list as numpy prints it: 'cat' 'dog', or 0 1 1.
PRINTED = re.compile(r"""(?:'[^']*'|"[^"]*"|[\d.]+)(?:\s+(?:'[^']*'|"[^"]*"|[\d.]+))+""")
ONE_PRINTED = re.compile(r"""'([^']*)'|"([^"]*)"|([\d.]+)""")


def listed_label(cell: Any) -> list[Any] | None:
    """The labels in a cell that is a list or an object, or the text of one; none if it is neither.

    An object names no single class, however many keys it has: it counts as several.
    """
    if isinstance(cell, list | tuple):
        return list(cell)
    if isinstance(cell, Mapping):
        return [*cell, cell]
    if not isinstance(cell, str):
        return None
    text = cell.strip()
    if text[:1] + text[-1:] not in BRACKETS:
        return None
    inner = text[1:-1].strip()
    if PRINTED.fullmatch(inner):
        return ["".join(found) for found in ONE_PRINTED.findall(inner)]
    for parse in (json.loads, ast.literal_eval):
        try:
            found = parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(found, set):
            found = sorted(found, key=str)
        return listed_label(found)
    parts = [part.strip() for part in inner.split(",")]  # [cat, dog], without quotes
    return parts if text[0] == "[" and len(parts) > 1 else None


def refuse_several(place: str, cell: str, rows: int) -> UserError:
    """The error of cells that hold several labels; one of them is an example."""
    images = "1 image seems" if rows == 1 else f"{rows:,} images seem"
    return UserError(
        f"{place}: {images} to have several labels, such as {cell}. josrc learns and judges one "
        "label per image. Give each image one class, or make a manifest per question (dog: yes or "
        "no). If these are names of single classes: --whole-labels."
    )


def check_single(place: str, counts: Mapping[str, int]) -> None:
    """Raise an error if names of classes are several labels in one.

    A name is taken for several if all its parts are labels of other rows, alone or in another
    combination, and one of them also stands alone or in another place: so 'Jackson, Michael' and
    'red/round' are classes, however many others share a part with them, and 'cat, dog' is two where
    cats are about. It is refused where that is so of most images whose class has such a separator
    in its name.

    Args:
        place: what is read, for the message.
        counts: how many images have each name.
    """
    for separator in SEPARATORS:
        parts_of = {name: _parts(name, separator) for name in counts}
        joined = {name: parts for name, parts in parts_of.items() if len(parts) > 1}
        alone = {parts[0] for parts in parts_of.values() if len(parts) == 1}
        seen = Counter(part for parts in joined.values() for part in set(parts))
        places = {(part, at) for parts in joined.values() for at, part in enumerate(parts)}
        moves = Counter(part for part, _ in places)
        several = [
            name
            for name, parts in joined.items()
            if all(part in alone or seen[part] > 1 for part in parts)
            and any(part in alone or moves[part] > 1 for part in parts)
        ]
        rows = sum(counts[name] for name in several)
        if several and 2 * rows > sum(counts[name] for name in joined):
            raise refuse_several(place, repr(several[0]), rows)


def _parts(name: str, separator: str) -> list[str]:
    """What a separator makes of a name, in any case; nothing of empty parts."""
    found = (part.strip().casefold() for part in name.split(separator))
    return [part for part in found if part]
