"""What ``josrc apply`` never does: write elsewhere, or delete what it did not make."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from commands import josrc
from exports import AUTO, images
from reviewing import FAST, read


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
