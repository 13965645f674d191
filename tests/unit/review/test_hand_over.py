"""Images handed over to Label Studio."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from commands import josrc
from josrc.review.decisions import Store
from looks import looks
from reviewing import decide


def tasks_of(run: Path, budget: int) -> list[dict[str, Any]]:
    """What is handed over to Label Studio on a budget."""
    out = run.parent / f"{budget}.json"
    asked = ("--to", "label-studio", out, "--budget", budget, "--overwrite")
    assert josrc("apply", run, *asked) == 0
    tasks: list[dict[str, Any]] = json.loads(out.read_text())
    return tasks


def test_label_studio_gets_the_looks_of_a_review_in_their_order(
    with_copies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = tasks_of(with_copies, 6)
    # Every p_clean is 0.1: seven labels of six looks, as the first image is there twice.
    said = capsys.readouterr().out
    assert "6 looks, expected to correct about 6 labels in total. After that: About 15" in said
    assert "Another hundred looks are expected to correct about 15" in said
    store = Store(with_copies / "audit")
    names = {row: name for row, name, _, _ in store.samples()}
    store.close()
    shown = looks(with_copies, 6)[0]
    assert [task["data"]["id"] for task in tasks] == [names[row] for row in shown]
    assert tasks[0]["data"]["exact_copies"] == [names[8]]
    assert not any("exact_copies" in task["data"] for task in tasks[1:]), "near ones are shown"


def test_an_answer_holds_for_exact_copies_which_were_not_handed_over(
    with_copies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = tasks_of(with_copies, 6)
    given = tasks[0]["data"]["given_label"]
    assert not any("annotations" in task for task in tasks), "all are open for people"
    for task in tasks[:2]:
        choice = {"from_name": "label", "to_name": "image", "type": "choices"}
        choice["value"] = {"choices": [task["data"]["given_label"]]}
        when = "2030-01-02T10:00:00Z"
        task["annotations"] = [{"result": [choice], "updated_by": 9, "updated_at": when}]
    tasks[1]["data"]["exact_copies"] = [7, "../..", None, {"id": "x"}]  # nobody's ids
    back = with_copies.parent / "export.json"
    back.write_text(json.dumps(tasks))
    for taken, held in ((3, 0), (0, 3)):
        capsys.readouterr()
        assert josrc("decisions", with_copies, "--from", back) == 0
        said = capsys.readouterr().out
        assert f"{taken} decisions taken over, {held} already here, 0 older" in said
        assert "Among them 1 exact copy, decided with their image" in said
    store = Store(with_copies / "audit")
    assert {row: decision for row, (_, decision) in store.decisions().items()} == {
        0: ("keep", None),
        8: ("relabel", given),
        looks_row(store, tasks[1]): ("keep", None),
    }
    assert store.origins()[8][0] == "9"
    store.close()
    following = tasks_of(with_copies, 6)
    assert len(following) == 6
    assert not {task["data"]["id"] for task in following} & {t["data"]["id"] for t in tasks[:2]}


def looks_row(store: Store, task: dict[str, Any]) -> int:
    """Which row a task is of."""
    return next(row for row, name, _, _ in store.samples() if name == task["data"]["id"])


def test_nothing_is_handed_over_where_all_is_decided(
    reviewed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decide(reviewed, (list(range(24)), "keep"))
    out = reviewed.parent / "tasks.json"
    assert josrc("apply", reviewed, "--to", "label-studio", out, "--budget", "3") == 2
    assert "all are removed or decided" in capsys.readouterr().err
    assert not out.exists()
    assert josrc("apply", reviewed, "--out", out.with_suffix(".csv"), "--budget", "3") == 2
    assert "--budget needs --to label-studio" in capsys.readouterr().err
