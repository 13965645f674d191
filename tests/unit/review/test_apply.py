"""The corrected data set: from decisions and verdicts to something that trains again."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

from applied import command_of, sections
from commands import josrc
from reviewing import FAST, audit_summary, decide, read

HOSTILE = "<img src=x onerror=document.title='hacked'>"


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
        "19 undecided" in said
    )
    assert f"Every change: {reviewed.parent / 'clean.changes.csv'}\n" in said
    assert f"Train again: josrc train {out} --method standard --workers 0\n" in said
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
    classes = [
        {"class": name, "samples": 12, "clean": clean, "mislabelled": 12 - clean,
         "out_of_distribution": 0, "noise_rate": 1 - clean / 12}
        for name, clean in (("cat", 2), ("dog", 12))
    ]  # fmt: skip
    summary = audit_summary(classes=classes)
    (reviewed / "audit" / "summary.json").write_text(json.dumps(summary))
    options = ["--auto", "0.55", "--auto-remove", "--out", out, "--overwrite"]
    assert josrc("apply", reviewed, *options) == 0
    assert names[4] not in labels(reviewed)
    assert names[0] in labels(reviewed)
    assert "83 % of the images labelled 'cat' look wrong" in capsys.readouterr().out


@pytest.mark.parametrize("said_so", [[], ["--no-auto-remove"]])
def test_verdicts_relabel_and_leave_removals_to_people(
    said_so: list[str], reviewed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decide(reviewed, ([12], "accept"), ([20], "keep"), ([23], "remove"))
    out = reviewed.parent / "clean.csv"
    options = ["--auto", "0.5", *said_so, "--out", out]
    assert josrc("apply", reviewed, *options) == 0
    names, found = original(reviewed), labels(reviewed)
    gone = {row for row, name in enumerate(names) if name not in found}
    assert gone == {12, 23}, "what people removed; 4 is foreign by its verdict alone"
    said = capsys.readouterr().out
    assert "12 relabelled (12 by verdict), 2 removed (2 by decision), 1 kept" in said
    assert (
        "1 more would be removed by verdict (with --auto-remove). To decide on them: "
        f"josrc review {reviewed}\n" in said
    )
    options[1] = "0.6"  # it is 0.59 sure
    assert josrc("apply", reviewed, *options, "--overwrite") == 0
    assert "more would be removed" not in capsys.readouterr().out
    options[1] = "1"
    assert josrc("apply", reviewed, *options, "--overwrite") == 0
    told = capsys.readouterr().out
    assert "0 of 12 verdicts against undecided labels" in told, "what it may follow"


def test_a_confidence_that_hardly_a_verdict_has_is_told_with_lower_ones(
    reviewed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decide(reviewed, ([0], "keep"))
    out = reviewed.parent / "clean.csv"
    for auto, told in (
        ("0.99", "0 of 11 verdicts against undecided labels have a confidence of at "
         "least 0.99. More with --auto 0.9 (2), 0.8 (5), 0.7 (8), 0.6 (11).\n"),
        ("0.98", "1 of 11 verdicts"),
        ("0.9", ""),  # two of eleven are enough
    ):  # fmt: skip
        assert josrc("apply", reviewed, "--auto", auto, "--out", out, "--overwrite") == 0
        said = capsys.readouterr().out
        assert told in said
        assert ("verdicts against undecided labels" in said) == bool(told)
    assert josrc("apply", reviewed, "--out", out, "--overwrite") == 0
    assert "against undecided labels" not in capsys.readouterr().out, "nobody asked for verdicts"


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
        (["--out", home / "a.csv"], "has no decisions yet"),
        ([*auto, "--out", home / "folder"], "--copy or --link"),
        ([*auto, "--copy", "--link", "sym", "--out", home / "x"], "not both"),
        ([*auto, "--copy", "--out", home / "mine"], "was not written by josrc apply"),
        ([*auto, "--copy", "--out", home / "photos"], "original"),
        ([*auto, "--copy", "--out", home / "photos" / "cat" / "new"], "inside the original"),
        ([*auto, "--copy", "--out", home], "contains the original"),
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


@pytest.mark.slow
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
    command = command_of(capsys.readouterr().out)
    assert command[:4] == ["train", "digits-o", "--noise-file", str(out)]
    assert command[4:] == ["--method", "standard", "--epochs", "1", "--batch-size", "256",
                           "--device", "cpu"]  # fmt: skip
    assert {row["id"]: row["label"] for row in read(out)} == given | {first: "3"}
    again = tmp_path / "again"
    assert josrc(*command, "--quiet", "--out", again) == 0
    assert sections(again) == sections(run)
    assert {r["id"]: r["given_label"] for r in _verdicts(again)} == given | {first: "3"}

    decide(run, ([7], "remove"))
    assert josrc("apply", run, "--out", out, "--overwrite") == 2
    assert "can't say that 1 samples are removed" in capsys.readouterr().err
    assert josrc("apply", run, "--link", "sym", "--out", tmp_path / "x") == 2
    assert josrc("apply", run, "--copy", "--out", tmp_path / "digits") == 0
    train = list((tmp_path / "digits" / "train").rglob("*.png"))
    assert len(train) == len(given) - 1
    assert (tmp_path / "digits" / "train" / "3" / f"{first}.png").is_file()
    assert len(list((tmp_path / "digits" / "test").rglob("*.png"))) == 361
    command = command_of(capsys.readouterr().out)
    assert josrc(*command, "--quiet", "--out", tmp_path / "third") == 0
    model = sections(run)["model"]
    assert model["width"] == 0.5, "josrc chooses it for the digits, but for no folder"
    assert sections(tmp_path / "third")["model"] == model | {"image_size": 8}


def _verdicts(run: Path) -> list[dict[str, str]]:
    return read(run / "audit" / "verdicts.csv")
