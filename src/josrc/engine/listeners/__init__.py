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

_PLUMBING = {"base", "progress"}


def logger_names() -> list[str]:
    """What ``--log`` may be."""
    found = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted(name for name in found if name not in _PLUMBING)


def check_loggers(names: Sequence[str]) -> None:
    """Raise an error that names a logger that does not exist."""
    for name in names:
        if name not in logger_names():
            raise UserError(f"There is no logger '{name}'.{closest(name, logger_names())}")


def create_loggers(config: RunConfig, folder: Path) -> list[Logger]:
    """The loggers that a configuration of a run in ``folder`` names, each in a folder of its own.

    One whose library is missing is an error.
    """
    return [_create(name, config, folder) for name in config.log]


def _create(name: str, config: RunConfig, folder: Path) -> Logger:
    module = importlib.import_module(f"{__name__}.{name}")
    (kind,) = (
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Logger) and value is not Logger
    )
    try:
        return kind(config, folder / "logs" / name)
    except ImportError as error:
        raise UserError(
            f"--log {name} can't be loaded ({error}): pip install 'josrc[{name}]'"
        ) from None
