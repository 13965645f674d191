"""Loggers: where a run's numbers go besides its folder, for other programs to show.

A logger is one file in this folder. The file's name is what ``--log`` calls it, and it defines
exactly one subclass of ``Logger``.
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import TYPE_CHECKING

from josrc.errors import UserError

if TYPE_CHECKING:
    from josrc.config import RunConfig
    from josrc.logs.base import Logger


def logger_names() -> list[str]:
    """What ``--log`` may be."""
    found = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted(name for name in found if name != "base")


def create_loggers(config: RunConfig, folder: Path) -> list[Logger]:
    """The loggers that a configuration of a run in ``folder`` names, each in a folder of its own.

    One whose library is missing is an error.
    """
    return [_create(name, config, folder) for name in config.log]


def _create(name: str, config: RunConfig, folder: Path) -> Logger:
    from josrc.logs.base import Logger

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
