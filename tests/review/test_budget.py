"""A review on a budget, through the real server and the command line."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commands import josrc
from josrc.review.budget import Budget
from josrc.review.decisions import Store
from reviewing import Client, decide

Serving = Callable[..., tuple[Any, str]]


def asked(client: Client, path: str) -> Any:
    status, _, content = client.ask("GET", path)
    assert status == 200, content
    return json.loads(content)


def rows_of(client: Client) -> list[int]:
    return [sample["row"] for sample in asked(client, "/api/queue?verdict=budget")["samples"]]


def test_a_budget_is_a_queue_of_its_own_with_copies_once(
    with_copies: Path, serving: Serving
) -> None:
    client = Client(serving(with_copies, "--budget", "100")[1])
    rows = rows_of(client)
    assert len(rows) == 23
    assert rows[0] == 0, "two labels for a look"
    assert 8 not in rows
    about = asked(client, "/api/about")["budget"]
    assert about["copies"]["0"] == [{"row": 8, "near": False, "given": "cat"}]
    assert about["copies"]["1"] == [{"row": 9, "near": True, "given": "cat"}]
    assert about["more"].endswith("--budget 100")


def test_a_decision_is_taken_for_copies_in_one_step(with_copies: Path, serving: Serving) -> None:
    client = Client(serving(with_copies, "--budget", "6")[1])
    hostile = asked(client, "/api/about")["classes"][0]["name"]
    # Image 0 and its copy 8 have different labels: what is right is the same for both.
    assert client.decide([0], "keep", copies=[8])[0] == 200
    store = Store(with_copies / "audit")
    assert {row: found for row, (_, found) in store.decisions().items()} == {
        0: ("keep", None),
        8: ("relabel", hostile),
    }
    progress = asked(client, "/api/changes?since=0")["progress"]["budget"]
    assert (progress["samples"], progress["decided"], progress["corrected"]) == (6, 1, 1)
    assert client.ask("POST", "/api/undo", {})[0] == 200
    assert store.decisions() == {}
    assert client.decide([0], "accept", copies=[8])[0] == 200
    assert store.decisions()[8][1] == ("keep", None), "it had the label that is suggested"
    assert client.decide([1], "remove", copies=[9, 8])[0] == 200
    assert store.decisions()[9][1] == ("remove", None)
    assert store.decisions()[8][1] == ("keep", None), "it was decided before"
    store.close()


def test_copies_that_make_no_sense_are_refused(with_copies: Path, serving: Serving) -> None:
    client = Client(serving(with_copies, "--budget", "6")[1])
    for status, rows, copies in (
        (400, [0, 1], [8]),
        (400, [0], "8"),
        (404, [0], [24]),
        (404, [0], ["8"]),
    ):
        found = client.ask(
            "POST", "/api/decide", {"rows": rows, "action": "keep", "copies": copies}
        )
        assert found[0] == status
    store = Store(with_copies / "audit")
    assert store.decisions() == {}
    store.close()


def test_the_end_says_what_was_corrected_and_what_is_left(reviewed: Path, serving: Serving) -> None:
    server, address = serving(reviewed, "--budget", "4")
    client = Client(address)
    rows = rows_of(client)
    assert client.decide(rows, "accept")[0] == 200
    text = asked(client, "/api/budget")["text"]
    # Every p_clean is 0.1: of four looks 3.6 corrections are expected, of 20 others 18, and as all
    # four were wrong, a little more.
    assert text.startswith(
        "4 of 4 looks are done, and 4 labels corrected, copies included; about 4 were "
        "expected in all. About 19 wrong labels are expected among the 20 that nobody has "
        "decided on. Another hundred looks are expected to correct about 19"
    )
    server.send_signal(signal.SIGINT)
    said = server.stdout.read()
    assert server.wait() == 0
    assert "4 of 4 looks are done" in said
    assert f"Continue: josrc review {reviewed} --budget 4" in said


def test_without_a_budget_there_is_none(reviewed: Path, serving: Serving) -> None:
    client = Client(serving(reviewed)[1])
    assert "budget" not in asked(client, "/api/about")
    assert "budget" not in asked(client, "/api/changes?since=0")["progress"]
    assert client.ask("GET", "/api/budget")[0] == 404
    assert rows_of(client) == []


def looks(run: Path, count: int) -> tuple[list[int], dict[str, Any]]:
    """The looks of a budget on a run."""
    store = Store(run / "audit")
    progress = Budget(store, count).progress()
    rows = [row for (row,) in store.read("SELECT row FROM budget ORDER BY drawn")]
    store.close()
    return rows, progress


def test_a_budget_goes_on_where_it_stopped_and_then_begins_behind(reviewed: Path) -> None:
    first, _ = looks(reviewed, 5)
    decide(reviewed, (first[:2], "keep"))
    again, progress = looks(reviewed, 5)
    assert again == first
    assert progress["decided"] == 2
    decide(reviewed, (first, "keep"))
    following, progress = looks(reviewed, 5)
    assert not set(following) & set(first)
    assert progress["decided"] == 0
    larger, _ = looks(reviewed, 7)
    assert len(larger) == 7
    assert not set(larger) & set(first)
    everything, _ = looks(reviewed, 1000)
    assert len(everything) == 19


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
    assert "6 looks, together expected to correct about 6 labels. After them: About 15" in said
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
    assert "--budget goes with --to label-studio" in capsys.readouterr().err


def test_new_verdicts_make_a_new_plan(reviewed: Path) -> None:
    first, _ = looks(reviewed, 5)
    path = reviewed / "audit" / "verdicts.csv"
    lines = path.read_text().splitlines()
    last = max(set(range(24)) - set(first))
    cells = lines[1 + last].split(",")
    cells[5] = "0.0001"
    lines[1 + last] = ",".join(cells)
    path.write_text("\n".join(lines) + "\n")
    assert looks(reviewed, 5)[0][0] == last


def test_a_budget_is_at_least_one_look(reviewed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert josrc("review", reviewed, "--budget", "0") == 2
    assert "--budget" in capsys.readouterr().err
    assert josrc("review", reviewed.parent, "--budget", "5") == 2
    (reviewed / "audit" / "verdicts.csv").unlink()
    assert josrc("review", reviewed, "--budget", "5") == 2
    assert "josrc audit" in capsys.readouterr().err
