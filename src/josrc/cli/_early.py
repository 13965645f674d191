"""Mistakes that are found before torch is imported, which takes seconds."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from josrc._launch import count_processes
from josrc.config import NoiseKind
from josrc.engine.lock import check_free, check_no_run
from josrc.errors import UserError, closest
from josrc.methods import check_method


def check_names(
    data: str, *, method: str | None = None, noise: str | None = None, inject: str | None = None
) -> None:
    """Raise an error for data, a method or noise that there is not, with the name that is near."""
    if method is not None:
        check_method(method)
    kinds = get_args(NoiseKind)
    for kind in (noise, inject and inject.partition(":")[0]):
        if kind and kind not in kinds:
            raise UserError(f"Unknown noise '{kind}'.{closest(kind, kinds)}")

    from josrc.data.registry import kind_of

    kind_of(data)


def check_folder(folder: Path | None, *, new: bool = False) -> None:
    """Raise an error if another process uses a run folder, or a new run would replace one.

    Processes of one run find the folder in use by the first of them: they are not asked.
    """
    if folder is not None and count_processes() == 1:
        check_free(folder)
        if new:
            check_no_run(folder)


def check_not_training(run: Path) -> None:
    """Raise an error while a run is being trained: its verdicts come at the end."""
    if not (run / "summary.json").is_file():
        check_folder(run)
