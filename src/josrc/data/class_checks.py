"""Classes that look like a mistake in the names, or are too small to learn."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np

from josrc.data.source import Source

# ours: a class of fewer images is hardly learned, and a verdict on them rests on next to nothing.
MIN_IMAGES = 10
# Classes, or groups of them, that a warning names.
MAX_NAMED = 8


def warn_of_odd_classes(source: Source) -> list[str]:
    """Warnings of classes that may be one, and of those with very few images."""
    return [*_alike(source.closed_names), *_small(source)]


def _alike(names: Sequence[str]) -> list[str]:
    same: dict[str, list[str]] = {}
    for name in names:
        plain = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
        same.setdefault(plain, []).append(name)
    groups = [" and ".join(map(repr, group)) for group in same.values() if len(group) > 1]
    if not groups:
        return []
    return [
        f"Warning: classes that differ only in case or spaces: {_some(groups)}. They are treated "
        "as separate classes. If they are the same class, give them the same name."
    ]


def _small(source: Source) -> list[str]:
    counts = np.bincount(source.given, minlength=source.closed)
    small = [place for place in np.argsort(counts, kind="stable") if counts[place] < MIN_IMAGES]
    if not small:
        return []
    named = [f"{source.class_names[place]} {counts[place]:,}" for place in small]
    return [
        f"Warning: classes with fewer than {MIN_IMAGES} images: {_some(named)}. The network can "
        "hardly learn them, and verdicts on them are little more than guesses."
    ]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMED:,} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more
