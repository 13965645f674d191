"""Folder, scan, Label Studio, decisions, apply, train: nothing is lost, nothing added."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import josrc
from josrc.review.decisions import Store
from reviewing import FAST, read

pytestmark = [pytest.mark.slow, pytest.mark.label_studio]


def listed(pictures: Path, home: Path) -> tuple[Path, dict[str, dict[str, str]]]:
    """A manifest of the pictures with ids and columns of its own, and its rows by id."""
    shutil.copytree(pictures, home / "photos")
    rows = []
    for number, path in enumerate(sorted((home / "photos").glob("*/*.png"))):
        file = str(path.relative_to(home / "photos"))
        label = path.parent.name if number % 10 else "one"
        note = f'no. {number}, "as it came"'
        rows.append({"path": file, "label": label, "id": f"im-{number}", "taken": note, "n": "07"})
    path = home / "photos" / "all.csv"
    with path.open("w", newline="") as file_out:
        writer = csv.DictWriter(file_out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path, {row["id"]: row for row in rows}


def answer(label: str) -> dict[str, Any]:
    """An annotation as the page sends it."""
    result = {"id": "person", "from_name": "label", "to_name": "image", "type": "choices"}
    return {"result": [{**result, "value": {"choices": [label]}}], "lead_time": 2.5}


def test_the_round_trip_loses_nothing(
    label_studio: Any, pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = label_studio.root
    manifest, rows = listed(pictures, home)
    np.save(home / "features.npy", pixels(manifest, list(rows.values())))
    run, tasks = home / "run", home / "tasks.json"
    words = ["--features", home / "features.npy", "--out", run, "--quiet"]
    assert josrc("scan", manifest, *words) == 0
    assert josrc("apply", run, "--to", "label-studio", tasks) == 0
    assert f"LOCAL_FILES_DOCUMENT_ROOT={home} label-studio start" in capsys.readouterr().out

    # Into Label Studio: the interface, the folder of images, the tasks.
    interface = (home / "tasks.config.xml").read_text()
    project = label_studio.json(
        "POST", "/api/projects", {"title": "josrc", "label_config": interface}
    )["id"]
    storage = {"project": project, "path": str(home / "photos"), "use_blob_urls": True}
    label_studio.json("POST", "/api/storages/localfiles", storage | {"title": "photos"})
    sent = json.loads(tasks.read_text())
    imported = label_studio.json("POST", f"/api/projects/{project}/import", sent)
    settled = [task["data"]["id"] for task in sent if "annotations" in task]
    asked = [task["data"]["id"] for task in sent if "annotations" not in task]
    assert (imported["task_count"], imported["annotation_count"]) == (len(rows), len(settled))
    suggested = [task for task in sent if "predictions" in task]
    assert imported["prediction_count"] == len(suggested)
    export = f"/api/projects/{project}/export?exportType=JSON&download_all_tasks=true"
    there = {task["data"]["id"]: task for task in label_studio.json("GET", export)}
    assert set(there) == set(rows)
    for name, row in rows.items():
        data = there[name]["data"]
        assert (data["taken"], data["n"], data["given_label"]) == (row["taken"], "07", row["label"])
        labels = [a["result"][0]["value"]["choices"] for a in there[name]["annotations"]]
        assert labels == ([[row["label"]]] if name in settled else [])
        shown = label_studio.ask("GET", data["image"])
        assert shown == (home / "photos" / row["path"]).read_bytes()

    # Who presses "Label All Tasks" is asked about the most suspicious image, with its suggestion.
    following = label_studio.json("GET", f"/api/projects/{project}/next")
    assert following["data"]["id"] == asked[0]
    (prediction,) = following["predictions"]
    assert prediction["result"] == sent[0]["predictions"][0]["result"]

    # People answer: what is open in a new annotation, the rest by changing or confirming it.
    assert len(asked) >= 6
    expected: dict[str, tuple[str, str | None]] = {}
    for place, name in enumerate(asked[:6]):
        task, given = there[name], rows[name]["label"]
        other = "two" if given != "two" else "three"
        new = f"/api/tasks/{task['id']}/annotations/"
        if place < 2:
            label_studio.json("POST", new, answer(other))
            expected[name] = "relabel", other
        elif place < 3:
            label_studio.json("POST", new, answer("no class"))
            expected[name] = "remove", None
        elif place < 4:
            label_studio.json("POST", new, answer(other))
            label_studio.json("POST", new, answer(given))
            expected[name] = "keep", None
        elif place < 5:
            label_studio.json("POST", new, {"result": [], "was_cancelled": True})
        else:
            label_studio.json("POST", f"/api/tasks/{task['id']}/drafts", answer(other))
    for place, name in enumerate(settled[:4]):
        (annotation,), given = there[name]["annotations"], rows[name]["label"]
        other = "two" if given != "two" else "three"
        known, result = f"/api/annotations/{annotation['id']}/", annotation["result"]
        if place < 2:
            result[0]["value"]["choices"] = [other]
            label_studio.json("PATCH", known, {"result": result})
            expected[name] = "relabel", other
        else:
            label_studio.json("PATCH", known, {"result": result, "lead_time": 1.0})
            expected[name] = "keep", None

    # And back: each answer is a decision, and nothing else is.
    (home / "export.json").write_bytes(label_studio.ask("GET", export))
    capsys.readouterr()
    assert josrc("decisions", run, "--from", home / "export.json") == 0
    said = capsys.readouterr().out
    left = len(rows) - 8
    assert f"{len(rows):,} tasks, 8 answered by 1, {left:,} without" in said
    assert f"{len(settled) - 4:,} with the label that they came with, saved by nobody" in said
    assert "1 with a draft that was not submitted, 1 skipped." in said
    assert "8 decisions taken over, 0 already here, 0 older" in said
    assert "1 image had several annotations, of which the newest counts; they differ on 1" in said
    assert "of no image" not in said
    store = Store(run / "audit")
    decided = dict(store.decisions().values())
    assert decided == expected
    assert all(who and when for who, when in store.origins().values())
    store.close()
    assert josrc("decisions", run, "--from", home / "export.json") == 0
    assert "0 decisions taken over, 8 already here" in capsys.readouterr().out

    # The corrected data set has every other image, id, label and column, and trains.
    clean = home / "photos" / "clean.csv"
    assert josrc("apply", run, "--out", clean) == 0
    found = {row["id"]: row for row in read(clean)}
    removed = {name for name, (outcome, _) in expected.items() if outcome == "remove"}
    assert set(found) == set(rows) - removed
    for name, row in found.items():
        wanted = rows[name] | {"label": expected.get(name, ("", None))[1] or rows[name]["label"]}
        assert row == wanted
    assert josrc("train", clean, *FAST, "--out", home / "again") == 0
    verdicts = read(home / "again" / "audit" / "verdicts.csv")
    assert {v["id"]: v["given_label"] for v in verdicts} == {
        n: r["label"] for n, r in found.items()
    }


def pixels(manifest: Path, rows: list[dict[str, str]]) -> Any:
    """Features that tell digits apart: their pixels, eight by eight."""
    from PIL import Image

    files = [manifest.parent / row["path"] for row in rows]
    small = [np.asarray(Image.open(file).convert("L").resize((8, 8))) for file in files]
    return np.stack(small).reshape(len(rows), -1).astype(np.float32)
