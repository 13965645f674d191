"""The corrected data set: from decisions and verdicts to something that trains again."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from commands import josrc
from josrc.review.store import Store

HOSTILE = "<img src=x onerror=document.title='hacked'>"
FAST = ["--epochs", "1", "--device", "cpu", "--method", "standard", "--batch-size", "8", "--quiet"]


def decide(run: Path, *steps: tuple[Any, ...]) -> None:
    store = Store(run / "audit")
    for step in steps:
        store.decide(*step)
    store.close()


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def labels(run: Path) -> dict[str, str]:
    """What the corrected CSV of a run says of the images by their names."""
    return {row["id"]: row["label"] for row in read(run.parent / "clean.csv")}


def original(run: Path) -> list[str]:
    with (run / "audit" / "verdicts.csv").open(newline="") as file:
        return [row["id"] for row in csv.DictReader(file)]


def test_decisions_become_a_manifest_that_trains(
    reviewed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decide(reviewed, ([0, 4], "accept"), ([1], "keep"), ([8], "label", "dog"), ([5], "remove"))
    out = reviewed.parent / "clean.csv"
    assert josrc("apply", reviewed, "--out", out) == 0
    names, found = original(reviewed), labels(reviewed)
    assert list(found) == [name for row, name in enumerate(names) if row not in (4, 5)]
    assert found[names[0]] == "cat"
    assert found[names[8]] == "dog", "its name holds quotes"
    assert found[names[1]] == HOSTILE
    assert read(out)[0]["path"] == f"photos/{names[0]}", "as seen from the manifest"
    said = capsys.readouterr().out
    assert "22 images" in said
    assert (
        "2 relabelled (2 by decision), 2 removed (2 by decision), 1 kept (1 by decision), "
        "19 not decided on" in said
    )
    assert f"Train again: josrc train {out}\n" in said
    assert josrc("train", out, *FAST, "--out", reviewed.parent / "again") == 0
    assert len(original(reviewed.parent / "again")) == 22


def test_sure_verdicts_count_where_nobody_has_decided(
    reviewed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decide(reviewed, ([0], "keep"), ([23], "remove"))
    out = reviewed.parent / "clean.csv"
    # 0.99, 0.98, 0.97 of the first; 0.89, 0.88, 0.87 of the second; 0.57 and less is foreign
    assert josrc("apply", reviewed, "--auto", "0.88", "--out", out) == 0
    names, found = original(reviewed), labels(reviewed)
    changed = {row for row, name in enumerate(names) if name.split("/")[0] != found.get(name)}
    assert changed == {8, 16, 1, 9, 23}
    assert (
        "4 relabelled (4 by verdict), 1 removed (1 by decision), 1 kept" in capsys.readouterr().out
    )
    assert josrc("apply", reviewed, "--auto", "0.55", "--out", out, "--overwrite") == 0
    assert names[4] not in labels(reviewed)
    assert names[0] in labels(reviewed)


def test_paths_elsewhere_are_absolute_and_the_command_says_what_that_needs(
    reviewed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "else where" / "clean.csv"
    assert josrc("apply", reviewed, "--auto", "0.9", "--out", out) == 0
    assert f"josrc train '{out}' --allow-outside" in capsys.readouterr().out
    assert all(Path(row["path"]).is_file() for row in read(out))
    assert josrc("train", out, "--allow-outside", *FAST, "--out", tmp_path / "again") == 0


@pytest.mark.parametrize("way", [("--copy",), ("--link", "hard"), ("--link", "sym")])
def test_class_folders(reviewed: Path, way: tuple[str, ...]) -> None:
    decide(reviewed, ([0, 1, 4], "accept"), ([16], "remove"))
    out, photos = reviewed.parent / "clean", reviewed.parent / "photos"
    assert josrc("apply", reviewed, *way, "--out", out) == 0
    names = original(reviewed)
    files = {str(path.relative_to(out)) for path in out.rglob("*.png")}
    moved = {"cat/0.png", "cat/1-2.png"} | {"cat/1.png"}
    stay = {name for row, name in enumerate(names) if row not in (0, 1, 4, 16)}
    assert files == stay | moved
    both = {(out / f"cat/{name}").read_bytes() for name in ("1.png", "1-2.png")}
    assert both == {(photos / HOSTILE / "1.png").read_bytes(), (photos / "cat/1.png").read_bytes()}
    copy, source = out / names[20], photos / names[20]
    assert copy.is_symlink() == (way[-1] == "sym")
    assert (copy.stat().st_ino == source.stat().st_ino) == (way[0] == "--link")
    assert josrc("apply", reviewed, *way, "--out", out) == 2, "it exists"
    assert josrc("apply", reviewed, *way, "--out", out, "--overwrite") == 0
    assert len(list(photos.rglob("*.png"))) == 24
    assert sorted(p.name for p in reviewed.parent.iterdir()) == ["clean", "photos", "run"]
    assert josrc("train", out, *FAST, "--out", reviewed.parent / "again") == 0
    assert len(original(reviewed.parent / "again")) == 22


def test_what_is_refused_leaves_everything_as_it_was(
    reviewed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = reviewed.parent
    auto = ["--auto", "0.9", "--overwrite"]
    (home / "mine").mkdir()
    (home / "mine" / "diary.txt").write_text("dear")
    before = sorted(home.rglob("*"))
    for arguments, message in (
        (["--out", home / "a.csv"], "Nobody has decided"),
        ([*auto, "--out", home / "folder"], "--copy or --link"),
        ([*auto, "--copy", "--link", "sym", "--out", home / "x"], "not both"),
        ([*auto, "--copy", "--out", home / "mine"], "was not written by josrc apply"),
        ([*auto, "--copy", "--out", home / "photos"], "original"),
        ([*auto, "--copy", "--out", home / "photos" / "cat" / "new"], "inside of the original"),
        ([*auto, "--copy", "--out", home], "holds the original"),
        ([*auto, "--out", reviewed / "audit" / "verdicts.csv"], "run folder"),
        (["--auto", "1.5", "--out", home / "a.csv"], "less than or equal to 1"),
    ):
        assert josrc("apply", reviewed, *arguments) == 2
        captured = capsys.readouterr()
        assert message in captured.err, arguments
        assert "Traceback" not in captured.err
        assert sorted(home.rglob("*")) == before
    (home / "a.csv").write_text("mine")
    assert josrc("apply", reviewed, "--auto", "0.9", "--out", home / "a.csv") == 2
    assert (home / "a.csv").read_text() == "mine"


def test_a_manifest_with_ids_and_splits_keeps_them(tmp_path: Path) -> None:
    lines = ["path,label,id,split"]
    for number in range(24):
        name = f"{number}.png"
        Image.new("RGB", (9, 9), (10 * number, 0, 0)).save(tmp_path / name)
        split = {20: "val", 21: "val", 22: "test", 23: "test"}.get(number, "train")
        label = ("=1+1", "b")[number % 2]
        lines.append(f"{name},{label},sample {number},{split}")
    (tmp_path / "all.csv").write_text("\n".join(lines))
    run, out = tmp_path / "run", tmp_path / "clean.csv"
    assert josrc("train", tmp_path / "all.csv", *FAST, "--out", run) == 0
    decide(run, ([0], "label", "b"), ([20], "label", "b"), ([3], "remove"))
    assert josrc("apply", run, "--out", tmp_path / "all.csv", "--overwrite") == 2, "the original"
    assert josrc("apply", run, "--out", out) == 0
    found = {row["path"]: row for row in read(out)}
    assert len(found) == 23
    assert found["0.png"] == {"path": "0.png", "label": "b", "id": "sample 0", "split": "train"}
    assert found["2.png"]["label"] == "=1+1", "data is not mangled for spreadsheets"
    assert found["20.png"] == {"path": "20.png", "label": "b", "id": "sample 20", "split": "val"}
    assert {found[name]["split"] for name in ("22.png", "23.png")} == {"test"}
    assert josrc("train", out, *FAST, "--out", tmp_path / "again") == 0
    assert original(tmp_path / "again") == [f"sample {n}" for n in range(22) if n != 3]
    assert josrc("apply", run, "--copy", "--out", tmp_path / "folder") == 0
    assert (tmp_path / "folder" / "val" / "b" / "20.png").is_file()
    assert len(list((tmp_path / "folder" / "test").rglob("*.png"))) == 2


def test_names_that_a_csv_can_not_hold_are_told(tmp_path: Path, reviewed: Path) -> None:
    photos = tmp_path / "spaced"
    shutil.copytree(reviewed.parent / "photos", photos)
    (photos / "cat").rename(photos / " cat")
    run = tmp_path / "spaced-run"
    assert josrc("train", photos, *FAST, "--out", run) == 0
    assert josrc("apply", run, "--auto", "0", "--out", tmp_path / "clean.csv") == 2
    assert not (tmp_path / "clean.csv").exists()
    decide(run, ([0], "keep"))
    assert josrc("apply", run, "--link", "sym", "--out", tmp_path / "linked") == 0
    classes = {path.name for path in (tmp_path / "linked").iterdir() if path.is_dir()}
    assert classes == {HOSTILE, " cat", "dog"}


def test_data_known_by_name_becomes_labels_or_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = tmp_path / "run", tmp_path / "labels.csv"
    noise = ["--noise", "symmetric", "--rate", "0.3"]
    assert josrc("train", "digits-o", *noise, *FAST, "--batch-size", "256", "--out", run) == 0
    given = {row["id"]: row["given_label"] for row in _verdicts(run)}
    first = next(name for name, label in given.items() if label != "3")
    decide(run, ([int(first)], "label", "3"))
    assert josrc("apply", run, "--out", out) == 0
    assert f"josrc train digits-o --noise-file {out}" in capsys.readouterr().out
    assert {row["id"]: row["label"] for row in read(out)} == given | {first: "3"}
    again = tmp_path / "again"
    more = ["--noise-file", out, "--batch-size", "256", "--out", again]
    assert josrc("train", "digits-o", *FAST, *more) == 0
    assert {r["id"]: r["given_label"] for r in _verdicts(again)} == given | {first: "3"}

    decide(run, ([7], "remove"))
    assert josrc("apply", run, "--out", out, "--overwrite") == 2
    assert "can't express that 1 samples are removed" in capsys.readouterr().err
    assert josrc("apply", run, "--link", "sym", "--out", tmp_path / "x") == 2
    assert josrc("apply", run, "--copy", "--out", tmp_path / "digits") == 0
    train = list((tmp_path / "digits" / "train").rglob("*.png"))
    assert len(train) == len(given) - 1
    assert (tmp_path / "digits" / "train" / "3" / f"{first}.png").is_file()
    assert len(list((tmp_path / "digits" / "test").rglob("*.png"))) == 361
    more = ["--batch-size", "256", "--out", tmp_path / "third"]
    assert josrc("train", tmp_path / "digits", *FAST, *more) == 0


def _verdicts(run: Path) -> list[dict[str, str]]:
    return read(run / "audit" / "verdicts.csv")
