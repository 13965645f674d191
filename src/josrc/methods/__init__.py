"""Training methods, one file each: a file with a class is all it takes, and names the method."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, Any

from josrc._console import clipped
from josrc._plugins import load_plugin, plugin_names
from josrc.errors import UserError, closest

if TYPE_CHECKING:
    from josrc.methods.base import Method, StepResult

# The entry points by which other packages add methods: a key, and a child of Method.
PLUGINS = "josrc.methods"

__all__ = ["Method", "StepResult", "check_method", "get_method", "method_names"]


def __getattr__(name: str) -> Any:
    # With torch, which whoever only asks for a name need not wait for.
    if name in ("Method", "StepResult"):
        return getattr(importlib.import_module(f"{__name__}.base"), name)
    raise AttributeError(f"module '{__name__}' has no attribute {name!r}")


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


def check_method(key: str) -> None:
    """Raise an error unless there is a method of that key."""
    # Plugins are looked for last: every installed package is asked.
    if key not in _own_names() and key not in plugin_names(PLUGINS):
        raise UserError(f"Unknown method '{clipped(str(key))}'.{closest(str(key), method_names())}")


def get_method(key: str) -> type[Method]:
    """The method class of a key."""
    check_method(key)
    from josrc.methods.base import Method

    if key not in _own_names():
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
