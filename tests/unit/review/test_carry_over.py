"""Decisions on one run, taken over by another on the same images."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commands import josrc
from josrc.review.carry_over import import_decisions
from josrc.review.decisions import Store
from reviewing import FAST, decide, read


@pytest.fixture
def twin(reviewed: Path) -> Path:
    """A second run on the same data, that nobody has decided on."""
    return Path(shutil.copytree(reviewed, reviewed.parent / "twin"))


def outcomes(run: Path) -> dict[int, tuple[str, str | None]]:
    store = Store(run / "audit")
    found = {row: decision for row, (_, decision) in store.decisions().items()}
    store.close()
    return found


def edit(run: Path, change: Callable[[list[str]], list[str]]) -> None:
    """Change every line of a run's verdicts."""
    verdicts = run / "audit" / "verdicts.csv"
    with verdicts.open(newline="", encoding="utf-8") as file:
        first, *lines = csv.reader(file)
    with verdicts.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([first, *map(change, lines)])


def test_a_second_round_begins_with_the_decisions_of_the_first(
    reviewed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decide(reviewed, ([0], "accept"), ([1], "keep"), ([5], "remove"))
    out, again = reviewed.parent / "clean.csv", reviewed.parent / "again"
    assert josrc("apply", reviewed, "--out", out) == 0
    assert f"Later, with these decisions: josrc review NEW --decisions-of {reviewed}\n" in (
        capsys.readouterr().out
    )
    assert josrc("train", out, *FAST, "--out", again) == 0
    second = reviewed.parent / "cleaner.csv"
    assert josrc("apply", again, "--decisions-of", reviewed, "--out", second) == 0
    said = capsys.readouterr().out
    assert (
        f"Copied 2 decisions from {reviewed}. Not copied: 1 on images that are not in this "
        f"run.\n" in said
    )
    assert "0 relabelled, 0 removed, 2 kept (2 by decision), 21 undecided" in said
    assert {row["id"]: row["label"] for row in read(second)} == {
        row["id"]: row["label"] for row in read(out)
    }


def test_on_the_same_labels_the_same_is_decided_again(
    reviewed: Path, twin: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decide(reviewed, ([0], "accept"), ([1], "keep"), ([5], "remove"), ([8], "label", "dog"))
    decide(twin, ([1], "remove"))
    assert josrc("apply", twin, "--decisions-of", reviewed, "--out", twin.parent / "c.csv") == 0
    said = capsys.readouterr().out
    assert (
        f"Copied 3 decisions from {reviewed}. Not copied: 1 on images that already have a "
        "decision here" in said
    )
    assert "2 relabelled (2 by decision), 2 removed (2 by decision), 0 kept" in said
    assert outcomes(twin) == {
        0: ("relabel", "cat"), 1: ("remove", None), 5: ("remove", None), 8: ("relabel", "dog"),
    }, "its own stays, the others are kept for a third round"  # fmt: skip


def test_a_training_never_replaces_decisions(
    reviewed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decide(reviewed, ([1], "keep"))
    command = ["train", reviewed.parent / "photos", *FAST, "--overwrite", "--out", reviewed]
    assert josrc(*command) == 2
    assert (
        f"{reviewed} contains 1 review decisions, which would be lost. Name another --out, and "
        f"copy them over later: josrc review NEW --decisions-of {reviewed}"
        in capsys.readouterr().err
    )
    assert outcomes(reviewed) == {1: ("keep", None)}
    store = Store(reviewed / "audit")
    store.undo()
    store.close()
    assert josrc(*command) == 0, "nothing is decided"


def test_the_review_keeps_what_it_took_over_and_one_step_undoes_it(
    reviewed: Path, twin: Path, serving: Callable[..., tuple[Any, str]]
) -> None:
    decide(reviewed, ([0], "accept"), ([1], "keep"), ([5], "remove"))
    serving(twin, "--decisions-of", str(reviewed))
    store = Store(twin / "audit")
    taken = {row: decision for row, (_, decision) in store.decisions().items()}
    assert taken == outcomes(reviewed)
    assert len(store.undo()) == 3
    assert store.decisions() == {}
    store.close()


def test_a_label_that_somebody_changed_since_is_left_to_people(reviewed: Path, twin: Path) -> None:
    decide(reviewed, ([0], "accept"), ([9], "keep"), ([17], "keep"))
    names = [read(twin / "audit" / "verdicts.csv")[row]["id"] for row in (0, 9)]
    labels = dict(zip(names, ("cat", "dog"), strict=True))  # what was decided, and another label
    edit(twin, lambda cells: [*cells[:2], labels.get(cells[0], cells[2]), *cells[3:]])
    store = Store(twin / "audit")
    earlier = import_decisions(reviewed, store, ["cat", "dog"])
    assert import_decisions(reviewed, store, []).unknown == 0, "what is kept needs no class"
    store.close()
    assert {row: decision for row, (_, decision) in earlier.decisions.items()} == {
        0: ("keep", None),
        17: ("keep", None),
    }
    assert (earlier.missing, earlier.changed) == (0, 1)


def test_a_file_of_the_same_name_is_another_image(
    reviewed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decide(reviewed, ([16], "label", "cat"), ([9], "remove"), ([17], "keep"))
    out, again = reviewed.parent / "fixed", reviewed.parent / "again"
    assert josrc("apply", reviewed, "--copy", "--out", out) == 0
    assert "--decisions-of" not in capsys.readouterr().out
    assert josrc("train", out, *FAST, "--out", again) == 0
    assert josrc("apply", again, "--decisions-of", reviewed, "--out", out.with_suffix(".csv")) == 2
    assert "None of the 3 decisions" in capsys.readouterr().err


def test_what_was_removed_need_not_be_there(reviewed: Path, twin: Path) -> None:
    decide(reviewed, ([9], "remove"))
    verdicts = twin / "audit" / "verdicts.csv"
    lines = verdicts.read_text(encoding="utf-8").splitlines(keepends=True)
    verdicts.write_text("".join(line for line in lines if "cat/1.png" not in line))
    store = Store(twin / "audit")
    earlier = import_decisions(reviewed, store, [])
    store.close()
    assert (earlier.decisions, earlier.missing) == ({}, 1)


def test_a_class_that_is_not_there_is_not_given(reviewed: Path, twin: Path) -> None:
    decide(reviewed, ([9], "label", "dog"), ([10], "keep"))
    store = Store(twin / "audit")
    earlier = import_decisions(reviewed, store, ["cat"])
    store.close()
    assert (list(earlier.decisions), earlier.unknown) == ([10], 1)


@pytest.mark.parametrize("fault", ["none", "itself", "other data", "no run"])
def test_what_has_no_decisions_for_a_run(
    fault: str, reviewed: Path, twin: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, message = {
        "none": (twin, f"There are no decisions in {twin}."),
        "itself": (reviewed, f"{reviewed} is the same run"),
        "other data": (twin, f"None of the 1 decisions on {twin} is for a sample of this run"),
        "no run": (reviewed.parent, str(reviewed.parent)),
    }[fault]
    if fault == "other data":  # without files, and under the same numbers
        config = (twin / "config.yaml").read_text()
        (twin / "config.yaml").write_text(
            config.replace(str(reviewed.parent / "photos"), "digits-o", 1)
        )
        for run in (reviewed, twin):
            edit(run, lambda cells: [cells[0], "", *cells[2:]])
        decide(twin, ([1], "keep"))
    decide(reviewed, ([1], "keep"))
    out = reviewed.parent / "c.csv"
    assert josrc("apply", reviewed, "--decisions-of", before, "--out", out) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_decisions_on_other_images_are_none(
    reviewed: Path, twin: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decide(reviewed, ([1], "keep"))
    edit(twin, lambda cells: [f"x{cells[0]}", *cells[1:]])
    assert josrc("apply", twin, "--decisions-of", reviewed, "--out", twin.parent / "c.csv") == 2
    assert (
        f"None of the 1 decisions on {reviewed} is for a sample of this run"
        in capsys.readouterr().err
    )
