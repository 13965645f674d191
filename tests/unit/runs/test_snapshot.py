"""Runs whose images were added, removed or moved since they were trained, by the command line."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from commands import josrc
from josrc.review.decisions import Store
from josrc.runs.start import plan

FAST = ["--epochs", "2", "--device", "cpu", "--method", "standard", "--batch-size", "8", "--quiet"]
GONE, NEW = "rose/3.png", "tulip/new.png"


def draw(path: Path, red: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(red).integers(0, 60, (16, 16, 3), dtype=np.uint8)
    pixels[..., 0] = red
    Image.fromarray(pixels).save(path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``data``, ``folder``, a run on it, and ``manifest``, one on ``data/all.csv``.

    40 images of two classes; of the manifest six are held out and four are tests.
    """
    home = tmp_path_factory.mktemp("trained") / "home"
    lines = ["path,label,id,split"]
    for name, red in (("rose", 200), ("tulip", 20)):
        for number in range(20):
            draw(home / "data" / name / f"{number}.png", red + number)
            split = "val" if number >= 17 else "test" if number >= 15 else "train"
            lines.append(f"{name}/{number}.png,{name},{name} {number},{split}")
    (home / "data" / "rose" / "broken.png").write_bytes(b"no image")
    assert josrc("train", home / "data", *FAST, "--out", home / "folder") == 0
    (home / "data" / "all.csv").write_text("\n".join(lines))
    assert josrc("train", home / "data" / "all.csv", *FAST, "--out", home / "manifest") == 0
    return home


@pytest.fixture
def home(trained: Path, tmp_path: Path) -> Iterator[Path]:
    """The same with a decision in each run. What a test does to it is undone."""
    shutil.copytree(trained, tmp_path / "kept")
    for name in ("folder", "manifest"):
        store = Store(trained / name / "audit")
        store.decide([0], "label", "tulip")
        store.close()
    yield trained
    shutil.rmtree(trained)
    shutil.move(tmp_path / "kept", trained)


def rows(path: Path) -> dict[str, dict[str, str]]:
    with path.open(newline="") as file:
        return {row["id"] or row["path"]: row for row in csv.DictReader(file)}


def pictures(run: Path) -> list[bool]:
    """Of every sample that the report shows whether it has a picture."""
    text = (run / "audit" / "report.html").read_text()
    data = json.loads(text.split('type="application/json">')[1].split("</script>")[0])
    return ["image" in sample for sample in data["samples"]]


def accuse(run: Path) -> None:
    """Verdicts against some labels, so that a report has something to show."""
    assert josrc("audit", run, "--noise-rate", "0.5") == 0
    assert all(pictures(run))


def change(home: Path) -> None:
    """One file goes, one comes; of the manifest likewise."""
    (home / "data" / GONE).unlink()
    draw(home / "data" / NEW, 90)
    lines = (home / "data" / "all.csv").read_text().splitlines()
    lines = [line for line in lines if not line.startswith(GONE)]
    (home / "data" / "all.csv").write_text("\n".join([*lines, f"{NEW},tulip,new,train"]))


TOLD = {
    "folder": f"Since the training 1 image is gone ({GONE}) and 1 image is new ({NEW}).",
    "manifest": "Since the training 1 image is gone (rose 3) and 1 image is new (new).",
}


@pytest.mark.parametrize("name", TOLD)
def test_a_file_that_came_and_one_that_went_are_told(
    name: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = home / name, home / "clean.csv"
    accuse(run)
    before = rows(run / "audit" / "verdicts.csv")
    change(home)
    capsys.readouterr()
    assert josrc("apply", run, "--out", out) == 0
    said = capsys.readouterr().out
    assert f"{TOLD[name]} Missing images are left out, and so are new ones" in said
    found = rows(out)
    gone, first = ("rose/3.png", "rose/0.png") if name == "folder" else ("rose 3", "rose 0")
    judged = {i for i in found if found[i].get("split") != "test"}
    assert judged == before.keys() - {gone}
    assert found[first]["label"] == "tulip", "what was decided"
    assert len(found) - len(judged) == (4 if name == "manifest" else 0), "tests are handed on"
    assert josrc("apply", run, "--copy", "--out", home / "clean") == 0

    capsys.readouterr()
    for command in (["audit", run, "--noise-rate", "0.5"], ["report", run]):
        assert josrc(*command) == 0
        assert f"{TOLD[name]} Missing images have no picture" in capsys.readouterr().out
        assert pictures(run).count(False) <= 1
    assert rows(run / "audit" / "verdicts.csv") == before, "the run judges what it was trained on"
    store = Store(run / "audit")  # decisions and verdicts still speak of the same samples
    store.close()


def test_a_held_out_image_that_is_gone_has_no_verdict(home: Path) -> None:
    run = home / "manifest"
    accuse(run)
    before = rows(run / "audit" / "verdicts.csv")
    (home / "data" / "tulip" / "18.png").unlink()
    assert josrc("audit", run, "--noise-rate", "0.5") == 0
    after = rows(run / "audit" / "verdicts.csv")
    assert list(after) == list(before)
    # A smaller batch of held-out images may round otherwise, in digits that only a score shows.
    for table in (before, after):
        for name, row in table.items():
            row["score"] = "" if name == "tulip 18" else f"{float(row['score']):.5f}"
    assert [name for name in after if after[name] != before[name]] == ["tulip 18"]
    assert after["tulip 18"]["confidence"] == "0.0000"
    assert "the image was missing" in after["tulip 18"]["reason"]


def test_without_any_held_out_image_the_others_are_judged(home: Path) -> None:
    run = home / "manifest"
    before = rows(run / "audit" / "verdicts.csv")
    for path in (home / "data").glob("*/1[789].png"):
        path.unlink()
    assert josrc("audit", run) == 0
    after = rows(run / "audit" / "verdicts.csv")
    held = {f"{name} {number}" for name in ("rose", "tulip") for number in (17, 18, 19)}
    assert {name for name in after if after[name] != before[name]} == held


def test_labels_that_were_changed_in_a_manifest_are_told(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = home / "data" / "all.csv"
    manifest.write_text(manifest.read_text().replace("rose,rose 5,", "tulip,rose 5,"))
    out = home / "clean.csv"
    assert josrc("apply", home / "manifest", "--out", out) == 0
    said = capsys.readouterr().out
    assert "1 image has a different label now, which this run ignores" in said
    assert "images and 4 test images." in said
    assert rows(out)["rose 5"]["label"] == "rose"


def test_the_list_of_changes_names_images_where_they_are_now(home: Path) -> None:
    shutil.move(home / "data", home / "laptop")
    options = ["--data-root", home / "laptop", "--out", home / "clean.csv"]
    assert josrc("apply", home / "folder", *options) == 0
    listed = rows(home / "clean.changes.csv")
    assert [row["path"] for row in listed.values()] == [str(home / "laptop" / "rose" / "0.png")]


@pytest.mark.parametrize("name", TOLD)
def test_a_run_does_not_go_on_with_other_data(
    name: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = home / name
    (run / "summary.json").unlink()  # as if it had been stopped before its end
    assert josrc("resume", run, "--quiet") == 0
    (run / "summary.json").unlink()
    change(home)
    assert josrc("resume", run) == 2
    error = capsys.readouterr().err
    assert TOLD[name] in error
    assert "can only be resumed with the original images and labels" in error
    shutil.move(home / "data", home / "elsewhere")
    assert josrc("resume", run) == 2
    assert "does not exist. If it has moved, use --data-root NEW" in capsys.readouterr().err


def test_a_run_does_not_go_on_with_other_labels(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, manifest = home / "manifest", home / "data" / "all.csv"
    (run / "summary.json").unlink()
    text = manifest.read_text()
    manifest.write_text(text.replace("png,tulip,tulip 19", "png,rose,tulip 19"))
    assert josrc("resume", run) == 2
    assert "1 labels of held-out images in" in capsys.readouterr().err
    manifest.write_text(text.replace(",rose,", ",zinnia,"))
    assert josrc("resume", run) == 2
    assert "have changed since the training" in capsys.readouterr().err


# What --data-root names, below the folder that the data was moved to.
PLACES = {"folder": [".", ".."], "manifest": ["all.csv", "."]}


@pytest.mark.parametrize("name", PLACES)
def test_data_that_has_moved_is_found_again(
    name: str,
    home: Path,
    serving: Callable[..., tuple[object, str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    run, new = home / name, home / "laptop" / "data"
    accuse(run)
    shutil.move(home / "data", new)
    for number, place in enumerate(PLACES[name]):
        root = ["--data-root", new / place]
        assert josrc("report", run, *root) == 0
        assert all(pictures(run))
        out = home / f"clean-{number}.csv"
        assert josrc("apply", run, *root, "--out", out) == 0
        assert all((home / row["path"]).is_file() for row in rows(out).values())
        assert josrc("train", out, *FAST, "--out", home / f"again-{number}") == 0
        assert josrc("apply", run, *root, "--copy", "--out", home / f"copies-{number}") == 0
        original = ["--copy", new] if name == "folder" else [new / "all.csv"]
        assert josrc("apply", run, *root, "--overwrite", "--out", *reversed(original)) == 2
        assert "Since the training" not in capsys.readouterr().out
    assert josrc("audit", run, *root, "--noise-rate", "0.5") == 0
    judged = rows(run / "audit" / "verdicts.csv").values()
    assert all(Path(row["path"]).is_file() for row in judged)
    assert all(pictures(run))
    assert serving(run, *map(str, root))[1].startswith("http://")
    (run / "summary.json").unlink()
    assert josrc("resume", run, "--quiet", *root) == 0
    assert all(pictures(run))


@pytest.mark.parametrize("name", PLACES)
def test_images_that_are_not_there_are_told_and_nothing_is_written(
    name: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = home / name
    accuse(run)
    report = run / "audit" / "report.html"
    before, verdicts = report.read_bytes(), (run / "audit" / "verdicts.csv").read_bytes()
    shutil.move(home / "data", home / "laptop")
    (home / "empty").mkdir()
    for arguments in ([], ["--data-root", home / "empty"], ["--data-root", home / "nowhere"]):
        for command in (["report"], ["review"], ["apply", "--out", home / "clean.csv"]):
            assert josrc(command[0], run, *command[1:], *arguments) == 2
            assert "--data-root" in capsys.readouterr().err
    assert not (home / "clean.csv").exists()
    assert report.read_bytes() == before
    if name == "folder":  # the ledger is enough, where no image was held out
        assert josrc("audit", run, "--noise-rate", "0.5") == 0
        assert "is unchanged. If the images have moved: " in capsys.readouterr().out
    else:
        assert josrc("audit", run) == 2
        assert "None of the 36 images" in capsys.readouterr().err
    assert report.read_bytes() == before
    assert (run / "audit" / "verdicts.csv").read_bytes() == verdicts


def test_a_manifest_whose_paths_were_written_anew_is_matched_by_ids(home: Path) -> None:
    run, out = home / "manifest", home / "clean.csv"
    lines = (home / "data" / "all.csv").read_text().splitlines()
    shutil.move(home / "data", home / "images")
    written = [line if line.startswith("path") else f"images/{line}" for line in lines]
    (home / "mine.csv").write_text("\n".join(written))
    assert josrc("apply", run, "--data-root", home / "mine.csv", "--out", out) == 0
    assert all((home / row["path"]).is_file() for row in rows(out).values())


def test_own_images_say_by_themselves_where_they_are(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["train", home / "data"], ["eval", home / "folder", home / "data"]):
        assert josrc(*command, "--data-root", home) == 2
        assert "is a path already" in capsys.readouterr().err


def test_images_in_memory_are_nowhere_whatever_is_said() -> None:
    pair = (np.zeros((4, 8, 8), dtype=np.uint8), ["cat", "dog", "cat", "dog"])
    config, source = plan(pair, data_root="elsewhere")
    assert config.data.path is None
    assert source is not None
    assert source.name == "arrays"
