"""Loggers: where a run's numbers go besides its folder, for other programs to show.

A logger is one file in this folder. The file's name is what ``--log`` calls it, and it defines
exactly one subclass of ``Logger``. Other packages add theirs by an entry point.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

from josrc._console import say_once
from josrc._plugins import load_plugin, plugin_names
from josrc.config import RunConfig
from josrc.engine.listeners.background import BackgroundLoggers
from josrc.engine.listeners.base import Listener, Logger
from josrc.errors import UserError, closest, install_command

# The entry points by which other packages add loggers: a name for --log, and a child of Logger.
PLUGINS = "josrc.loggers"


def logger_names() -> list[str]:
    """What ``--log`` may be."""
    found = (module.name for module in pkgutil.iter_modules(__path__))
    own = {name for name in found if _loggers_in(name)}
    return sorted(own | set(plugin_names(PLUGINS)))


def check_loggers(names: Sequence[str]) -> None:
    """Raise an error that names a logger that does not exist."""
    for name in names:
        if name not in logger_names():
            raise UserError(f"There is no logger '{name}'.{closest(name, logger_names())}")


def create_loggers(
    config: RunConfig, folder: Path, tell: Callable[[str], None] = say_once
) -> list[Listener]:
    """The loggers that a configuration of a run in ``folder`` names, each in a folder of its own.

    One that does not exist is an error, and so is one whose library is missing. What goes wrong
    later is reported, and neither ends nor holds up a training.
    """
    check_loggers(config.log)
    loggers = {name: _create(name, config, folder) for name in config.log}
    return [BackgroundLoggers(loggers, tell)] if loggers else []


def _loggers_in(name: str) -> list[type[Logger]]:
    """The loggers that a file of this folder defines: one, or none if it is for something else."""
    module = import_module(f"{__name__}.{name}")
    kinds = (value for value in vars(module).values() if isinstance(value, type))
    return [
        kind
        for kind in kinds
        if issubclass(kind, Logger) and kind is not Logger and kind.__module__ == module.__name__
    ]


def _create(name: str, config: RunConfig, folder: Path) -> Logger:
    if name in plugin_names(PLUGINS) and name not in _own_names():
        kind = load_plugin(PLUGINS, name)
        if not (isinstance(kind, type) and issubclass(kind, Logger)):
            raise UserError(f"--log {name}: its entry point names {kind!r}, which is not a Logger.")
        needs = "install what it needs"
    else:
        (kind,) = _loggers_in(name)
        needs = install_command(name)
    make = partial(kind, config, folder / "logs" / name)
    try:
        return make()
    except ImportError as error:
        raise UserError(f"--log {name} can't be loaded ({error}): {needs}") from None


def _own_names() -> set[str]:
    return {module.name for module in pkgutil.iter_modules(__path__)}
