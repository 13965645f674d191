"""What ``josrc apply`` never does: write elsewhere, or delete what it did not make."""

from __future__ import annotations

import csv
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from PIL import Image

from commands import josrc
from josrc.review.replacement import MARK
from reviewing import FAST, decide, read

AUTO = ["--auto", "0", "--overwrite"]


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


def test_classes_that_are_no_names_of_folders_are_refused(
    audited_run: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = audited_run("../../dog")
    assert josrc("apply", run, *AUTO, "--copy", "--out", tmp_path / "out") == 2
    assert "A folder can't be called" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_holds_the_images_of_a_run_is_not_replaced(
    reviewed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copies = tmp_path / "copies"
    assert josrc("apply", reviewed, *AUTO, "--copy", "--out", copies) == 0
    lines = [["path", "label"], *([p.relative_to(tmp_path), p.parent.name] for p in images(copies))]
    linked = tmp_path / "linked"  # images that are links into the folder are images in it
    linked.mkdir()
    for place, path in enumerate(images(copies)):
        (linked / f"{place}.png").symlink_to(path)
    others = [["path", "label"], *([f"linked/{place}.png", path.parent.name]
              for place, path in enumerate(images(copies)))]  # fmt: skip
    for name, manifest in (("first", lines), ("second", others)):
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows(manifest)
        run = tmp_path / f"{name}-run"
        assert josrc("train", tmp_path / f"{name}.csv", "--allow-outside", *FAST, "--out", run) == 0
        for way in (["--link", "sym"], ["--link", "hard"], ["--copy"]):
            assert josrc("apply", run, *AUTO, *way, "--out", copies) == 2
            assert f"{copies} holds images of this run" in capsys.readouterr().err
    assert len(images(copies)) == 24
    assert all(path.is_file() for path in images(linked))


def images(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.png"))


def test_folders_beside_that_somebody_else_made_stay(reviewed: Path, tmp_path: Path) -> None:
    """Even an earlier output of josrc, under a name that josrc itself once used."""
    for name in ("c.old", "c.partial"):
        assert josrc("apply", reviewed, *AUTO, "--copy", "--out", tmp_path / name) == 0
    mine = tmp_path / ".c.josrc-0123456789abcdef-new"
    mine.mkdir()
    (mine / "diary.txt").write_text("dear")
    for _ in range(2):
        assert josrc("apply", reviewed, *AUTO, "--copy", "--out", tmp_path / "c") == 0
    assert [len(images(tmp_path / name)) for name in ("c", "c.old", "c.partial")] == [24] * 3
    assert (mine / "diary.txt").read_text() == "dear"


def test_a_file_of_somebody_is_not_taken_for_half_of_a_manifest(
    reviewed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["apply", reviewed, *AUTO, "--out", tmp_path / "c.csv"]
    for name in ("c.csv.partial", "c.changes.csv.partial"):
        (tmp_path / name).write_text("dear diary\n")
        assert josrc(*command) == 2
        assert f"{name} is in the way" in capsys.readouterr().err
        assert (tmp_path / name).read_text() == "dear diary\n"
        (tmp_path / name).write_text("")
    (tmp_path / "c.csv.partial").write_text("path,label,id\nhalf of")
    assert josrc(*command) == 0


@pytest.mark.parametrize("renames", [0, 1, 2, 3])
def test_a_killed_replacement_leaves_a_whole_folder_or_is_put_right_the_next_time(
    renames: int, reviewed: Path, tmp_path: Path
) -> None:
    home, out = tmp_path / "home", tmp_path / "home" / "out"
    command = ["apply", reviewed, *AUTO, "--copy", "--out", out]
    assert josrc(*command) == 0
    if child := os.fork():
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    else:
        kill_at_a_rename(renames)
        josrc(*command)
        os._exit(0)
    assert len(images(home)) >= 24
    assert josrc(*command) == 0
    assert [path.name for path in home.iterdir()] == ["out"]
    assert len(images(out)) == 24


def kill_at_a_rename(left: int) -> None:
    """End this process before it renames a folder, or replaces a file, once more than so often."""
    counted = iter(range(left))
    for name in ("rename", "replace"):
        move = getattr(Path, name)

        def moved(path: Path, target: Path, move: Callable[[Path, Path], Path] = move) -> Path:
            if next(counted, None) is None:
                os._exit(9)
            return move(path, target)

        setattr(Path, name, moved)


def test_a_folder_that_another_process_writes_is_left_alone(reviewed: Path, tmp_path: Path) -> None:
    busy = tmp_path / ".out.josrc-0123456789abcdef-new"
    busy.mkdir()
    mark = {"process": os.getpid(), "machine": os.uname().nodename}
    (busy / MARK).write_text(json.dumps(mark))
    assert josrc("apply", reviewed, *AUTO, "--copy", "--out", tmp_path / "out") == 0
    assert busy.is_dir()
    (busy / MARK).write_text(json.dumps(mark | {"process": 2**22 + 1}))
    assert josrc("apply", reviewed, *AUTO, "--copy", "--out", tmp_path / "out") == 0
    assert not busy.exists()


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


def test_an_image_that_a_manifest_names_in_another_folder_keeps_its_name_alone(
    tmp_path: Path,
) -> None:
    """Of a path like ``../x.png`` only the last part becomes the name of a file."""
    inner = tmp_path / "inner"
    inner.mkdir()
    lines = ["path,label"]
    for number in range(6):
        Image.new("RGB", (9, 9), (40 * number, 0, 0)).save(tmp_path / f"{number}.png")
        lines.append(f"../{number}.png,{'ab'[number % 2]}")
    (inner / "m.csv").write_text("\n".join(lines))
    run = tmp_path / "run"
    assert josrc("train", inner / "m.csv", "--allow-outside", *FAST, "--out", run) == 0
    assert josrc("apply", run, *AUTO, "--copy", "--out", tmp_path / "out" / "deep") == 0
    assert len(images(tmp_path / "out" / "deep")) == 6
    shutil.rmtree(tmp_path / "out")
    assert len(read(run / "audit" / "verdicts.csv")) == 6
