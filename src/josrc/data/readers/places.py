"""Where lists of images and the images they name may lie: folders, files, addresses, patterns."""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path

from josrc._io import is_url, located, split_member
from josrc.data.remote import bucket_of, local_or_url, protocol_of
from josrc.errors import UserError

# Files that hold images, by the ends of their names.
SHARDS = (".tar", ".parquet")
BRACES = re.compile(r"\{([^{}]*)\}")
RANGE = re.compile(r"(\d+)\.\.(\d+)")
# Files that a pattern may stand for.
MOST_FILES = 100_000


def is_pattern(place: str) -> bool:
    """Whether a place stands for several files, ``shards/{0000..0003}.tar``."""
    return place.lower().endswith(SHARDS) and BRACES.search(place) is not None


def expand(pattern: str) -> list[str]:
    """The files that a pattern stands for, in their order: ``{0000..0003}`` and ``{a,b}``."""
    found, done = [pattern], False
    while not done:
        done, wider = True, list[str]()
        for one in found:
            braces = BRACES.search(one)
            if braces is None:
                wider.append(one)
                continue
            done = False
            for part in _parts(braces[1], MOST_FILES):
                wider.append(f"{one[: braces.start()]}{part}{one[braces.end() :]}")
            if len(wider) > MOST_FILES:
                raise UserError(f"{pattern} matches more than {MOST_FILES:,} files.")
        found = wider
    return found


def _parts(text: str, most: int) -> list[str]:
    span = RANGE.fullmatch(text)
    if span is None:
        return text.split(",")
    first, last = int(span[1]), int(span[2])
    return [str(n).zfill(len(span[1])) for n in range(first, min(last, first + most) + 1)]


def home_of(place: str | Path) -> str:
    """Where the names of images begin: a folder, or the folder of a file or of a pattern."""
    place = str(place)
    if is_pattern(place):
        place = place[: place.index("{")] + "_"
    elif not is_url(place) and Path(place).is_dir():
        return str(Path(place).absolute())
    if is_url(place):
        return place.rpartition("/")[0]
    return str(Path(place).absolute().parent)


def check_inside(root: str, name: str, where: str) -> None:
    """Raise an error if a name leads out of where it may.

    That is the folder of the list that names it; of a list behind an address its bucket.

    Args:
        root: that folder or address.
        name: the name.
        where: which line of which list, for the message.
    """
    name = local_or_url(split_member(name)[0])
    if is_url(name):
        protocol_of(name)
    elif not os.path.isabs(name) and ".." not in name:  # noqa: PTH117
        return
    place, home = located(root, name), root
    if is_url(root):
        home = bucket_of(root)
        protocol, _, path = place.partition("://")
        place = f"{protocol}://{posixpath.normpath(path)}" if is_url(place) else place
        inside = place == home or place.startswith(f"{home.rstrip('/')}/")
    else:
        whole = place if is_url(place) else os.path.normpath(place)
        inside = whole.startswith(f"{root}{os.sep}")
    if not inside:
        raise UserError(f"{where}: {name} is outside {home}. To allow it: --allow-outside.")
