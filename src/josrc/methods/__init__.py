"""Training methods, one file each: a file with a class is all it takes, and names the method."""

from __future__ import annotations

import importlib
import pkgutil

from josrc.errors import UserError, closest
from josrc.methods.base import Method, StepResult

__all__ = ["Method", "StepResult", "get_method", "method_names"]


def method_names() -> list[str]:
    """Keys of all methods: the file ``coteaching_plus.py`` is the method ``coteaching-plus``.

    A leading underscore marks what several of them use.
    """
    modules = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted(
        name.replace("_", "-") for name in modules if name != "base" and not name.startswith("_")
    )


def get_method(key: str) -> type[Method]:
    """The method class of a key."""
    if key not in method_names():
        raise UserError(f"Unknown method '{key}'.{closest(str(key), method_names())}")
    module = importlib.import_module(f"{__name__}.{key.replace('-', '_')}")
    classes = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Method)
        and value.__module__ == module.__name__
    ]
    if len(classes) != 1:
        raise TypeError(f"{module.__file__} must define exactly one Method, not {len(classes)}")
    return classes[0]
