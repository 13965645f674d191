"""Answers from Label Studio."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from commands import josrc
from exports import chosen, exported


def test_answers_become_decisions(listed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from josrc.review.decisions import Store

    out, back = listed.parent / "tasks.json", listed.parent / "export.json"
    assert josrc("apply", listed, "--to", "label-studio", out) == 0

    def people(number: int, task: dict[str, Any]) -> Any:
        return {
            0: [chosen("cat", when="2020-01-01T10:00:00Z")],  # older than the decision here
            1: [chosen("cat", "a@b.cd"), chosen("dog", "c@d.ef", "2030-01-03T10:00:00Z")],
            2: [chosen("no class", {"id": 3, "email": "c@d.ef"})],
            3: [chosen("bird")],
            4: [chosen("cat", was_cancelled=True)],
        }.get(number)

    tasks = exported(json.loads(out.read_text()), people)
    tasks[5]["annotations"][0] |= {"updated_by": 9, "updated_at": "2030-01-02T10:00:00Z"}
    tasks += [{"data": {"image": "/data/upload/1/1a2b3c4d-7.png"}, "annotations": [chosen("cat")]}]
    tasks += [{"data": {"id": "im-4", "file": "pictures/5.png"}, "annotations": [chosen("cat")]}]
    tasks += [{"data": {"id": "im-5"}, "drafts": [{"result": []}]}]
    tasks += [{"data": {"image": "http://host/gone.png"}, "annotations": [chosen("cat")]}]
    back.write_text(json.dumps(tasks))
    capsys.readouterr()
    assert josrc("decisions", listed, "--from", back) == 0
    said = capsys.readouterr().out
    assert (
        "11 tasks, 6 answered by 7, 9, a@b.cd, c@d.ef, 3 without an answer, 2 of no image" in said
    )
    assert (
        "no decision: 1 with the label that they came with, saved by nobody, 1 with a draft that "
        "was not submitted, 1 skipped."
    ) in said
    assert "Answers on 5 images of this run: 3 kept, 1 relabelled, 1 removed." in said
    assert "3 decisions taken over, 1 already here, 1 older than the decision here" in said
    assert (
        "1 image had several annotations, of which the newest counts; they differ on 1: im-1"
        in said
    )
    assert "Of no image of this run: im-4, gone.png." in said
    assert "Answers on 1 image name a class that this run does not have: bird" in said
    store = Store(listed / "audit")
    found = {row: decision for row, (_, decision) in store.decisions().items()}
    assert found == {
        0: ("relabel", "dog"),
        1: ("keep", None),
        2: ("remove", None),
        3: ("remove", None),
        6: ("keep", None),
        7: ("relabel", "cat"),
    }
    origins = store.origins()
    assert origins[1] == ("c@d.ef", "2030-01-03T10:00:00.000000+00:00")
    assert origins[3][0] == "c@d.ef"
    assert origins[7][0] == "7"
    store.undo()
    assert set(store.decisions()) == {0, 2, 6}, "it was one step"
    store.close()


def test_a_second_import_changes_what_is_newer_alone(listed: Path) -> None:
    from josrc.review.decisions import Store

    out = listed.parent / "tasks.json"
    assert josrc("apply", listed, "--to", "label-studio", out) == 0
    tasks = exported(json.loads(out.read_text()), lambda number, _: number == 1 and [chosen("cat")])
    for when, label, held in (
        ("2031-01-01T10:00:00Z", "cat", ("relabel", "cat")),
        ("2032-01-01T10:00:00Z", "no class", ("remove", None)),
        ("2031-06-01T10:00:00Z", "cat", ("remove", None)),
    ):
        tasks[1]["annotations"] = [chosen(label, when=when)]
        out.write_text(json.dumps(tasks))
        assert josrc("decisions", listed, "--from", out) == 0
        store = Store(listed / "audit")
        assert store.decisions()[1][1] == held
        store.close()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[", "can't be read as JSON"),
        ('{"a": 1}', "is not a list of Label Studio tasks"),
        ('[{"image": "a.png", "choice": "cat"}]', "task 1 has no 'data'"),
        ('[{"data": {}, "annotations": "x"}]', "annotations: Input should be a valid list"),
        ('[{"data": {}}, {"data": {}, "annotations": [{"result": [3]}]}]', "task 2, is not as"),
        (
            '[{"data": {}, "annotations": [{"result": [{"value": {"choices": "cat"}}]}]}]',
            "annotations.0.result.0.value.choices: Input should be a valid list",
        ),
    ],
)
def test_other_json_is_refused_as_decisions(
    listed: Path, content: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = listed.parent / "export.json"
    file.write_text(content)
    assert josrc("decisions", listed, "--from", file) == 2
    assert message in capsys.readouterr().err
