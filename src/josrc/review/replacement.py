"""A folder that ``josrc apply`` writes: it takes its place when it is complete, or not at all.

Only what josrc made is ever deleted or moved: a folder that carries its mark, and beside it folders
under names that nobody else would choose. Who is killed in between leaves the old folder, or one
that the next ``josrc apply`` puts back.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import psutil

from josrc._io import MALFORMED, is_url, split_member, with_path, write_text
from josrc._reading import parse_json, regular
from josrc.data.source import Source
from josrc.errors import UserError

# Lies in every folder that josrc wrote, and is the only leave to replace one.
MARK = ".josrc-apply"
MARK_TEXT = "josrc apply may replace this folder.\n"
# What a folder is called until it takes its place, and after another took it.
NEW, OLD = "new", "old"


def refuse(out: Path, overwrite: bool) -> None:
    """Raise an error if something is there that nobody has given leave to replace."""
    if out.exists() and not overwrite:
        raise UserError(f"{out} exists. Replace it: --overwrite. Or name another --out.")


@contextmanager
def replacing(out: Path, overwrite: bool) -> Iterator[Path]:
    """A new folder to fill, which then takes the place of ``out``."""
    _recover(out)
    if out.exists() and not (out / MARK).is_file():
        raise UserError(f"{out} was not written by josrc apply. Name another --out.")
    refuse(out, overwrite)
    token = secrets.token_hex(8)
    new, old = (out.with_name(f".{out.name}.josrc-{token}-{kind}") for kind in (NEW, OLD))
    with with_path(out):
        new.mkdir(parents=True)
        try:
            (new / MARK).write_text(_own_mark(), encoding="utf-8")
            yield new
            write_text(new / MARK, MARK_TEXT)
            if out.exists():
                out.rename(old)
            new.rename(out)
        except BaseException:
            if old.is_dir() and not out.exists():
                old.rename(out)
            shutil.rmtree(new, ignore_errors=True)
            raise
    if old.is_dir():
        _delete(old)


def _delete(folder: Path) -> None:
    """Delete a folder, its mark last: a process killed meanwhile leaves one that is recognised."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != MARK:
            path.unlink()
    shutil.rmtree(folder)


def _own_mark() -> str:
    """The mark of a folder that is being written, by whom."""
    return json.dumps({"process": os.getpid(), "machine": socket.gethostname()})


def _recover(out: Path) -> None:
    """Put back what a killed process had moved away, and delete what it left half written."""
    name = re.compile(rf"\.{re.escape(out.name)}\.josrc-[0-9a-f]{{16}}-({NEW}|{OLD})")
    try:
        beside = sorted(out.absolute().parent.iterdir())
    except OSError:
        return
    for folder in beside:
        found = name.fullmatch(folder.name)
        if found is None or folder.is_symlink() or not folder.is_dir():
            continue
        if found[1] == OLD and (folder / MARK).is_file():
            if out.exists():
                _delete(folder)
            else:
                folder.rename(out)
        elif found[1] == OLD and not any(folder.iterdir()):
            folder.rmdir()
        elif found[1] == NEW and _is_abandoned(folder):
            _delete(folder)


def _is_abandoned(folder: Path) -> bool:
    """Whether nobody writes to a folder any more that was to take another's place."""
    try:
        text = regular(folder / MARK).read_text(encoding="utf-8")
    except OSError:
        return False
    if text == MARK_TEXT:
        return True
    with suppress(*MALFORMED):
        mark = parse_json(text)
        here = mark["machine"] == socket.gethostname()
        return here and not psutil.pid_exists(int(mark["process"]))
    return False


def check_below(top: Path, folder: Path) -> None:
    """Raise an error unless a folder is another one or lies below it, wherever links lead."""
    wanted, found = os.path.realpath(top), os.path.realpath(folder)
    if found != wanted and not found.startswith(f"{wanted}{os.sep}"):
        raise UserError(f"{folder} lies outside the folder to write: nothing is written there.")


def check_originals(out: Path, source: Source) -> None:
    """Raise an error if an image of a run lies in the folder that is to be replaced.

    It would be deleted with the folder: a link would lead nowhere, and so would the manifest that
    the run was trained on.
    """
    if not out.exists():
        return
    tops = {os.path.abspath(out), os.path.realpath(out)}  # noqa: PTH100  (a Path costs 10 times)
    resolved = cache(os.path.realpath)

    def inside(path: str) -> bool:
        return any(path == top or path.startswith(f"{top}{os.sep}") for top in tops)

    for path in _locations(source):
        path = os.path.abspath(path)  # noqa: PTH100
        place = os.path.join(resolved(os.path.dirname(path)), os.path.basename(path))  # noqa: PTH118, PTH119, PTH120
        where = os.path.realpath(place) if os.path.islink(place) else place  # noqa: PTH114
        if inside(path) or inside(place) or inside(where):
            raise UserError(
                f"{out} holds images of this run, such as {path}, and would be replaced with all "
                "that is in it. Name another --out."
            )


def _locations(source: Source) -> Iterable[str]:
    held = None if source.val is None else source.val.images
    parts = [source.images, held, source.test_images]
    for images in parts:
        if images is not None and images.has_paths:
            places = (split_member(images.location(index))[0] for index in range(len(images)))
            yield from dict.fromkeys(place for place in places if not is_url(place))
