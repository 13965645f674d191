"""Files that others wrote, opened with care: each is a regular file, and expands to bounded size.

Whoever reads a file of a user's or of a run folder comes through here. What is wrong with it is an
error that names the file and the fault.
"""

from __future__ import annotations

import json
import os
import stat
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from josrc._console import clipped
from josrc._io import UNREADABLE, readable
from josrc.errors import UserError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from pydantic import BaseModel

    Arrays = dict[str, NDArray[Any]]

Place = TypeVar("Place", str, Path)
# An archive of arrays may expand to this many bytes, or to this many times its own size.
MAX_EXPANDED_BYTES, MAX_EXPANSION = 2**30, 100
# Kinds of numpy's types, for messages.
TYPES = {"iu": "whole numbers", "f": "numbers", "U": "text"}
KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
}


def regular(path: Place) -> Place:
    """A path that is safe to open for reading: a pipe would wait, and a device might never end.

    One that is not there is for the caller to tell.
    """
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)  # noqa: PTH116  (a Path costs more, a million times)
    except (OSError, ValueError):
        return path
    if kind in KINDS:
        raise UserError(f"{path} is {KINDS[kind]}, not a regular file. Name a file.")
    return path


def regular_below(folder: Path) -> Path:
    """A folder in which every file is safe to open; links to other folders are not followed."""
    for place, _, files in os.walk(folder):
        for name in files:
            regular(Path(place, name))
    return folder


def parse_json(text: str | bytes) -> Any:
    """What JSON says; one that is nested without end, as nobody writes it, is an error too."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def load_json(path: Path) -> Any:
    """What a JSON file holds, whatever that is."""
    return parse_json(regular(path).read_bytes())


def read_json(path: Path) -> dict[str, Any]:
    """What a JSON file holds, which is an object."""
    with readable(path):
        found = load_json(path)
        if not isinstance(found, dict):
            raise ValueError(f"it contains a {type(found).__name__}, not an object with keys")
        return found


def check_json(
    model: type[BaseModel], values: Any, path: Path | str, complaint: str = "is damaged"
) -> None:
    """Raise an error unless values of a file are what they should be.

    Args:
        model: says what they should be.
        values: the content of the file.
        path: the file, or which part of it.
        complaint: what is said of a file that holds something else.
    """
    from pydantic import ValidationError

    try:
        model.model_validate(values)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=False)[0]
        place = clipped(".".join(str(part) for part in problem["loc"]))
        why = problem["msg"].removeprefix("Value error, ")
        raise UserError(f"{path} {complaint}: {place}{': ' * bool(place)}{why}.") from None


def read_arrays(
    path: Path,
    *,
    needed: Iterable[str] = (),
    known: Iterable[str] | None = None,
    complaint: str = "is damaged",
) -> Arrays:
    """Arrays of an npz archive by their names.

    Args:
        path: the archive.
        needed: those that must be there.
        known: those that are read besides; none: all.
        complaint: what is said of a file that holds something else.
    """
    with readable(regular(path), complaint, UNREADABLE):
        if path.stat().st_size and not zipfile.is_zipfile(path):
            raise ValueError("it is not an npz archive")
        return _members(path, needed, known)


def _members(path: Path, needed: Iterable[str], known: Iterable[str] | None) -> Arrays:
    with zipfile.ZipFile(path) as archive:
        members = {name.removesuffix(".npy"): name for name in archive.namelist()}
        lacking = [name for name in needed if name not in members]
        if lacking:
            found = ", ".join(map(clipped, members)) or "nothing"
            raise ValueError(f"it contains {clipped(found)}, but no array '{lacking[0]}'")
        wanted = members if known is None else {*needed, *known} & members.keys()
        _check_expansion(archive, [members[name] for name in wanted])
        return {name: _array(archive, members[name]) for name in members if name in wanted}


def _check_expansion(archive: zipfile.ZipFile, names: Iterable[str]) -> None:
    found = [archive.getinfo(name) for name in names]
    size, packed = sum(f.file_size for f in found), sum(f.compress_size for f in found)
    if size > max(MAX_EXPANDED_BYTES, MAX_EXPANSION * packed):
        raise ValueError(f"it would expand from {packed:,} to {size:,} bytes")


def _array(archive: zipfile.ZipFile, name: str) -> Any:
    import numpy as np

    with archive.open(name) as file:
        if not name.endswith(".npy"):
            raise ValueError(f"{clipped(name)} is not an array")
        shape, kind = _header(file)
        declared, there = _bytes(shape, kind), archive.getinfo(name).file_size - file.tell()
        if kind.hasobject or declared != there:
            what = "Python objects" if kind.hasobject else f"{declared:,} bytes, and has {there:,}"
            raise ValueError(f"{clipped(name)} claims to contain {what}")
        file.seek(0)
        return np.lib.format.read_array(file, allow_pickle=False)


def _header(file: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of an array, of which its beginning tells."""
    import numpy as np

    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError("its version of numpy's format is not supported")
    read = np.lib.format.read_array_header_1_0
    shape, _, kind = (read if version == (1, 0) else np.lib.format.read_array_header_2_0)(file)
    return shape, kind


def _bytes(shape: tuple[int, ...], kind: np.dtype[Any]) -> int:
    count = 1
    for length in shape:
        count *= length
    return count * kind.itemsize


def read_array(path: Path, complaint: str = "is damaged") -> NDArray[Any]:
    """The array of an npy file, if the file holds as much as it declares."""
    import numpy as np

    with readable(path, complaint, UNREADABLE), regular(path).open("rb") as file:
        shape, kind = _header(file)
        declared, there = _bytes(shape, kind), os.fstat(file.fileno()).st_size - file.tell()
        if kind.hasobject:
            raise ValueError("it contains Python objects, which josrc never loads")
        if declared > there:
            raise ValueError(f"it claims to contain {declared:,} bytes, and has {there:,}")
        file.seek(0)
        return np.lib.format.read_array(file, allow_pickle=False)


def check_array(
    path: Path,
    arrays: Mapping[str, NDArray[Any]],
    name: str,
    kinds: str,
    *,
    length: int | None = None,
    low: int | None = None,
    high: int | None = None,
) -> None:
    """Raise an error unless an array of a file is a vector of such values.

    Args:
        path: the file.
        arrays: what it holds.
        name: of the array.
        kinds: kinds of numpy types that it may have.
        length: how long it is, where that is known.
        low: its least value.
        high: its largest.
    """
    import numpy as np

    values = arrays[name]
    if values.ndim != 1 or values.dtype.kind not in kinds:
        what = f"{values.dtype} of shape {values.shape}"
        wanted = TYPES.get(kinds, "numbers")
        raise UserError(f"{path} is damaged: {name} is {what}, not a vector of {wanted}.")
    if length is not None and len(values) != length:
        raise UserError(
            f"{path} is damaged: {name} has {len(values):,} values, but {length:,} are expected."
        )
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise UserError(f"{path} is damaged: {name} contains values that are not finite numbers.")
    for bound, beyond in ((low, np.less), (high, np.greater)):
        if bound is not None and (wrong := beyond(values, bound)).any():
            value = values[int(np.flatnonzero(wrong)[0])]
            span = f"from {low} to {high}" if None not in (low, high) else f"beyond {bound}"
            raise UserError(f"{path} is damaged: {name} holds {value}, and not values {span}.")
