"""Training methods, one file each: a file with a class is all it takes, and names the method."""

from __future__ import annotations

import importlib
import pkgutil

from josrc._console import clipped
from josrc._plugins import load_plugin, plugin_names
from josrc.errors import UserError, closest
from josrc.methods.base import Method, StepResult

# The entry points by which other packages add methods: a key, and a child of Method.
PLUGINS = "josrc.methods"

__all__ = ["Method", "StepResult", "get_method", "method_names"]


def method_names() -> list[str]:
    """Keys of all methods: the file ``coteaching_plus.py`` is the method ``coteaching-plus``.

    Other packages add theirs by entry points. A leading underscore marks what several of them use.
    """
    return sorted({*_own_names(), *plugin_names(PLUGINS)})


def _own_names() -> set[str]:
    modules = (module.name for module in pkgutil.iter_modules(__path__))
    return {
        name.replace("_", "-") for name in modules if name != "base" and not name.startswith("_")
    }


def get_method(key: str) -> type[Method]:
    """The method class of a key."""
    if key not in _own_names():
        if key not in plugin_names(PLUGINS):  # looked for last: every installed package is asked
            raise UserError(
                f"Unknown method '{clipped(str(key))}'.{closest(str(key), method_names())}"
            )
        found = load_plugin(PLUGINS, key)
        if not (isinstance(found, type) and issubclass(found, Method)):
            raise UserError(
                f"Method {key}: its entry point names {found!r}, which is not a Method."
            )
        return found
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
