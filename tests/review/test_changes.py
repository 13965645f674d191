"""The list of what ``josrc apply`` changed."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from commands import josrc
from reviewing import decide, read

HOSTILE = "<img src=x onerror=document.title='hacked'>"


def test_every_change_is_listed(reviewed: Path) -> None:
    verdicts = reviewed / "audit" / "verdicts.csv"
    verdicts.write_bytes(verdicts.read_bytes().replace(b"dog/7.png", b"dog/\xff7.png"))
    decide(reviewed, ([0], "keep"), ([8], "label", "dog"), ([23], "remove"))
    out = reviewed.parent / "clean"
    assert josrc("apply", reviewed, "--auto", "0.97", "--out", out, "--copy") == 0
    text = (out / "changes.csv").read_bytes().decode("utf-8", "surrogateescape")
    header, *found = csv.reader(text.splitlines())
    expected = ["id", "path", "given_label", "outcome", "label", "by", "verdict", "confidence"]
    assert header == expected
    lines = list(csv.reader(verdicts.read_text(errors="surrogateescape").splitlines()))[1:]
    assert found == [
        [*lines[row][:3], *change, lines[row][3], lines[row][7]]
        for row, change in (
            (8, ("relabel", "dog", "decision")),
            (16, ("relabel", HOSTILE, "verdict")),
            (23, ("remove", "", "decision")),
        )
    ]


def test_a_list_of_changes_replaces_nothing_else(
    reviewed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = reviewed.parent
    out, listed = home / "clean.csv", home / "clean.changes.csv"
    listed.write_text("mine")
    for options, message in (([], "exists"), (["--overwrite"], "was not written by josrc apply")):
        assert josrc("apply", reviewed, "--auto", "0.9", "--out", out, *options) == 2
        assert f"{listed}" in (said := capsys.readouterr().err)
        assert message in said
        assert listed.read_text() == "mine"
        assert not out.exists()
    listed.unlink()
    for auto, count in (("0.9", 3), ("0.5", 15)):
        assert josrc("apply", reviewed, "--auto", auto, "--out", out, "--overwrite") == 0
        assert len(read(listed)) == count
    out.unlink()
    assert josrc("apply", reviewed, "--auto", "0.9", "--out", out) == 2
    assert not out.exists()
