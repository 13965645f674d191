"""What a command did to files: those that it wrote outside its output, and those it destroyed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

Snapshot = dict[str, tuple[object, ...]]
# Larger files are known by size and time alone.
HASHED = 2**20


def snapshot(folder: Path, leave_out: tuple[str, ...] = ()) -> Snapshot:
    """Every file below a folder with what it holds, but for what lies below some names."""
    found: Snapshot = {}
    for place, folders, files in os.walk(os.fsencode(folder)):
        inside = os.path.relpath(place, os.fsencode(folder))
        folders[:] = [
            one
            for one in folders
            if os.fsdecode(os.path.normpath(inside + b"/" + one)) not in leave_out
        ]
        for one in files + [one for one in folders if os.path.islink(place + b"/" + one)]:
            name = os.fsdecode(os.path.normpath(inside + b"/" + one))
            if name not in leave_out:
                found[name] = _content(place + b"/" + one)
        for one in folders:
            found.setdefault(os.fsdecode(os.path.normpath(inside + b"/" + one)) + "/", ())
    return found


def _content(path: bytes) -> tuple[object, ...]:
    status = os.lstat(path)
    if os.path.islink(path):
        return ("link", os.readlink(path))
    if not os.path.isfile(path):
        return ("special", status.st_mode)
    if status.st_size > HASHED:
        return ("file", status.st_size, status.st_mtime_ns)
    with open(path, "rb") as file:
        return ("file", status.st_size, hashlib.sha1(file.read()).hexdigest())


def written(before: Snapshot, after: Snapshot) -> list[str]:
    """What is new."""
    return sorted(set(after) - set(before))


def destroyed(before: Snapshot, after: Snapshot) -> list[str]:
    """What is gone, or holds something else."""
    return sorted(name for name, content in before.items() if after.get(name) != content)
