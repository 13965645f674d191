"""The list of what ``josrc apply`` changed."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from commands import josrc
from josrc.review.changes import write_changes
from reviewing import decide, read

HOSTILE = "<img src=x onerror=document.title='hacked'>"


def test_every_change_is_listed(reviewed: Path) -> None:
    verdicts = reviewed / "audit" / "verdicts.csv"
    decide(reviewed, ([0], "keep"), ([8], "label", "dog"), ([23], "remove"))
    out = reviewed.parent / "clean"
    assert josrc("apply", reviewed, "--auto", "0.97", "--out", out, "--copy") == 0
    header, *found = csv.reader((out / "changes.csv").read_text("utf-8").splitlines())
    expected = ["id", "path", "given_label", "outcome", "label", "by", "verdict", "confidence"]
    assert header == expected
    lines = list(csv.reader(verdicts.read_text("utf-8").splitlines()))[1:]
    assert found == [
        [*lines[row][:3], *change, lines[row][3], lines[row][7]]
        for row, change in (
            (8, ("relabel", "dog", "decision")),
            (16, ("relabel", HOSTILE, "verdict")),
            (23, ("remove", "", "decision")),
        )
    ]


def test_names_that_are_no_text_are_listed_as_they_are(tmp_path: Path) -> None:
    write_changes(tmp_path / "changes.csv", [("\udcff7", "/dog/\udcff7.png", *"abcdef")])
    assert b"\n\xff7,/dog/\xff7.png,a,b" in (tmp_path / "changes.csv").read_bytes()


def test_a_list_of_changes_replaces_nothing_else(
    reviewed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = reviewed.parent
    out, listed = home / "clean.csv", home / "clean.changes.csv"
    listed.write_text("mine")
    for options, message in (([], "exists"), (["--overwrite"], "which josrc apply did not write")):
        assert josrc("apply", reviewed, "--auto", "0.9", "--out", out, *options) == 2
        assert f"{listed}" in (said := capsys.readouterr().err)
        assert message in said
        assert listed.read_text() == "mine"
        assert not out.exists()
    listed.unlink()
    for auto, count in ((["0.9"], 3), (["0.5"], 12), (["0.5", "--auto-remove"], 15)):
        assert josrc("apply", reviewed, "--auto", *auto, "--out", out, "--overwrite") == 0
        assert len(read(listed)) == count
    out.unlink()
    assert josrc("apply", reviewed, "--auto", "0.9", "--out", out) == 2
    assert not out.exists()
