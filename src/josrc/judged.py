"""What is said of a run that was trained or stopped: verdicts on its samples, and the report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from josrc.audit.folder import read_ledger, write_audit
from josrc.audit.gallery import names_files
from josrc.audit.report import write_report
from josrc.config import RunConfig
from josrc.data.arrays import NAME
from josrc.data.source import Source
from josrc.engine.program import Program
from josrc.engine.runfolder import RunFolder
from josrc.engine.trainer import Trainer
from josrc.errors import UserError
from josrc.run_data import lean_source, moved


def doubtful(held: Source | None) -> bool:
    """Whether there are held-out samples whose labels need a verdict."""
    return held is not None and held.true is None


def held_out_answers(program: Program) -> NDArray[Any] | None:
    """What the final network says of the held-out images, ``(held, classes)``, if there are any."""
    found = program.held_out_probabilities()
    return None if found is None else found.cpu().numpy()


def audit(
    path: str | Path,
    *,
    noise_rate: float | None = None,
    ood_rate: float | None = None,
    data_root: str | Path | None = None,
) -> dict[str, Any]:
    """Write the verdicts on the samples of a run, finished or not.

    Args:
        path: the run folder.
        noise_rate: share of wrong labels, those of foreign images included, where it is known.
        ood_rate: share of foreign images, where it is known: 0 where each belongs to some class.
        data_root: where the data is now, if it has moved.

    Returns:
        The content of ``audit/summary.json``.
    """
    folder = RunFolder(Path(path))
    config = moved(folder.read_config(), data_root)
    if not folder.checkpoint.is_file():
        raise UserError(f"{path} has no checkpoint yet: nothing was learned about its samples.")
    with folder.locked():
        ledger = read_ledger(folder.checkpoint)
        # Verdicts need no pixels, but those on held-out images do.
        source = lean_source(folder, config)
        held_out = None
        if doubtful(source.val):
            held_out = held_out_answers(Trainer(config, source, folder, resuming=True).program)
        summary = write_audit(folder.audit, ledger, source, held_out, noise_rate, ood_rate)
        if folder.metrics.is_file():  # not yet for a run that was stopped in its first epoch
            write_report(folder, config, source)
        return summary


def report(
    path: str | Path,
    *,
    data: Sequence[Any] | None = None,
    data_root: str | Path | None = None,
) -> Path:
    """Write the report of a run that has verdicts: one HTML file, which is returned.

    Args:
        path: the run folder.
        data: the pair of images and labels that the run began with, if it was one.
        data_root: where the data is now, if it has moved.
    """
    folder = RunFolder(Path(path))
    config = folder.read_config()
    with folder.locked():
        return write_report(folder, config, _pictured(folder, config, data, data_root))


def _pictured(
    folder: RunFolder,
    config: RunConfig,
    pair: Sequence[Any] | None,
    data_root: str | Path | None,
) -> Source | None:
    """The images of a run; none if each lies in a file that its verdict names."""
    verdicts = folder.audit / "verdicts.csv"
    if not verdicts.is_file():
        raise UserError(f"{folder.path} has no verdicts yet. Write them: josrc audit {folder.path}")
    if names_files(verdicts):
        return None
    if config.data.name == NAME and pair is None:
        raise UserError(
            f"{folder.path} was trained on images in memory. Its report was written when it ended; "
            "to write it again from Python: josrc.runs.report(path, data=(X, y))."
        )
    return lean_source(folder, moved(config, data_root), pair)
