"""Tar files of images, as WebDataset writes them: what lies where in them."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import NamedTuple

from josrc._console import MAX_TEXT_LENGTH, clipped
from josrc._io import is_url
from josrc._reading import regular
from josrc.data.decode import UnreadableImageError
from josrc.data.remote import open_seekable
from josrc.errors import UserError, reason

# Members of a tar that tell of the image of their name: its class, or several things of it.
TELLING, LARGEST_TELLING = (".cls", ".json"), 2**20


class Member(NamedTuple):
    """A file inside of another one: its name, where it begins, and its bytes."""

    name: str
    start: int
    size: int


def tar_members(path: str) -> tuple[list[Member], dict[str, bytes]]:
    """The files in a tar in their order, and the content of those that say something of others.

    Only headers are read besides; nothing is ever unpacked to the disk, and links lead nowhere.
    """
    if not is_url(path):
        regular(Path(path))
    found: list[Member] = []
    told: dict[str, bytes] = {}
    try:
        with open_seekable(path) as file, tarfile.open(fileobj=file, mode="r:") as archive:
            for one in archive:
                archive.members.clear()  # type: ignore[attr-defined]  # or a million stay
                if not one.isreg() or one.issparse():
                    continue
                if one.name.lower().endswith(TELLING) and one.size <= LARGEST_TELLING:
                    member = archive.extractfile(one)
                    told[one.name] = b"" if member is None else member.read()
                found.append(Member(one.name, one.offset_data, one.size))
    except (tarfile.TarError, OSError, ValueError, EOFError) as error:
        if isinstance(error, UserError):
            raise
        why = clipped(reason(error), MAX_TEXT_LENGTH)
        raise UserError(
            f"{path} can't be read as a tar file: {why}. It must not be compressed, because images "
            "are read at random positions."
        ) from None
    return found, told


def read_member(path: str, start: int, size: int) -> bytes:
    """The bytes of a file inside of a tar of this machine."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123  (a Path costs more, a million times)
            file.seek(start)
            content = file.read(size)
    except OSError as error:
        raise UnreadableImageError(f"{Path(path).name} can't be read: {error.strerror}") from None
    if len(content) < size:
        raise UnreadableImageError(f"{Path(path).name} ends before it")
    return content
