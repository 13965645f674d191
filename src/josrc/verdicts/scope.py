"""What a scan has judged, and what of the data it has not: told where it ends, and in the report.

A scan judges what one would train on. Images of a part ``val`` or ``test``, as a folder or a column
of a manifest names it, are compared with those to find copies, and get no verdict. Test labels of
data that josrc knows by name are right.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from josrc.config import DataConfig, DataKind
from josrc.data.images import Images
from josrc.data.source import Source


def scope_of(source: Source, data: DataConfig) -> dict[str, Any]:
    """What ``summary.json`` says of it: files skipped, and parts that were not judged."""
    held = None if source.val is None else source.val.images
    parts = [("held-out", held), ("test", source.test_images)]
    left = [
        {"part": name, "images": len(images), "path": _folder_of(images, data)}
        for name, images in parts
        if images is not None and len(images) and not data.kind.is_named
    ]
    return {"skipped": len(source.skipped or ()), "not_judged": left}


def _folder_of(images: Images, data: DataConfig) -> str | None:
    """The folder that holds a part, if it is a folder."""
    place = data.path
    if data.kind is not DataKind.FOLDER or place is None:
        return None
    inside = Path(images.location(0)).relative_to(place).parts
    return str(place / inside[0])


def scope_sentences(summary: Mapping[str, Any]) -> list[str]:
    """What people should know; nothing where every image was judged."""
    found, parts = [], summary.get("not_judged") or []
    if skipped := summary.get("skipped"):
        files = "1 file" if skipped == 1 else f"{skipped:,} files"
        found.append(f"Not judged: {files} that gave no image, see skipped.csv in the run folder.")
    if parts:
        listed = " and ".join(f"{part['images']:,} {part['part']}" for part in parts)
        found.append(
            f"Only training images were judged, and not the {listed} images. {_how(parts)}"
        )
    return found


def _how(parts: Sequence[Mapping[str, Any]]) -> str:
    folders = [part["path"] for part in parts if part["path"]]
    if len(folders) == len(parts):
        said = ", and ".join(f"josrc scan {shlex.quote(folder)}" for folder in folders)
        return f"To judge them: {said}."
    return "To judge them, name a manifest or folder of them alone: josrc scan PATH."
