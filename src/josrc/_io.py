"""Files that are whole at every moment: a kill leaves the old one or the new one."""

import csv
import errno
import json
import os
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from josrc.errors import UserError, reason

# What the name of a file that is not complete ends with.
PARTIAL = ".partial"
# What readers of JSON, CSV, arrays and archives raise on content that makes no sense.
MALFORMED = (
    ValueError,
    KeyError,
    TypeError,
    EOFError,
    RuntimeError,
    csv.Error,
    zipfile.BadZipFile,
    zlib.error,
    tokenize.TokenError,
)
# The same, and what the system raises on a file that it does not give.
UNREADABLE = (*MALFORMED, OSError)


@contextmanager
def with_path(path: Path) -> Iterator[None]:
    """An error of the system names this path if it names none, as that of a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(partial_of(path))):
            error.filename = str(path)
        raise


@contextmanager
def readable(
    path: Path, complaint: str = "is damaged", kinds: tuple[type[Exception], ...] = MALFORMED
) -> Iterator[None]:
    """What goes wrong in reading a file becomes an error that names it."""
    try:
        yield
    except UserError:
        raise
    except kinds as error:
        # numpy's KeyError holds no key but a sentence.
        key = isinstance(error, KeyError) and str(*error.args[:1]).isidentifier()
        why = f"it lacks {error}" if key else reason(error)
        raise UserError(f"{path} {complaint}: {why}") from None


def read_json(path: Path) -> dict[str, Any]:
    """What a JSON file holds."""
    with readable(path):
        return dict(json.loads(path.read_text(encoding="utf-8")))


def partial_of(path: Path) -> Path:
    """What a file is called until it is complete."""
    return path.with_name(f"{path.name}{PARTIAL}")


def write_npz(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays by name, whole or not at all; compressed."""
    import numpy as np  # commands that need no arrays start without it

    with atomic_write(path) as partial, partial.open("wb") as file:
        np.savez_compressed(file, **arrays)


@contextmanager
def atomic_write(path: Path, *, lasting: bool = True) -> Iterator[Path]:
    """Where to write what ``path`` will hold; it takes its place when it is complete.

    Unless it is ``lasting`` nobody waits for the disk: for what can be made again.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "A folder is where a file should go", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = partial_of(path)
    with with_path(path):
        try:
            yield partial
        except BaseException:
            with suppress(OSError):
                partial.unlink()
            raise
        if lasting:
            with partial.open("rb+") as file:  # Windows syncs only what may be written
                os.fsync(file.fileno())
        partial.replace(path)


def seen_from(folder: Path, path: str) -> str:
    """A path as seen from a folder if it lies below, else absolute."""
    path = os.path.abspath(path)  # noqa: PTH100  (a Path costs 10 times)
    return os.path.relpath(path, folder) if path.startswith(f"{folder}{os.sep}") else path


def write_text(path: Path, text: str) -> None:
    """Write a small file whole."""
    with atomic_write(path) as partial:
        partial.write_text(text, encoding="utf-8")


@contextmanager
def atomic_csv(
    path: Path, line_end: str = "\r\n"
) -> Iterator[Callable[[Iterable[Sequence[Any]]], None]]:
    """What writes rows of a CSV file, which takes its place when it is complete.

    File names are bytes to a system, and some are no UTF-8: they are written as they are.
    """
    with (
        atomic_write(path) as partial,
        partial.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file,
    ):
        yield csv.writer(file, lineterminator=line_end).writerows


def write_csv(path: Path, rows: Iterable[Sequence[Any]], line_end: str = "\r\n") -> None:
    """Write a CSV file whole."""
    with atomic_csv(path, line_end) as write:
        write(rows)
