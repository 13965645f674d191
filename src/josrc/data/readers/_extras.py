"""Libraries that come with an extra."""

from __future__ import annotations

import importlib
from typing import Any

from josrc.errors import UserError


def library(module: str, extra: str, why: str) -> Any:
    """A library that an extra brings."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UserError(f"{why}: install josrc[{extra}] to read it.") from None
