"""What ``josrc apply`` leaves with its output: which samples it changed, how, on whose word."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from josrc._io import write_csv
from josrc.errors import UserError
from josrc.review.corrected import Change
from josrc.review.write import refuse

# ``by`` is ``decision`` or ``verdict``; verdict and confidence are josrc's, whoever decided.
CHANGE_COLUMNS = ("id", "path", "given_label", "outcome", "label", "by", "verdict", "confidence")


def changes_file(out: Path, folder: bool) -> Path:
    """``cleaned.changes.csv`` beside ``cleaned.csv``; ``changes.csv`` in a folder of images."""
    return out / "changes.csv" if folder else out.with_name(f"{out.stem}.changes.csv")


def check_changes(path: Path, out: Path, overwrite: bool) -> None:
    """Raise an error if something is in the way of the output or of its list of changes.

    Nobody named the list, so only one that josrc wrote is replaced.
    """
    refuse(out, overwrite)
    refuse(path, overwrite)
    if path.exists() and not _ours(path):
        raise UserError(
            f"The list of changes goes to {path}, which was not written by josrc apply. "
            "Name another --out."
        )


def _ours(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.readline(1000).rstrip("\n") == ",".join(CHANGE_COLUMNS)


def write_changes(path: Path, changes: Iterable[Change]) -> None:
    """A line for every sample that was relabelled or removed, in data order."""
    write_csv(path, [CHANGE_COLUMNS, *changes])
