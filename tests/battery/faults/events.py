"""Every moment at which a command touches a file to write: counted, or the last that it lives."""

from __future__ import annotations

import mmap
import os
import signal
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# What Python itself announces before it happens.
CHANGES = {
    "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate",
    "os.chmod", "os.utime", "shutil.rmtree", "shutil.copyfile", "shutil.move", "sqlite3.connect",
}  # fmt: skip


class EventCounter:
    """Counts the events of a child that concern a folder, and may do something before one.

    ``count`` lies in memory that parent and child share, so it survives a kill.
    """

    def __init__(
        self, folder: Path, *, kill_at: int | None = None, act: Callable[[], None] | None = None
    ) -> None:
        self.folder, self.kill_at = str(folder), kill_at
        self.act = act or (lambda: os.kill(os.getpid(), signal.SIGKILL))
        self.shared = mmap.mmap(-1, 8)

    @property
    def count(self) -> int:
        """How many events there were."""
        (number,) = struct.unpack("q", self.shared[:8])
        return int(number)

    def install(self) -> None:
        """Watch this process from now on; its own children are left alone."""
        owner, inside = os.getpid(), False

        def happened() -> None:
            nonlocal inside
            if os.getpid() != owner or inside:
                return
            inside = True
            number = self.count + 1
            self.shared[:8] = struct.pack("q", number)
            if number == self.kill_at:
                self.act()
            inside = False

        def audit(event: str, arguments: tuple[Any, ...]) -> None:
            if self._concerns(event, arguments):
                happened()

        sync = os.fsync

        def fsync(file: Any) -> None:
            happened()
            sync(file)

        os.fsync = fsync
        sys.addaudithook(audit)

    def _concerns(self, event: str, arguments: tuple[Any, ...]) -> bool:
        if event == "open":
            path, mode, flags = (*arguments, None, None)[:3]
            writes = any(one in "wax+" for one in mode or "") or bool((flags or 0) & WRITES)
            return writes and self._inside(path)
        return event in CHANGES and any(self._inside(one) for one in arguments[:2])

    def _inside(self, path: Any) -> bool:
        if isinstance(path, bytes | os.PathLike):
            path = os.fsdecode(path)
        return isinstance(path, str) and os.path.abspath(path).startswith(self.folder)
