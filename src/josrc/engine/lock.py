"""Who may write to a run folder: one process at a time, and a new run not over another.

It stands apart from the run folder, which takes seconds to import: a command can look first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from josrc._io import drop_link
from josrc.errors import FolderInUseError, UserError, command

LOCK = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make sure that no other process writes there; a killed process leaves no lock behind."""
    folder.mkdir(parents=True, exist_ok=True)
    drop_link(folder / LOCK)
    lock = FileLock(folder / LOCK, blocking=False)
    try:
        lock.acquire()
    except Timeout:
        raise FolderInUseError(
            f"{folder} is in use by another josrc process, which trains it or judges its labels. "
            "Wait until that has ended, stop it there (Ctrl-C; training can be resumed), or name "
            "another folder."
        ) from None
    try:
        yield
    finally:
        lock.release()


def check_free(folder: Path) -> None:
    """Raise an error if another process writes to a folder now."""
    if (folder / LOCK).is_file():
        with locked(folder):
            pass


def check_no_run(folder: Path) -> None:
    """Raise an error if a folder contains a run."""
    if not (folder / "config.yaml").is_file():
        return
    finished = (folder / "summary.json").is_file()
    resume = "" if finished else f"Resume it: {command('resume', folder)}. "
    raise UserError(
        f"{folder} contains a run. {resume}Replace it: --overwrite. Or name another --out."
    )
