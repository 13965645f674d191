"""What ``josrc apply`` leaves with its output: which samples it changed, how, on whose word."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from josrc._io import partial_of, write_csv
from josrc._reading import regular
from josrc.errors import UserError
from josrc.review.corrected import Change
from josrc.review.replacement import refuse

# ``by`` is ``decision`` or ``verdict``; verdict and confidence are josrc's, whoever decided.
CHANGE_COLUMNS = ("id", "path", "given_label", "outcome", "label", "by", "verdict", "confidence")

# How files begin that apply writes, even if a kill left only a part of one.
FIRST_LINES = ("path,label,id", "path,label,id,split", "id,label", ",".join(CHANGE_COLUMNS))


def changes_file(out: Path, folder: bool) -> Path:
    """``cleaned.changes.csv`` beside ``cleaned.csv``; ``changes.csv`` in a folder of images.

    Beside anything else it has its whole name, as there may be a ``cleaned.csv`` too.
    """
    name = out.stem if out.suffix.lower() == ".csv" else out.name
    return out / "changes.csv" if folder else out.with_name(f"{name}.changes.csv")


def check_changes(path: Path, out: Path, overwrite: bool) -> None:
    """Raise an error if something is in the way of the output or of its list of changes.

    Nobody named the list, so only one that josrc wrote is replaced.
    """
    refuse(out, overwrite)
    refuse(path, overwrite)
    if path.exists() and not _ours(path):
        raise UserError(
            f"The list of changes would be written to {path}, which josrc apply did not write. "
            f"Name "
            "another --out."
        )
    for partial in (partial_of(out), partial_of(path)):
        if partial.exists() and _first_line(partial) not in ("", *FIRST_LINES):
            raise UserError(
                f"{partial} is in the way, and was not written by josrc apply. Name another --out."
            )


def _ours(path: Path) -> bool:
    return path.is_file() and _first_line(path) == ",".join(CHANGE_COLUMNS)


def _first_line(path: Path) -> str:
    with regular(path).open(encoding="utf-8", errors="replace") as file:
        return file.readline(1000).rstrip("\r\n")


def write_changes(path: Path, changes: Iterable[Change]) -> None:
    """A line for every sample that was relabelled or removed, in data order."""
    write_csv(path, [CHANGE_COLUMNS, *changes])
