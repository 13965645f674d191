"""Tasks for Label Studio: josrc's suggestion as a prediction, and what is settled annotated.

A task that comes with an annotation is done for Label Studio, and nobody is asked about it. So the
label is an annotation only where there is nothing to decide.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from josrc._io import atomic_write, is_url, seen_from, write_text
from josrc._version import __version__
from josrc.data.noise import CLEAN, ID
from josrc.data.readers.label_studio import COPIES, GIVEN_MARK, LOCAL_FILES, no_class
from josrc.review.formats.rows import CorrectedRow, plain, rename_columns
from josrc.review.index import shown
from josrc.verdicts.table import VERDICT_TITLES

# What the data of a task holds besides the other columns of a manifest.
OWN = (
    "image", "file", "id", "label", "split", "path", "given_label", "verdict", "suggested_label",
    "confidence", "suspicion", "reason", COPIES,
)  # fmt: skip


def project_file(out: Path) -> Path:
    """Where the labelling interface lies that belongs to a file of tasks."""
    return out.with_name(f"{out.stem}.config.xml")


def write_tasks(
    out: Path,
    rows: Iterable[CorrectedRow],
    verdicts: Mapping[int, Any],
    address: Mapping[str, str],
    classes: Sequence[str],
    copies: Mapping[int, Sequence[str]],
    settled: Collection[int],
) -> int:
    """Write tasks in the order of the rows, and beside them the labelling interface.

    Args:
        out: the JSON file.
        rows: images with the labels that they have now.
        verdicts: the line of ``verdicts.csv`` of each row.
        address: at which the folders of images are shown: by the folder, how it begins there.
        classes: that people choose from.
        copies: ids of images without a task of their own that show the same as a row does.
        settled: rows that nobody need be asked about: their labels come as annotations.

    Returns:
        How many tasks there are.
    """
    nothing = no_class(classes)
    tasks = []
    for row in rows:
        task = _task(row, verdicts[row.row or 0], out, address, nothing)
        if row.row in settled:
            given = {"result": [_choice(GIVEN_MARK, row.label)], "ground_truth": False}
            task["annotations"] = [given]
        if same := copies.get(row.row or 0):
            task["data"][COPIES] = [shown(name) for name in same]
        tasks.append(task)
    with atomic_write(out) as partial:
        partial.write_text(json.dumps(tasks, indent=1) + "\n", encoding="utf-8")
    write_text(project_file(out), interface([*classes, nothing]))
    return len(tasks)


def interface(choices: Sequence[str]) -> str:
    """What Label Studio shows for each task: image, given label, verdict, and the choices."""
    listed = "\n".join(f"    <Choice value={quoteattr(name)}/>" for name in choices)
    return (
        "<View>\n"
        '  <Image name="image" value="$image"/>\n'
        '  <Header value="Given label: $given_label"/>\n'
        '  <Text name="reason" value="$reason"/>\n'
        '  <Choices name="label" toName="image" choice="single" showInLine="true">\n'
        f"{listed}\n"
        "  </Choices>\n"
        "</View>\n"
    )


def _task(
    row: CorrectedRow, verdict: Any, out: Path, address: Mapping[str, str], nothing: str
) -> dict[str, Any]:
    names = rename_columns(list(row.others), OWN)
    suggested = _suggestion(verdict, nothing)
    data = {names[name]: plain(cell) for name, cell in row.others.items()} | {
        "image": _address(row.location, address),
        "file": shown(seen_from(out.absolute().parent, row.location)),
        "id": shown(row.id),
        "given_label": verdict.given_label,
        "verdict": verdict.verdict,
        "suggested_label": verdict.suggested_label,
        "confidence": float(verdict.confidence),
        "suspicion": -float(verdict.score),
        "reason": verdict.reason,
        "split": row.split,
    }
    task: dict[str, Any] = {"data": data}
    if suggested is not None:
        prediction = {
            "model_version": f"josrc {__version__}",
            "score": float(verdict.confidence),
            "result": [_choice("josrc-suggestion", suggested)],
        }
        task["predictions"] = [prediction]
    return task


def _suggestion(verdict: Any, nothing: str) -> str | None:
    """What josrc would choose; the label itself where it is thought right."""
    if verdict.verdict == VERDICT_TITLES[CLEAN]:
        label: str = verdict.given_label
        return label
    if verdict.verdict == VERDICT_TITLES[ID]:
        return verdict.suggested_label or None
    return nothing


def _choice(mark: str, label: str) -> dict[str, Any]:
    return {
        "id": mark,
        "from_name": "label",
        "to_name": "image",
        "type": "choices",
        "value": {"choices": [label]},
    }


def _address(location: str, address: Mapping[str, str]) -> str:
    """Where Label Studio finds an image; as the file it is if it lies in none of the folders."""
    if is_url(location):
        return location  # a cloud storage of the project shows it
    whole = str(Path(location).absolute())
    for folder, begin in address.items():
        inside = seen_from(Path(folder), whole)
        if inside != whole:
            return begin + quote(shown(inside))
    return f"{LOCAL_FILES}?d={quote(shown(whole))}"
