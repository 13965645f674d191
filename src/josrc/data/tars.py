"""Tar files of images, as WebDataset writes them: what lies where in them."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import IO, Any, NamedTuple

from josrc._console import MAX_TEXT_LENGTH, clipped
from josrc._reading import regular
from josrc.data.decode import UnreadableImageError
from josrc.data.remote import open_seekable
from josrc.errors import UserError, reason

# Members of a tar that tell of the image of their name: its class, or several things of it.
# One of them is read up to some size, and all of them up to another.
TELLING, LARGEST_TELLING, LARGEST_TOLD = (".cls", ".json"), 2**20, 2**29


class Member(NamedTuple):
    """A file inside of another one: its name, where it begins, and its bytes."""

    name: str
    start: int
    size: int


class ShortReads:
    """A file of which no more is read at a time than a small member has.

    A long name or an extended header is read as a whole, however long it says it is.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.seek, self.tell, self.file = file.seek, file.tell, file

    def read(self, size: int) -> bytes:
        """So many bytes, if they are not too many."""
        if not 0 <= size <= LARGEST_TELLING:
            raise ValueError(f"a header of {size:,} bytes")
        return self.file.read(size)


def tar_members(path: str) -> tuple[list[Member], dict[str, bytes]]:
    """The files in a tar in their order, and the content of those that say something of others.

    Only headers are read besides; nothing is ever unpacked to the disk, and links lead nowhere.
    """
    found: list[Member] = []
    told: dict[str, bytes] = {}
    try:
        with open_seekable(path) as file:
            _read_headers(file, found, told)
    except (tarfile.TarError, OSError, ValueError, EOFError) as error:
        if isinstance(error, UserError):
            raise
        why = clipped(reason(error), MAX_TEXT_LENGTH)
        raise UserError(
            f"{path} can't be read as a tar file: {why}. It must not be compressed, as images are "
            "read from anywhere in it."
        ) from None
    return found, told


def read_member(path: str, start: int, size: int) -> bytes:
    """The bytes of a file inside of a tar of this machine."""
    try:
        with open(regular(path), "rb") as file:  # noqa: PTH123  (a Path costs more, a million times)
            file.seek(start)
            content = file.read(size)
    except OSError as error:
        raise UnreadableImageError(f"{Path(path).name} can't be read: {error.strerror}") from None
    if len(content) < size:
        raise UnreadableImageError(f"{Path(path).name} ends before it")
    return content


def _read_headers(file: IO[bytes], found: list[Member], told: dict[str, bytes]) -> None:
    """Fill in the files of a tar, and the content of those that say something of others."""
    short: Any = ShortReads(file)
    with tarfile.open(fileobj=short, mode="r:") as archive:
        behind, left = -1, LARGEST_TOLD
        for one in archive:
            archive.members.clear()  # type: ignore[attr-defined]  # or a million stay
            if one.offset_data <= behind or one.size < 0:
                raise ValueError("its members do not follow one another")
            behind = one.offset_data
            if not one.isreg() or one.issparse():
                continue
            if one.name.lower().endswith(TELLING) and one.size <= LARGEST_TELLING:
                member = archive.extractfile(one)
                told[one.name] = b"" if member is None else member.read()
                left -= one.size
            if left < 0:
                most = f"{LARGEST_TOLD >> 20} MiB"
                raise ValueError(f"what tells of its images takes more than {most}")
            found.append(Member(one.name, one.offset_data, one.size))
