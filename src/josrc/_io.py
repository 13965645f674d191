"""Files that are whole at every moment: a kill leaves the old one or the new one."""

import csv
import errno
import os
import re
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from josrc.errors import UserError, reason

# How an address begins, one of this machine, and a file of images with a name in it.
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://")
LOCAL = "file://"
MEMBER = re.compile(r"(.*?\.(?:tar|parquet))#(.+)", re.DOTALL | re.IGNORECASE)
# What the name of a file that is not complete ends with.
PARTIAL = ".partial"
# What readers of JSON, CSV, arrays and archives raise on content that makes no sense.
MALFORMED = (
    ValueError,
    LookupError,
    AttributeError,
    TypeError,
    OverflowError,
    EOFError,
    MemoryError,
    RuntimeError,  # that of a nesting without end, too
    struct.error,
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
        raise IsADirectoryError(
            errno.EISDIR, "There is a folder where the file should go", str(path)
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = partial_of(path)
    drop_link(partial)
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


def drop_link(path: Path) -> None:
    """Delete a link where a file is to be written: it may lead to a file of somebody else's."""
    if path.is_symlink() and not path.is_char_device():
        path.unlink()


def is_url(path: str) -> bool:
    """Whether a path is an address, as ``s3://bucket/a.jpg``, and not one of this machine."""
    return "://" in path and SCHEME.match(path) is not None


def split_member(path: str) -> tuple[str, str]:
    """The file that holds an image, and what it is called in there; empty if it is the image.

    ``shards/1.tar#cat/2.jpg`` is the image ``cat/2.jpg`` in ``shards/1.tar``.
    """
    found = MEMBER.match(path) if "#" in path else None
    return (path, "") if found is None else (found[1], found[2])


def located(root: str | Path, name: str) -> str:
    """Where a name leads that begins at a folder or at an address; a whole one stays."""
    name, home = name.removeprefix(LOCAL), str(root)
    if is_url(name):
        return name
    if not is_url(home):
        return os.path.join(home, name)  # noqa: PTH118  (a Path costs 10 times)
    return name if name.startswith("/") else f"{home.rstrip('/')}/{name}"


def seen_from(folder: Path, path: str) -> str:
    """A path as seen from a folder if it lies below, else absolute; an address stays."""
    if is_url(path):
        return path
    file, member = split_member(path)
    file = os.path.abspath(file)  # noqa: PTH100  (a Path costs 10 times)
    if file.startswith(f"{folder}{os.sep}"):
        file = os.path.relpath(file, folder)
    return f"{file}#{member}" if member else file


def leaves(path: str) -> bool:
    """Whether a path that was seen from a folder leads out of it."""
    return os.path.isabs(path) or is_url(path)  # noqa: PTH117


def write_text(path: Path, text: str) -> None:
    """Write a small file whole."""
    with atomic_write(path) as partial:
        partial.write_text(text, encoding="utf-8")


@contextmanager
def atomic_csv(
    path: Path, line_end: str = "\r\n"
) -> Iterator[Callable[[Iterable[Sequence[Any]]], None]]:
    """What writes rows of a CSV file, which takes its place when it is complete.

    File names are bytes to a system, and some are not valid UTF-8: they are written as they are.
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
