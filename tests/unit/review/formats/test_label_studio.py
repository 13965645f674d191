"""Tasks for Label Studio."""

from __future__ import annotations

import json
from pathlib import Path

from commands import josrc
from exports import CLASSES, chosen, exported
from josrc.runs.start import plan


def test_tasks_hold_labels_suggestions_and_columns(listed: Path) -> None:
    out = listed.parent / "tasks.json"
    assert josrc("apply", listed, "--to", "label-studio", out) == 0
    tasks = json.loads(out.read_text())
    assert [task["data"]["id"] for task in tasks] == [f"im-{n}" for n in (0, 1, 3, 4, 5, 6, 7)]
    first, second, third = tasks[:3]
    home = listed.parent
    assert first["data"]["image"] == "/data/local-files/?d=pictures/0.png"
    assert first["data"]["file"] == "pictures/0.png"
    assert first["data"]["camera"] == "00"
    assert first["data"]["original_label"] == "old"
    (annotation,) = first["annotations"]
    assert annotation["result"][0]["value"]["choices"] == ["dog"], "as it was decided"
    (prediction,) = second["predictions"]
    assert prediction["score"] == 0.9
    assert prediction["result"][0]["value"]["choices"] == ["cat"]
    assert second["data"]["given_label"] == "dog"
    assert "annotations" not in second, "it is accused, and open for people"
    assert third["annotations"][0]["result"][0]["value"]["choices"] == ["dog"]
    assert third["predictions"][0]["result"][0]["value"]["choices"] == ["dog"], "it is clean"
    config = (home / "tasks.config.xml").read_text()
    assert [f'<Choice value="{name}"/>' in config for name in (*CLASSES, "no class")] == [True] * 3


def test_an_export_trains_with_what_was_chosen_last(listed: Path) -> None:

    out = listed.parent / "tasks.json"
    assert josrc("apply", listed, "--to", "label-studio", out) == 0
    people = {0: [chosen("cat")], 1: [chosen("no class")], 2: [chosen("cat", was_cancelled=True)]}
    out.write_text(json.dumps(exported(json.loads(out.read_text()), lambda n, _: people.get(n))))
    _, source = plan(str(out))
    assert source is not None
    labels = [source.class_names[label] for label in source.given]
    assert dict(zip(source.ids, labels, strict=True)) == {
        "im-0": "cat", "im-3": "dog", "im-4": "cat", "im-5": "dog",
    }  # fmt: skip
    assert source.val is not None
    assert list(source.val.ids) == ["im-6", "im-7"]
