"""Loggers: where a run's numbers go besides its folder, for other programs to show.

A logger is one file in this folder. The file's name is what ``--log`` calls it, and it defines
exactly one subclass of ``Logger``.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from pathlib import Path

from josrc.config import RunConfig
from josrc.engine.listeners.base import Logger
from josrc.errors import UserError, closest


def logger_names() -> list[str]:
    """What ``--log`` may be."""
    found = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted(name for name in found if _loggers_in(name))


def check_loggers(names: Sequence[str]) -> None:
    """Raise an error that names a logger that does not exist."""
    for name in names:
        if name not in logger_names():
            raise UserError(f"There is no logger '{name}'.{closest(name, logger_names())}")


def create_loggers(config: RunConfig, folder: Path) -> list[Logger]:
    """The loggers that a configuration of a run in ``folder`` names, each in a folder of its own.

    One that does not exist is an error, and so is one whose library is missing.
    """
    check_loggers(config.log)
    return [_create(name, config, folder) for name in config.log]


def _loggers_in(name: str) -> list[type[Logger]]:
    """The loggers that a file of this folder defines: one, or none if it is for something else."""
    module = importlib.import_module(f"{__name__}.{name}")
    kinds = (value for value in vars(module).values() if isinstance(value, type))
    return [kind for kind in kinds if issubclass(kind, Logger) and kind is not Logger]


def _create(name: str, config: RunConfig, folder: Path) -> Logger:
    (kind,) = _loggers_in(name)
    try:
        return kind(config, folder / "logs" / name)
    except ImportError as error:
        raise UserError(
            f"--log {name} can't be loaded ({error}): pip install 'josrc[{name}]'"
        ) from None
