"""Which samples a corrected data set has."""

from __future__ import annotations

import csv
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from commands import josrc
from exports import AUTO
from reviewing import decide


def change_cell(run: Path, row: int, column: int, text: str) -> None:
    """Another text in a cell of a run's verdicts."""
    path = run / "audit" / "verdicts.csv"
    with path.open(newline="", encoding="utf-8") as file:
        lines = list(csv.reader(file))
    lines[row + 1][column] = text
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(lines)


def suggest(run: Path, label: str) -> None:
    change_cell(run, 0, 4, label)


def give(run: Path, label: str) -> None:
    change_cell(run, 0, 2, label)


def relabel(run: Path, label: str) -> None:
    decide(run, ([0], "label", label))


@pytest.mark.parametrize("write", [suggest, give, relabel])
@pytest.mark.parametrize(
    "label", ["{victims}", "../../victims", "..", "", "unheard of", "a\x1b[2J"]
)
def test_a_label_that_is_no_class_is_refused_and_nothing_is_written(
    write: Callable[[Path, str], None],
    label: str,
    reviewed: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if not label and write is not give:
        pytest.skip("no suggestion, and no label")
    victims = tmp_path / "victims"
    victims.mkdir()
    for number in range(8):
        (victims / f"{number}.png").write_text("precious")
    write(reviewed, label.format(victims=victims))
    before = sorted(tmp_path.glob("*"))
    for out in (["--copy", "--out", tmp_path / "out"], ["--out", tmp_path / "out.csv"]):
        assert josrc("apply", reviewed, *AUTO, *out) == 2
        error = capsys.readouterr().err
        assert "which is not a class of this run" in error
        assert ("decisions.sqlite" if write is relabel else "verdicts.csv") in error
        assert "\x1b" not in error
    assert sorted(tmp_path.glob("*")) == before
    assert {path.read_text() for path in victims.iterdir()} == {"precious"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("UPDATE decision SET label = x'00ff'", "decisions.sqlite"),
        ("UPDATE decision SET outcome = 'burn'", "decisions.sqlite"),
        ("UPDATE decision SET row = 'x'", "decisions.sqlite"),
        ("ALTER TABLE decision RENAME COLUMN row TO line", "decisions.sqlite"),
        ("DROP TABLE change; CREATE TABLE change (x)", "decisions.sqlite"),
        ("DROP TABLE decision; CREATE VIEW decision AS SELECT 1", "decisions.sqlite"),
    ],
)
def test_decisions_that_josrc_did_not_write_are_refused(
    change: str, message: str, reviewed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decide(reviewed, ([0], "label", "dog"))
    with closing(sqlite3.connect(reviewed / "audit" / "decisions.sqlite")) as database:
        try:
            database.executescript(change)
        except sqlite3.IntegrityError:  # a row is a number: SQLite itself refuses
            return
    assert josrc("apply", reviewed, "--out", tmp_path / "out.csv") == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out.csv").exists()
    if "view" in change.lower() or "DROP" in change or "ALTER" in change:
        assert josrc("review", reviewed) == 2
        assert message in capsys.readouterr().err
