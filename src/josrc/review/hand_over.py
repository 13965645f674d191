"""``josrc apply --to label-studio``: images, labels and suggestions for people to decide there."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from rich.console import Console

from josrc._console import counted, say
from josrc._io import is_url, split_member
from josrc.data.noise import CLEAN
from josrc.data.readers.label_studio import LOCAL_FILES
from josrc.data.readers.other_columns import other_columns
from josrc.errors import UserError
from josrc.review.apply import Target, open_judged_run, protect, read_decisions
from josrc.review.budget import gone_rows, plan_from
from josrc.review.corrected import ApplyTally, Auto, correct_samples
from josrc.review.formats.label_studio import project_file, write_tasks
from josrc.review.formats.rows import check_files, make_rows
from josrc.review.replacement import refuse
from josrc.verdicts.table import VERDICT_TITLES, read_verdicts, verdicts_of


def write_label_studio(
    path: Path,
    out: Path,
    *,
    budget: int | None = None,
    images: str | None = None,
    overwrite: bool = False,
    decisions_of: Path | None = None,
    data_root: Path | None = None,
    console: Console,
) -> int:
    """Write tasks for Label Studio; returns how many.

    Nobody need have decided anything yet. What was decided holds: relabelled images come with their
    new label, removed ones not at all. What is decided or thought right comes answered; all that is
    within a budget, and every accused image, is open for the people there.

    Args:
        path: the run folder.
        out: the JSON file.
        budget: how many looks there is time for: those that bring most, in that order, as
            ``josrc review --budget``. None: all images, the most suspicious first.
        images: the address below which Label Studio finds the images' folder; none: as local files.
        overwrite: replace what was written there before.
        decisions_of: an earlier run, whose decisions are taken over where there is none yet.
        data_root: where the data is now, if it has moved.
        console: where it is told what to do next.
    """
    Target(out, "label-studio").check()
    if images is not None and not (is_url(images) or images.startswith("/")):
        raise UserError(
            f"--images {images} is not a URL. Name the address below which the images lie, such as "
            f"https://{images.lstrip('/') or 'example.org/photos'}"
        )
    opened = open_judged_run(path, data_root)
    source = opened.source
    check_files(source, "tasks of Label Studio")
    for one in (out, project_file(out)):
        protect(one, opened.folder, opened.config, False)
        refuse(one, overwrite)
    decided, taken = read_decisions(opened.folder.audit, decisions_of, source.closed_names)
    right = VERDICT_TITLES[CLEAN]
    samples = {s.row: s for s in correct_samples(opened, decided, Auto(), ApplyTally())}
    frames = read_verdicts(verdicts_of(opened.folder.audit))
    lines = {line.Index: line for line in chain.from_iterable(f.itertuples() for f in frames)}
    copies: Mapping[int, list[int]] = {}
    settled: set[int] = set()
    if budget is None:
        settled = {row for row in samples if row in decided or lines[row].verdict == right}
        rows = sorted(samples, key=lambda row: (float(lines[row].score), row))
    else:
        plan = plan_from(opened.folder.audit, budget, decided, gone_rows(opened))
        rows, copies = plan.rows[:budget].tolist(), plan.copies
        taken += f"{plan.sentence(budget)}\n"
    chosen = [samples[row] for row in rows]
    listed = [
        row
        for row in make_rows(source, chosen, other_columns(opened.config.data))
        if row.row is not None
    ]
    home = _home([row.location for row in listed])
    address: dict[str, str] = {}
    if home is not None:
        address = {str(home): f"{images.rstrip('/')}/"} if images else local_address(home)
    names = {row: [lines[copy].id for copy in copies[row]] for row in copies}
    count = write_tasks(out, listed, lines, address, source.closed_names, names, settled)
    to_do = count - sum(row.row in settled for row in listed)
    say(console, taken + "\n".join(_describe_tasks(path, out, (count, to_do), home, images)))
    return count


def local_address(home: Path) -> dict[str, str]:
    """Where Label Studio shows local files: its root is the folder above, as it can't be home."""
    return {str(home.parent): f"{LOCAL_FILES}?d="}


def _home(locations: Sequence[str]) -> Path | None:
    """The folder that holds all images of this machine; none if there are none."""
    if not locations:
        raise UserError(
            "There is no image to hand over: all are removed or decided, or none is left."
        )
    packed = next((one for one in locations if split_member(one)[1]), None)
    if packed is not None:
        raise UserError(
            f"Label Studio can't look into {split_member(packed)[0]}. Write the images as files "
            "first, and hand over a run on those: josrc apply --copy --out FOLDER."
        )
    locations = [one for one in locations if not is_url(one)]
    if not locations:
        return None
    folders = {os.path.dirname(os.path.abspath(one)) for one in locations}  # noqa: PTH100, PTH120
    home = Path(os.path.commonpath(folders))
    if home == Path(home.anchor):
        raise UserError(
            f"The images have no folder in common but {home}. Give the URL where Label Studio "
            "finds them: --images URL."
        )
    return home


def _describe_tasks(
    path: Path, out: Path, counts: tuple[int, int], home: Path | None, images: str | None
) -> list[Any]:
    local = [
        "To show the images, add their bucket as a storage to the project (Settings, Cloud "
        "Storage).",
    ]
    if home is not None:
        local = [
            "To show the images, start Label Studio with these, and add the folder as a storage of "
            "local files to the project (Settings, Cloud Storage):",
            "  LOCAL_FILES_SERVING_ENABLED=true "
            f"LOCAL_FILES_DOCUMENT_ROOT={shlex.quote(str(home.parent))} label-studio start",
            f"  {home}",
        ]
    count, to_do = counts
    answered = f", answered by their label: {count - to_do:,}" if to_do < count else ""
    return [
        f"Wrote {out}: {counted(count, 'task')}, the most suspicious first. Open for annotators: "
        f"{to_do:,}{answered}.",
        f"Labelling interface (Settings, Labeling Interface, Code): {project_file(out)}",
        *([] if images else local),
        f"Then export as JSON, and: josrc decisions {shlex.quote(str(path))} --from EXPORT.json",
    ]
