"""Corrected data sets, as tests of their formats look at them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

# Images of a manifest: file, class, id, split, and columns that josrc has no use for.
HEADER = ["file", "camera", "class", "id", "split", "note", "label"]


CLASSES = ("cat", "dog")


# What every format has to hold: by file number the label, the split and the columns.
LABELS = {
    number: "dog" if number == 0 else CLASSES[number % 2] for number in range(10) if number != 2
}


SPLITS = {n: "train" if n < 6 else "val" if n < 8 else "test" for n in LABELS}


def check(found: dict[int, dict[str, Any]]) -> None:
    """All that is known of the images is there, and nothing else."""
    assert {n: row["label"] for n, row in found.items()} == LABELS
    assert {n: row["split"] for n, row in found.items()} == SPLITS
    for number, row in found.items():
        assert row["id"] == f"im-{number}"
        assert row["camera"] == f"0{number}"
        assert (row["note"] or "") == ("" if number == 3 else f'said "{number}", once')
        assert row["original_label"] == "old"


def number_of(path: Any) -> int:
    return int(Path(str(path)).stem)


def exported(tasks: list[dict[str, Any]], change: Callable[[int, dict[str, Any]], Any]) -> Any:
    """What Label Studio exports of imported tasks; ``change`` gives the annotations of people."""
    for number, task in enumerate(tasks):
        for given in task.setdefault("annotations", []):
            given |= {
                "completed_by": 1,
                "updated_by": None,
                "was_cancelled": False,
                "created_at": "2030-01-01T10:00:00.000001Z",
                "updated_at": "2030-01-01T10:00:00.000042Z",
            }
        task["annotations"] += change(number, task) or []
    return tasks


def chosen(label: str, who: Any = 7, when: str = "2030-01-02T10:00:00Z", **more: Any) -> Any:
    result = {"id": "x", "from_name": "label", "to_name": "image", "type": "choices"}
    result |= {"value": {"choices": [label]}}
    found = {"result": [result], "completed_by": who, "updated_at": when, "created_at": when}
    return found | {"was_cancelled": False} | more


AUTO = ["--auto", "0", "--overwrite"]


def images(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.png"))
