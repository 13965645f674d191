"""Files that are whole at every moment: a kill leaves the old one or the new one."""

import csv
import errno
import json
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from josrc.errors import UserError


@contextmanager
def named(path: Path) -> Iterator[None]:
    """An error of the system names this path if it names none, as that of a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(partial_of(path))):
            error.filename = str(path)
        raise


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Content that makes no sense becomes an error that names the file."""
    try:
        yield
    except UserError:
        raise
    except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        lacking = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise UserError(f"{path} is damaged: {lacking}") from None


def read_json(path: Path) -> dict[str, Any]:
    """What a JSON file holds."""
    with readable(path):
        return dict(json.loads(path.read_text(encoding="utf-8")))


PARTIAL = ".partial"


def partial_of(path: Path) -> Path:
    """What a file is called until it is complete."""
    return path.with_name(f"{path.name}{PARTIAL}")


@contextmanager
def replacing(path: Path, *, lasting: bool = True) -> Iterator[Path]:
    """Where to write what ``path`` will hold; it takes its place when it is complete.

    Unless it is ``lasting`` nobody waits for the disk: for what can be made again.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "A folder is where a file should go", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = partial_of(path)
    with named(path):
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


def seen_from(folder: Path, path: str) -> str:
    """A path as seen from a folder if it lies below, else absolute."""
    path = os.path.abspath(path)  # noqa: PTH100  (a Path costs 10 times)
    return os.path.relpath(path, folder) if path.startswith(f"{folder}{os.sep}") else path


def write_text(path: Path, text: str) -> None:
    """Write a small file whole."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


@contextmanager
def replacing_csv(path: Path) -> Iterator[Callable[[Iterable[Sequence[Any]]], None]]:
    """What writes rows of a CSV file, which takes its place when it is complete.

    File names are bytes to a system, and some are no UTF-8: they are written as they are.
    """
    with (
        replacing(path) as partial,
        partial.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file,
    ):
        yield csv.writer(file).writerows


def write_csv(path: Path, rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV file whole."""
    with replacing_csv(path) as write:
        write(rows)
