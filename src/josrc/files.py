"""Files that are whole at every moment: a kill leaves the old one or the new one."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replacing(path: Path, *, lasting: bool = True) -> Iterator[Path]:
    """Where to write what ``path`` will hold; it takes its place when it is complete.

    Unless it is ``lasting`` nobody waits for the disk: for what can be made again.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "A folder is where a file should go", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    try:
        yield partial
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise
    if lasting:
        with partial.open("rb") as file:
            os.fsync(file.fileno())
    partial.replace(path)


def write_text(path: Path, text: str) -> None:
    """Write a small file whole."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")
