"""What other packages add to josrc by entry points: methods, loggers and data sets."""

from __future__ import annotations

import importlib.metadata
from typing import Any

from josrc.errors import UserError, sentence


def plugin_names(group: str) -> list[str]:
    """Names that installed packages add to a group; nothing is imported for it."""
    return sorted({point.name for point in importlib.metadata.entry_points(group=group)})


def load_plugin(group: str, name: str) -> Any:
    """What a name of a group stands for.

    A package that can't be imported is named, with the reason: the rest of josrc goes on.
    """
    points = [p for p in importlib.metadata.entry_points(group=group) if p.name == name]
    places = {(point.value, _package(point)) for point in points}
    if len(places) > 1:
        told = ", ".join(sorted(f"{package} ({value})" for value, package in places))
        raise UserError(f"Several packages add {name} to {group}: {told}. Uninstall all but one.")
    ((value, package),) = places
    try:
        return points[0].load()
    except UserError:
        raise
    except Exception as error:  # somebody else's code
        why = sentence(error) if str(error) else f"{type(error).__name__}."
        raise UserError(
            f"{name}, which the package {package} adds to {group}, can't be loaded from {value}: "
            f"{why} Fix or uninstall {package}."
        ) from None


def _package(point: importlib.metadata.EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "unknown"
