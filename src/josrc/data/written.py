"""Manifests that josrc itself has written on this machine: their images may lie anywhere.

A manifest may name files outside of its folder only by leave, as one that somebody hands over could
name any picture of the machine. What ``josrc apply`` writes needs no leave: the images are those
of the run. It is known by its content, so that it may be moved, and not be changed.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

from platformdirs import user_state_path

from josrc._reading import regular

# The latest this many are remembered.
MAX_REMEMBERED = 1000


def remember(manifest: Path) -> None:
    """Note that josrc has written a manifest; where that can't be kept, it is not."""
    folder = _folder()
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _digest(manifest)).touch()
        known = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        for path in known[:-MAX_REMEMBERED]:
            path.unlink(missing_ok=True)


def is_remembered(manifest: Path) -> bool:
    """Whether josrc has written a manifest, just as it is."""
    folder = _folder()
    with suppress(OSError):
        return folder.is_dir() and (folder / _digest(manifest)).is_file()
    return False


def _folder() -> Path:
    return user_state_path("josrc") / "manifests"


def _digest(manifest: Path) -> str:
    with regular(manifest).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
