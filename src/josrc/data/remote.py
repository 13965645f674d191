"""Files behind an address, as ``s3://bucket/a.jpg``, through fsspec.

Each process has connections of its own: fsspec keeps them per process, and nothing here outlives a
fork. Where to connect and as whom is said as fsspec and the libraries behind it want it, in
environment variables or files in the user's home: no run folder ever holds a secret.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from josrc._io import LOCAL, is_url, split_member
from josrc._reading import regular
from josrc.data.decode import UnreadableImageError
from josrc.errors import UserError

# What may be opened, by the beginning of the address: how to install what is behind it. Others of
# fsspec's run programs, unpack archives or reach into other services.
PROTOCOLS = {
    "s3": "pip install 'josrc[remote]'",
    "gs": "pip install gcsfs",
    "gcs": "pip install gcsfs",
    "az": "pip install adlfs",
    "abfs": "pip install adlfs",
    "hf": "pip install 'josrc[hf]'",
    "memory": "pip install 'josrc[remote]'",
}
# Bytes of one encoded image: what a hostile file can make a worker hold.
LARGEST_IMAGE = 2**28
# Seconds for one answer, unless $JOSRC_REMOTE_SECONDS says otherwise.
SECONDS = 60.0
# After so many answers in a row that did not come a process asks no more.
GIVE_UP = 5
# How many in a row did not come, by protocol; of this process alone.
_unanswered: Counter[tuple[int, str]] = Counter()


class RemoteError(Exception):
    """What is behind an address can't be read; its text is the reason."""


class AbsentError(RemoteError):
    """There is nothing behind an address."""


def protocol_of(url: str) -> str:
    """How an address begins, if josrc opens such; an error says which it does."""
    protocol, _, rest = url.partition("://")
    if protocol not in PROTOCOLS:
        known = ", ".join(f"{name}://" for name in PROTOCOLS)
        raise UserError(f"{url}: josrc does not open {protocol}://, but {known}.")
    if not rest.strip("/") or (not rest.split("/")[0] and protocol != "memory"):
        raise UserError(f"{url} names no bucket: {protocol}://BUCKET/PATH.")
    if "@" in rest.split("/")[0]:
        shown = f"{protocol}://...@{rest.partition('@')[2]}"
        raise UserError(
            f"{shown}: leave the password out of the address, as it would be kept in the run's "
            "folder. Environment variables say who you are, AWS_ACCESS_KEY_ID and so on."
        )
    return protocol


def bucket_of(url: str) -> str:
    """The bucket of an address; on the Hugging Face hub the repository."""
    protocol, _, rest = url.partition("://")
    parts = rest.split("/")[: 3 if protocol == "hf" else 1]
    return f"{protocol}://{'/'.join(parts) if protocol != 'memory' else ''}"


def local_or_url(name: str) -> str:
    """A name without the ``file://`` that paths of this machine may begin with."""
    return name.removeprefix(LOCAL)


def filesystem(url: str) -> Any:
    """The file system of an address, for this process."""
    protocol = protocol_of(url)
    try:
        import fsspec

        return fsspec.filesystem(protocol)
    except ImportError:
        raise UserError(f"{url} is an address: {PROTOCOLS[protocol]} to read it.") from None
    except Exception as error:  # settings and credentials fail in many ways
        raise UserError(f"{url} can't be reached: {_why(error)}.") from None


def read_range(url: str, start: int | None = None, end: int | None = None) -> bytes:
    """The bytes behind an address, or some of them.

    Args:
        url: the address.
        start: the first byte; none: from the beginning.
        end: the one behind the last; none: all, up to the size of the largest image.
    """
    asked = (os.getpid(), protocol_of(url))
    if _unanswered[asked] >= GIVE_UP:
        raise RemoteError(f"no answer, {GIVE_UP} times in a row: not asked any more")
    first, last = start or 0, LARGEST_IMAGE + 1 if end is None else end
    with _telling(url):
        content: bytes = _call(filesystem(url), "cat_file", url, start=first, end=last)
    if end is None and len(content) > LARGEST_IMAGE:
        raise RemoteError(f"larger than {LARGEST_IMAGE >> 20} MiB")
    return content


def fetch_image(url: str, start: int | None = None, end: int | None = None) -> bytes:
    """The bytes of an image behind an address; what goes wrong is a fault of that image."""
    try:
        return read_range(url, start, end)
    except RemoteError as error:
        raise UnreadableImageError(str(error)) from None


def check_reached(images: Any) -> None:
    """Raise an error if images behind addresses can't be asked for at all: told before all are.

    Args:
        images: an ``ImageFiles``; the first one behind an address is asked for.
    """
    if not images.is_remote:
        return
    places = map(images.location, range(len(images)))
    first = next((split_member(place)[0] for place in places if is_url(place)), None)
    if first is None:
        return
    try:
        with _telling(first):
            _call(filesystem(first), "info", first)
    except AbsentError:  # a fault of this image alone
        return
    except RemoteError as error:
        raise UserError(f"{first} can't be read: {error}.") from None


@contextmanager
def local_copy(place: str) -> Iterator[Path]:
    """The file at a path, or a copy of what is behind an address for as long as it is read."""
    if not is_url(place):
        yield Path(place)
        return
    with tempfile.TemporaryDirectory(prefix="josrc-") as folder:
        copy = Path(folder) / f"copy{Path(place).suffix}"
        files = filesystem(place)
        try:
            with _telling(place):
                _call(files, "info", place)  # in time; the transfer may take longer
                files.get_file(place, str(copy))
        except RemoteError as error:
            raise UserError(f"{place} can't be read: {error}.") from None
        try:
            yield copy
        except UserError as error:  # people know the address, and not its copy
            raise UserError(str(error).replace(str(copy), place)) from None


@contextmanager
def open_seekable(place: str) -> Iterator[Any]:
    """A file at a path or behind an address, open for reading anywhere in it."""
    if not is_url(place):
        with regular(Path(place)).open("rb") as file:
            yield file
        return
    file = open_remote(place)
    try:
        with file, _telling(place):
            yield file
    except RemoteError as error:
        raise UserError(f"{place} can't be read: {error}.") from None


def open_remote(url: str) -> Any:
    """What is behind an address, open for reading anywhere in it."""
    files = filesystem(url)
    try:
        with _telling(url):
            _call(files, "info", url)  # in time
            return files.open(url, "rb")
    except RemoteError as error:
        raise UserError(f"{url} can't be read: {error}.") from None


def list_files(url: str) -> list[str]:
    """The addresses directly below one, in their order."""
    try:
        with _telling(url):
            files = filesystem(url)
            found = _call(files, "ls", url, detail=False)
            return sorted(files.unstrip_protocol(name) for name in found)
    except RemoteError as error:
        raise UserError(f"{url} can't be read: {error}.") from None


def _call(files: Any, method: str, *args: Any, **options: Any) -> Any:
    """A method of a file system, which ends in time where there is a network behind it."""
    from fsspec.asyn import AsyncFileSystem, sync

    if isinstance(files, AsyncFileSystem):
        return sync(files.loop, getattr(files, f"_{method}"), *args, timeout=seconds(), **options)
    return getattr(files, method)(*args, **options)


def seconds() -> float:
    """How long an answer may take."""
    text = os.environ.get("JOSRC_REMOTE_SECONDS", "")
    try:
        found = float(text) if text else SECONDS
    except ValueError:
        found = 0.0
    if not found > 0:
        raise UserError(f"JOSRC_REMOTE_SECONDS={text}: it is a number of seconds above 0.")
    return found


@contextmanager
def _telling(url: str) -> Iterator[None]:
    """What goes wrong becomes a reason that people understand; silence is counted."""
    asked = (os.getpid(), protocol_of(url))
    try:
        yield
    except (UserError, RemoteError):
        raise
    except Exception as error:  # every service has errors of its own
        silent = _is_silence(error)
        _unanswered[asked] = _unanswered[asked] + 1 if silent else 0
        kind = AbsentError if isinstance(error, FileNotFoundError) else RemoteError
        raise kind(_why(error)) from None
    _unanswered[asked] = 0


def _is_silence(error: BaseException | None) -> bool:
    """Whether nobody answered, or not in time."""
    while error is not None:
        name = type(error).__name__
        if isinstance(error, TimeoutError | ConnectionError) or "Timeout" in name:
            return True
        if "Connect" in name or "EndpointConnection" in name:
            return True
        error = error.__cause__ or error.__context__
    return False


def _why(error: BaseException) -> str:
    """One line on what went wrong, with what to do where that is known."""
    name = type(error).__name__
    if isinstance(error, FileNotFoundError):
        return "there is no such object or bucket"
    if isinstance(error, PermissionError) or "Credential" in name or "Forbidden" in name:
        return f"no permission, look at your credentials ({_first_line(error)})"
    if "Timeout" in name or isinstance(error, TimeoutError):
        return f"no answer within {seconds():g} seconds"
    if _is_silence(error):
        return f"no answer ({_first_line(error)})"
    if "range is not satisfiable" in str(error):  # every image begins at its first byte
        return "the file is empty"
    return _first_line(error)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
