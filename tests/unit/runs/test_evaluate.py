"""``josrc eval`` against scikit-learn's measures of the lines that ``josrc predict`` writes."""

from __future__ import annotations

import csv
import json
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.metrics import accuracy_score, confusion_matrix, recall_score

import josrc as library
from commands import josrc


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_numbers_are_those_of_scikit_learn(
    finished: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Labels that are shifted for some images, so that there is something to confuse.
    names = ["one", "three", "two", "zero"]
    files = sorted(pictures.glob("*/*.png"))
    true = [
        names[(names.index(path.parent.name) + (number % 3 == 0)) % 4]
        for number, path in enumerate(files)
    ]
    lines = [f"{path},{label}" for path, label in zip(files, true, strict=True)]
    manifest = tmp_path / "odd.csv"
    manifest.write_text("path,label\n" + "\n".join(lines) + "\n/nowhere/x.png,one\n")
    out = tmp_path / "out"
    assert josrc("eval", finished, manifest, "--allow-outside", "--out", out) == 0
    results = json.loads((out / "results.json").read_text())
    said = capsys.readouterr().out
    assert f"accuracy {results['accuracy']:.2f} % on 120 images" in said
    assert "files skipped: 1." in said

    assert josrc("predict", finished, pictures, "--out", tmp_path / "p.csv") == 0
    predicted = {row["path"]: row for row in rows(tmp_path / "p.csv")}
    top = [predicted[str(path)]["predicted_label"] for path in files]
    sure = np.array([float(predicted[str(path)]["probability"]) for path in files])
    right = np.array(top) == np.array(true)
    assert results["accuracy"] == pytest.approx(100 * accuracy_score(true, top))
    assert (results["images"], results["skipped"]) == (120, 1)
    recalls = recall_score(true, top, labels=names, average=None)
    assert [results["classes"][name]["accuracy"] for name in names] == pytest.approx(100 * recalls)
    table = rows(out / "confusion.csv")
    assert [row.pop("true_label") for row in table] == names
    counts = [[int(cell) for cell in row.values()] for row in table]
    assert np.array_equal(counts, confusion_matrix(true, top, labels=names))

    edges = np.linspace(0, 1, 16)
    error = 0.0
    for low, high in pairwise(edges):
        inside = (sure >= low) & (sure < high)
        if inside.any():
            error += inside.mean() * abs(sure[inside].mean() - right[inside].mean())
    assert results["calibration_error"] == pytest.approx(100 * error, abs=0.01)
    bins = rows(out / "calibration.csv")
    assert sum(int(row["images"]) for row in bins) == 120
    assert [row["path"] for row in rows(out / "skipped.csv")] == ["/nowhere/x.png"]
    for name in ("confusion.png", "calibration.png"):
        Image.open(out / name).verify()


def test_a_data_set_by_its_name_gives_the_accuracy_of_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"method": "standard", "epochs": 2, "batch_size": 128, "device": "cpu"}
    run = library.train("digits-o", out=tmp_path / "run", **options)
    assert josrc("eval", run.path, "digits-o") == 0
    results = json.loads((run.path / "eval" / "digits-o" / "results.json").read_text())
    assert results["accuracy"] == pytest.approx(run.summary["best"])
    assert (results["weights"], results["epoch"]) == ("best", run.summary["best_epoch"])
    chosen = "These images were used to choose the epoch of the weights"
    assert chosen in capsys.readouterr().out
    assert josrc("eval", run.path, "digits-o", "--last") == 0
    assert chosen not in capsys.readouterr().out
    last = json.loads((run.path / "eval" / "digits-o-last" / "results.json").read_text())
    assert last["accuracy"] == pytest.approx(run.summary["final"])
    # What eval left in the folder does not make it somebody else's.
    again = library.train("digits-o", out=run.path, overwrite=True, **(options | {"epochs": 1}))
    assert not (again.path / "eval").exists()


def test_images_that_were_trained_on_are_no_test(
    finished: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(pictures, tmp_path / "others")
    (tmp_path / "link").symlink_to(pictures)
    for data, told in ((pictures, True), (tmp_path / "link", True), (tmp_path / "others", False)):
        assert josrc("eval", finished, data, "--out", tmp_path / "eval") == 0
        assert ("The network was trained on these images" in capsys.readouterr().out) == told


def test_test_images_are_taken_where_they_are_set_apart(
    finished: Path, pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part, label in (("train", "one"), ("test", "two"), ("test", "zero")):
        shutil.copytree(pictures / label, tmp_path / "data" / part / label)
    shutil.copytree(finished, tmp_path / "run")
    monkeypatch.chdir(tmp_path / "data" / "test")
    assert josrc("eval", tmp_path / "run", "..") == 0
    results = json.loads((tmp_path / "run" / "eval" / "data" / "results.json").read_text())
    images = {name: found["images"] for name, found in results["classes"].items()}
    two, zero = (len(list((pictures / name).iterdir())) for name in ("two", "zero"))
    assert images == {"one": 0, "three": 0, "two": two, "zero": zero}
    assert results["classes"]["one"]["accuracy"] is None


def test_a_mistake_is_one_clear_message(
    finished: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(pictures / "three", tmp_path / "other" / "threee")
    for path in ("junk/one/1.png", "junk/two/1.png"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text("junk")
    for data, message in {
        tmp_path / "other": "class 'threee', which the network does not know. Classes are matched "
        "by name. Did you mean 'three'?",
        tmp_path / "junk": "contains no readable images",
        "digits-o": "class '0' (and 7 more)",
        "digits": "Did you mean 'digits-o'?",
        "./nowhere": "./nowhere does not exist",
    }.items():
        assert josrc("eval", finished, data, "--out", tmp_path / "out") == 2
        captured = capsys.readouterr()
        assert message in captured.err
        assert "Traceback" not in captured.err
    assert not (tmp_path / "out").exists()
