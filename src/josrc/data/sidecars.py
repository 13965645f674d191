"""Files that are left out: that their names call no pictures, or that lie in no class folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

# Only what no picture is ever called. A picture that josrc can't read (HEIC, SVG, raw) is told as a
# file that gives no image, and so is whatever has no extension or an unknown one.
KINDS = (
    # annotations, tables, texts
    "json jsonl ndjson geojson txt text xml csv tsv md rst html htm yaml yml toml ini cfg conf log",
    "pdf doc docx xls xlsx ppt pptx odt ods tex",
    # arrays, models, data bases
    "npy npz pkl pickle pt pth onnx safetensors h5 hdf5 mat parquet arrow feather db sqlite",
    # archives and sums
    "zip tar gz tgz bz2 xz 7z rar md5 sha1 sha256",
    # programs and pages
    "py pyc ipynb sh bat js css lnk url",
    # films and sounds
    "mp4 avi mov mkv webm mpg mpeg mp3 wav flac ogg",
)
NO_PICTURES = frozenset(" ".join(KINDS).split())
# Stands among kinds for files beside the class folders; no extension has a slash.
LOOSE = "/"


def is_sidecar(name: str) -> bool:
    """Whether the name of a file says that it is no picture."""
    return kind(name) in NO_PICTURES


def kind(name: str) -> str:
    """The extension of a name, in lower case and without its dot."""
    return PurePath(name).suffix[1:].lower()


def describe_left_out(left_out: Mapping[str, int]) -> list[str]:
    """Sentences on how many files were left out, of which kinds; none if there were none."""
    kinds = {name: count for name, count in left_out.items() if name != LOOSE}
    found = []
    if kinds:
        common = sorted(kinds.items(), key=lambda item: (-item[1], item[0]))
        listed = ", ".join(f"{count:,} .{name}" for name, count in common[:5])
        more = f" and {len(common) - 5} more kinds" if len(common) > 5 else ""
        found.append(f"Left out, as their names say that they are no pictures: {listed}{more}.")
    if left_out.get(LOOSE):
        found.append(f"Left out, as they lie in no class folder: {left_out[LOOSE]:,}.")
    return found
