"""``josrc predict``: a line an image, whatever the images are and whichever of them are broken."""

from __future__ import annotations

import csv
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.stats import entropy
from torch import Tensor

import josrc as library
from commands import josrc
from josrc.engine.checkpoint import load_tensors, save_tensors
from josrc.errors import UserError


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", errors="surrogateescape") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def mixed(pictures: Path, tmp_path: Path) -> Path:
    """Sound images in folders and folders therein, among files that give none."""
    folder = tmp_path / "mixed"
    shutil.copytree(pictures / "two", folder / "a" / "deep")
    shutil.copy(pictures / "one" / "001.png", folder / 'a, "b"\n.png')
    whole = (pictures / "one" / "001.png").read_bytes()
    (folder / "half.png").write_bytes(whole[: len(whole) // 2])
    (folder / "empty.jpg").touch()
    (folder / "notes").write_text("not a picture")
    (folder / ".hidden.png").write_bytes(whole)
    for name in ("labels.json", "Thumbs.db", "a/deep/READ.TXT", "a/deep/more.txt"):
        (folder / name).write_text("beside the pictures")
    return folder


def test_broken_files_are_listed_and_stop_nothing(
    finished: Path, mixed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "deep" / "p.csv"
    assert josrc("predict", finished, mixed, "--top-k", "9", "--out", out) == 0
    found = {row["path"]: row for row in rows(out)}
    beside = (".json", ".db", ".TXT", ".txt", "")
    files = [path for path in mixed.rglob("*") if path.is_file() and path.suffix not in beside]
    files = [path for path in files if path.name[0] != "."] + [mixed / "notes"]
    assert set(found) == set(map(str, files))
    broken = {Path(path).name: row["reason"] for path, row in found.items() if row["reason"]}
    assert broken["empty.jpg"] == "the file is empty"
    assert broken["notes"] == "not an image in a known format"
    assert broken["half.png"].startswith("damaged")
    assert len(broken) == 3
    said = capsys.readouterr().out
    assert f"{len(files) - 3} images predicted, 3 files could not be read" in said
    assert "names say that they are not pictures: 2 .txt, 1 .db, 1 .json." in said
    named = [mixed / "labels.json", next(mixed.glob("a/deep/*.png"))]
    assert josrc("predict", finished, *named, "--out", out) == 0
    assert [bool(row["reason"]) for row in rows(out)] == [True, False], "it was named itself"
    assert josrc("predict", finished, mixed, "--top-k", "9", "--out", out) == 0
    assert all(found[str(mixed / name)]["predicted_label"] == "" for name in broken)
    assert not list(out.parent.glob("*.partial"))

    predictor = library.Run.load(finished).predictor()
    sound = [path for path, row in found.items() if not row["reason"]]
    expected = predictor.probabilities(sound)
    for path, opinion in zip(sound, expected, strict=True):
        row = found[path]
        order = np.argsort(-opinion)
        names = ["predicted_label", *(f"predicted_label_{k}" for k in (2, 3, 4))]
        shares = ["probability", *(f"probability_{k}" for k in (2, 3, 4))]
        assert [row[name] for name in names] == [predictor.class_names[k] for k in order]
        assert [float(row[name]) for name in shares] == pytest.approx(opinion[order], abs=1e-5)
        doubt = entropy(opinion.astype(np.float64)) / np.log(4)
        assert float(row["ood_score"]) == pytest.approx(doubt, abs=1e-5)
    assert "predicted_label_5" not in rows(out)[0], "there are four classes"


def test_one_path_is_one_image(finished: Path, pictures: Path) -> None:
    run, path = library.Run.load(finished), next(pictures.glob("two/*.png"))
    assert run.predict(path) == run.predict(str(path)) == run.predict([path])
    assert len(run.predict(path)) == 1
    with pytest.raises(UserError, match=r"nowhere.png can't be read: the file does not exist"):
        run.predict("nowhere.png")


def test_files_of_which_none_is_an_image_are_an_error(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = tmp_path / "texts", tmp_path / "p.csv"
    folder.mkdir()
    for name in ("a.dat", "b.png"):
        (folder / name).write_text("not a picture")
    assert josrc("predict", finished, folder, "--out", out) == 2
    reasons = {Path(row["path"]).name: row["reason"] for row in rows(out)}
    assert reasons == dict.fromkeys(("a.dat", "b.png"), "not an image in a known format")
    captured = capsys.readouterr()
    assert "josrc: 0 images predicted, 2 files could not be read" in captured.err
    assert str(out) in captured.err
    assert captured.out == ""


def test_files_folders_and_manifests_in_their_order(
    finished: Path, pictures: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "photos"
    shutil.copytree(pictures / "one", folder)
    names = sorted(path.name for path in folder.iterdir())
    (folder / "list.csv").write_text("file\n" + "\n".join(names[:3]) + "\ngone.png\n")
    single = pictures / "two" / "002.png"
    out = tmp_path / "p.csv"
    assert josrc("predict", finished, single, folder / "list.csv", single, "--out", out) == 0
    listed = [str(folder / name) for name in [*names[:3], "gone.png"]]
    assert [row["path"] for row in rows(out)] == [str(single), *listed, str(single)]
    assert [row["reason"] for row in rows(out)] == ["", "", "", "", "the file does not exist", ""]


def test_worker_processes_change_nothing(finished: Path, pictures: Path, tmp_path: Path) -> None:
    for workers in ("0", "2"):
        out = tmp_path / f"{workers}.csv"
        assert josrc("predict", finished, pictures, "--workers", workers, "--out", out) == 0
    assert len(rows(tmp_path / "0.csv")) == 120
    assert (tmp_path / "0.csv").read_bytes() == (tmp_path / "2.csv").read_bytes()


def test_the_last_weights_on_request(finished: Path, pictures: Path, tmp_path: Path) -> None:
    run, image = tmp_path / "run", pictures / "one" / "001.png"
    shutil.copytree(finished, run)
    (run / "weights" / "best.safetensors").unlink()
    assert josrc("predict", run, image, "--out", tmp_path / "p.csv") == 2
    assert josrc("predict", run, image, "--last", "--out", tmp_path / "p.csv") == 0


def test_a_network_for_grey_images_takes_files(tmp_path: Path) -> None:
    options = {"method": "standard", "epochs": 1, "batch_size": 256, "device": "cpu"}
    run = library.train("digits-o", out=tmp_path / "run", **options)
    pixels = np.random.default_rng(0).integers(0, 256, (5, 8, 8), dtype=np.uint8)
    for number, image in enumerate(pixels):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
    paths = [tmp_path / f"{number}.png" for number in range(5)]
    assert josrc("predict", run.path, *paths, "--out", tmp_path / "p.csv") == 0
    expected = run.predictor().probabilities(pixels).max(axis=1)
    found = [float(row["probability"]) for row in rows(tmp_path / "p.csv")]
    assert found == pytest.approx(expected, abs=1e-5)


def emptied(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {}


def halved(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return dict(list(tensors.items())[: len(tensors) // 2])


def of_another_network(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return tensors | {"second_network.head.0.weight": torch.zeros(2)}


def of_another_shape(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    key = next(iter(tensors))
    return tensors | {key: tensors[key][:1]}


def not_a_number(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    key = max(tensors, key=lambda name: tensors[name].numel())
    tensors[key].view(-1)[7] = math.nan
    return tensors


def infinite(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    key = next(name for name in tensors if name.endswith("running_var"))
    tensors[key][0] = math.inf
    return tensors


DAMAGES = {
    emptied: "it lacks network",
    halved: "it lacks network",
    of_another_network: "it holds second_network.head.0.weight, which these networks don't have",
    of_another_shape: "has shape",
    not_a_number: "contains NaN or infinite numbers",
    infinite: "contains NaN or infinite numbers",
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_weights_that_are_not_those_of_the_run_never_answer(
    damage: Callable[[dict[str, Tensor]], dict[str, Tensor]],
    finished: Path,
    pictures: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    weights = run / "weights" / "best.safetensors"
    tensors, metadata = load_tensors(weights)
    save_tensors(weights, damage(tensors), metadata)
    for command in (
        ["predict", run, pictures, "--out", tmp_path / "p.csv"],
        ["eval", run, pictures, "--out", tmp_path / "eval"],
        ["export", run, "--format", "torch", "--out", tmp_path / "m.pt2"],
    ):
        assert josrc(*command) == 2
        said = capsys.readouterr().err
        assert f"{weights} does not contain the networks of this run: " in said
        assert DAMAGES[damage] in said
    with pytest.raises(UserError, match="does not contain the networks"):
        _ = library.Run.load(run).model
    assert not [path for path in tmp_path.iterdir() if path.name != "run"]


def test_only_earlier_predictions_are_replaced(
    finished: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture, notes = tmp_path / "one.png", tmp_path / "notes.csv"
    picture.write_bytes(next(pictures.rglob("*.png")).read_bytes())
    notes.write_text("path,what I think\n")
    before = picture.read_bytes()
    for out, message in (
        (picture, "is among the images to predict"),
        (notes, "does not contain predictions"),
    ):
        assert josrc("predict", finished, picture, "--out", out) == 2
        assert f"{out} " in (said := capsys.readouterr().err)
        assert message in said
    assert picture.read_bytes() == before
    assert notes.read_text() == "path,what I think\n"
    for _ in range(2):
        assert josrc("predict", finished, picture, "--out", tmp_path / "p.csv") == 0
    assert josrc("predict", finished, tmp_path / "p.csv", "--out", tmp_path / "p.csv") == 2


def test_a_mistake_is_one_clear_message(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "far.csv").write_text("path\n/etc/passwd\n")
    (tmp_path / "odd.csv").write_text("one,two\n1,2\n")
    for path, message in {
        "nowhere": "nowhere does not exist",
        "empty": "There are no images to predict",
        "far.csv": "--allow-outside",
        "odd.csv": "no column for the path",
    }.items():
        out = tmp_path / "p.csv"
        assert josrc("predict", finished, tmp_path / path, "--out", out) == 2
        captured = capsys.readouterr()
        assert message in captured.err
        assert "Traceback" not in captured.err
        assert not out.exists()
    assert josrc("predict", tmp_path, tmp_path) == 2
    assert "not a josrc run folder" in capsys.readouterr().err
