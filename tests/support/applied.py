"""What `josrc apply` has written and printed."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import yaml


def command_of(said: str) -> list[str]:
    """The command that ``josrc apply`` prints, as a shell would read it."""
    return shlex.split(said.partition("Train again: josrc ")[2].partition("\nLater, ")[0])


def sections(run: Path) -> dict[str, Any]:
    """All of a run's configuration but its data."""
    found: dict[str, Any] = yaml.safe_load((run / "config.yaml").read_text())
    del found["data"]
    return found
