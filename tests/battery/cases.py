"""A case: a command, the files it is given, and where it may write."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

# How a case can end. Only the first two are as they should be.
CLEAR, ACCEPTED = "clear error", "accepted"
GOOD = (CLEAR, ACCEPTED)
# What the targets count; in the order in which they are looked for.
EXECUTED, OUTSIDE, LOST = "EXECUTED", "WROTE-OUTSIDE", "LOST"
HANG, MEMORY, TRACEBACK = "HANG", "MEMORY", "TRACEBACK"
LONG, ESCAPE, CODE = "LONG", "ESCAPE", "EXIT-CODE"
# Of kills, torn files and disks.
DIFFERS = "DIFFERS"


def nothing(folder: Path) -> None:
    """A case that needs no file of its own."""


@dataclass(frozen=True)
class Case:
    """One command with hostile input.

    Attributes:
        group: which kind of input.
        name: unique within the group, and the same in every run of the battery.
        arguments: of ``josrc``, paths as seen from the case's folder.
        prepare: writes the case's files into its folder.
        own: what the command may write to, below that folder.
        limit: seconds.
        until: what ends a command that serves: once it has printed this, it is interrupted.
    """

    group: str
    name: str
    arguments: tuple[str, ...]
    prepare: Callable[[Path], object] = nothing
    own: tuple[str, ...] = ("out",)
    limit: float = 60.0
    until: str | None = None


@dataclass
class Result:
    """How a case ended, a line of the record."""

    group: str
    name: str
    outcome: str
    seconds: float = 0.0
    mebibytes: float = 0.0
    command: str = ""
    message: str = ""
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from others."""
        return self.group, self.name

    def line(self) -> dict[str, Any]:
        """As it is kept."""
        return asdict(self)


# Groups that belong to every share as a whole: what opens a file is new more often than all else.
WHOLE = ("devices",)


def chosen(group: str, name: str, share: float) -> bool:
    """Whether a case belongs to a fixed share of the battery."""
    return group in WHOLE or zlib.crc32(f"{group}/{name}".encode()) % 1000 < 1000 * share
