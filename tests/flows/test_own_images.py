"""A person's own images through the command line, from folder to run folder."""

from __future__ import annotations

import csv
import html
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
import yaml
from PIL import Image
from sklearn.datasets import load_digits

from commands import josrc
from josrc.runs.run import Run
from josrc.runs.start import plan

FAST = ["--epochs", "2", "--device", "cpu", "--method", "standard", "--batch-size", "32"]
STREAMED = ["data.resident=false", "--workers", "2"]


def metrics(run: Path) -> list[dict[str, str]]:
    with (run / "metrics.csv").open() as file:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 digits as PNG files: 0 to 4, and one file that is none."""
    root = tmp_path_factory.mktemp("digits")
    data = load_digits(n_class=5)
    for number in range(300):
        path = root / f"digit-{data.target[number]}" / f"{number:03}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(np.round(data.images[number] * 15.9).astype(np.uint8)).save(path)
    (root / "digit-0" / "broken.png").write_bytes(b"\x89PNG")
    return root


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("--rate 0.2", "josrc audit RUN --noise-rate 0.2"),
        ("--noise symmetric --rate 0.3", "--inject symmetric:0.3"),
        ("--inject symmetric", "not of the form KIND:RATE"),
        ("--inject symmetric:2", "not of the form KIND:RATE"),
        ("--inject symetric:0.2", "Did you mean 'symmetric'?"),
    ],
)
def test_who_knows_how_many_labels_are_wrong_makes_none_wrong(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, meant: str
) -> None:
    for command in ("train", "scan"):
        assert josrc(command, digits, *words.split(), "--out", tmp_path / "run") == 2
        assert meant in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_named_data_has_its_own_words_for_noise(capsys: pytest.CaptureFixture[str]) -> None:
    assert josrc("train", "digits-o", "--inject", "symmetric:0.2") == 2
    assert "--noise symmetric --rate 0.2" in capsys.readouterr().err


def test_noise_on_purpose_tells_a_method_how_much_there_is(digits: Path, tmp_path: Path) -> None:
    run, again = tmp_path / "run", tmp_path / "again"
    short = ["--epochs", "1", "--device", "cpu", "--method", "jocor", "--quiet"]
    assert josrc("train", digits, *short, "--inject", "symmetric:0.4", "--out", run) == 0
    share = float(np.mean(np.load(run / "noise.npz")["kind"] == 1))
    assert 0.3 < share < 0.5
    assert josrc("train", digits, *short, "--noise-file", run / "noise.npz", "--out", again) == 0
    for folder in (run, again):
        method = yaml.safe_load((folder / "config.yaml").read_text())["method"]
        assert method["forget_rate"] == pytest.approx(share)


def test_a_folder_becomes_a_run(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    annotated = [path.with_suffix(".json") for path in digits.glob("digit-1/*.png")]
    for path in annotated:
        path.write_text("{}")
    assert josrc("train", digits, "--epochs", "2", "--device", "cpu", "--out", run) == 0
    said = capsys.readouterr().out
    for words in (
        "300 training images of 5 classes, no test images; it is not known which labels are wrong",
        "No errors are planted to measure the verdicts by: of fewer than 390 images a tenth",
        "Images per class: digit-",
        "Files skipped, see skipped.csv: 1.",
        f"Ignored, as their names say that they are not pictures: {len(annotated)} .json.",
        "cnn7 at 8 x 8 pixels; epochs 2; batch size 8",
        "method.smoothing 0.28",
        "The images stay in memory; training takes about",
        "No accuracy: there were no --test images.",
    ):
        assert words in said
    with (run / "skipped.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert row["path"] == str(digits / "digit-0" / "broken.png")
    assert row["reason"].startswith("damaged") or "not an image" in row["reason"]
    rows = metrics(run)
    assert [row["epoch"] for row in rows] == ["1", "2"]
    for row in rows:
        assert sum(int(row[f"n_{group}"]) for group in ("clean", "id", "ood")) == 300
        for empty in ("test_accuracy", "teacher_accuracy", "agreement", "id_precision", "fit_id"):
            assert row[empty] == ""
    summary = json.loads((run / "summary.json").read_text())
    for key in ("last10_mean", "last10_std", "best", "final"):
        assert summary[key] is None
    assert summary["best_epoch"] == 2
    assert (run / "weights" / "best.safetensors").is_file()
    assert (run / "plots" / "views.png").is_file()
    assert not (run / "plots" / "accuracy.png").exists()
    with np.load(run / "noise.npz") as labels:
        assert set(labels) == {"given", "ids"}


def test_the_configuration_of_a_run_can_be_given_back(digits: Path) -> None:
    config, _ = plan(str(digits), epochs=7, workers=0)
    again, _ = plan(str(digits), layers=[config.model_dump(mode="json")])
    assert again == config


def test_held_out_images_show_agreement_and_test_images_accuracy(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert josrc("train", digits, *FAST, "--val", "0.2", "--out", tmp_path / "val") == 0
    assert "right or wrong. No accuracy: there were no --test images" in capsys.readouterr().out
    agreement = [float(row["agreement"]) for row in metrics(tmp_path / "val")]
    summary = json.loads((tmp_path / "val" / "summary.json").read_text())
    assert summary["agreement"] == pytest.approx(agreement[-1], rel=1e-4)
    assert summary["best_epoch"] == 1 + int(np.argmax(agreement))
    assert summary["last10_mean"] is None

    arguments = ["--test", digits, "--out", tmp_path / "test"]
    assert josrc("train", digits, *FAST, *arguments, "--epochs", "4") == 0
    summary = json.loads((tmp_path / "test" / "summary.json").read_text())
    assert summary["best"] > 50, "these very images were trained on"
    assert "agreement" not in summary


def test_noise_can_be_added_and_is_then_known(digits: Path, tmp_path: Path) -> None:
    noise = ["--inject", "symmetric:0.4"]
    assert josrc("train", digits, *FAST, *noise, "--quiet", "--out", tmp_path / "run") == 0
    with np.load(tmp_path / "run" / "noise.npz") as labels:
        assert 0.3 < (labels["given"] != labels["true"]).mean() < 0.5
    assert metrics(tmp_path / "run")[-1]["fit_clean"] != ""


def test_a_backbone_of_timm_with_weights_from_a_file(digits: Path, tmp_path: Path) -> None:
    torch.manual_seed(5)
    backbone = timm.create_model("test_resnet", num_classes=7)
    torch.save(backbone.state_dict(), tmp_path / "w.pt")
    arguments = ["--model", "test_resnet", "--weights", tmp_path / "w.pt"]
    rows = [f"{path.relative_to(digits)},{path.parent.name}" for path in digits.glob("*/1*.png")]
    (digits / "some.csv").write_text("path,label\n" + "\n".join(rows))
    run = tmp_path / "run"
    assert (
        josrc("train", digits / "some.csv", *FAST, *arguments, "--epochs", "1", "--out", run) == 0
    )
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["model"]["image_size"] == 160, "timm's data config"
    assert config["model"]["train"] == "head", "something is learned already, and this is a CPU"
    assert config["optimizer"]["backbone_factor"] == 0.1
    arguments[1] = "resnet10t"
    assert josrc("train", digits / "some.csv", *FAST, *arguments, "--out", tmp_path / "no") == 2
    assert not (tmp_path / "no").exists()


@pytest.mark.slow
def test_a_stopped_run_on_files_resumes_to_the_same_end(digits: Path, tmp_path: Path) -> None:
    arguments = ["train", digits, *STREAMED, "--epochs", "3", "--device", "cpu", "--val", "0.1"]
    arguments += ["--inject", "symmetric:0.3", "--batch-size", "64"]
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    # In processes of their own: what other tests leave behind in this one may change last digits.
    command = [sys.executable, "-m", "josrc", *map(str, arguments), "--out"]
    alone = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run([*command, str(whole)], env=alone, check=True, stdout=subprocess.DEVNULL)
    with subprocess.Popen(
        [*command, str(stopped)],
        env=alone,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            if "epoch 1/3" in line:
                break
        os.killpg(running.pid, signal.SIGTERM)  # as `timeout` does; its workers must not die first
        assert "josrc resume" in running.stdout.read()
        assert running.wait() == 128 + signal.SIGTERM
    resume = [sys.executable, "-m", "josrc", "resume", str(stopped)]
    subprocess.run(resume, env=alone, check=True, stdout=subprocess.DEVNULL)
    assert metrics(stopped) == metrics(whole)


MISTAKES = {
    "no such path": (["train", "./nowhere"], "./nowhere does not exist"),
    "no such file": (["train", "images.csv"], "images.csv does not exist"),
    "one class": (["train", "one"], "one class, 'cat'"),
    "no image": (["train", "junk", "--allow-skipped"], "contains no images"),
    "recipe": (["train", "two", "--recipe", "plain"], "Recipes belong to data sets"),
    "test class": (["train", "two", "--test", "other"], "class 'emu'"),
    "forget rate": (["train", "two", "--method", "coteaching"], "method.forget_rate"),
    "share": (["train", "two", "--val", "1"], "data.val=1"),
    "model": (["train", "two", "--model", "resnet81"], "Unknown model 'resnet81'"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_clear_message(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("one/cat/1.png", "two/cat/1.png", "two/dog/2.png", "other/emu/1.png"):
        Path(path).parent.mkdir(parents=True)
        Image.new("RGB", (9, 9)).save(path)
    for path in ("junk/cat/1.png", "junk/dog/1.png"):
        Path(path).parent.mkdir(parents=True)
        Path(path).write_text("junk")
    arguments, message = MISTAKES[name]
    assert josrc(*arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert not Path("runs").exists(), "nothing is left behind"


def test_a_noise_file_for_own_images(digits: Path, tmp_path: Path) -> None:
    noise = ["--noise", "symmetric", "--rate", "0.4"]
    assert josrc("noise", digits, *noise, "--out", tmp_path / "n.npz") == 0
    arguments = ["--noise-file", tmp_path / "n.npz", "--quiet", "--epochs", "1"]
    assert josrc("train", digits, *FAST, *arguments, "--out", tmp_path / "run") == 0
    with np.load(tmp_path / "n.npz") as written, np.load(tmp_path / "run" / "noise.npz") as used:
        for name in ("given", "true", "kind"):
            assert np.array_equal(written[name], used[name])


def test_a_noise_file_replaces_nothing_but_a_noise_file(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, theirs = tmp_path / "n.npz", tmp_path / "images.npz"
    np.savez(theirs, images=np.zeros(3))
    (tmp_path / "text.npz").write_text("no archive")
    for name in (theirs, tmp_path / "text.npz"):
        before = name.read_bytes()
        assert josrc("noise", digits, "--out", name) == 2
        assert f"{name} exists and is not a noise file" in capsys.readouterr().err
        assert name.read_bytes() == before
    noisy = ["--noise", "symmetric", "--rate", "0.2"]
    for options in ([], noisy):
        assert josrc("noise", digits, *options, "--out", ours) == 0
    assert "original labels, " in capsys.readouterr().out


def test_a_noise_file_for_a_manifest_that_needs_explaining(digits: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_text("no picture")
    paths = [*sorted(digits.rglob("*.png"))[:6], tmp_path / "broken.png"]
    lines = [f"{path},{'even' if i % 2 else 'odd'}" for i, path in enumerate(paths)]
    (tmp_path / "m.csv").write_text("\n".join(["where,what", *lines]))
    columns = ["--path-column", "where", "--label-column", "what", "--allow-outside"]
    arguments = ["noise", tmp_path / "m.csv", *columns, "--out", tmp_path / "n.npz"]
    assert josrc(*arguments) == 2
    assert josrc(*arguments, "--allow-skipped") == 0
    with np.load(tmp_path / "n.npz") as written:
        assert len(written["given"]) == 6


def test_labels_are_not_given_to_other_images(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert josrc("noise", digits, "--out", tmp_path / "n.npz") == 0
    copy = tmp_path / "copy"
    shutil.copytree(digits, copy)
    (copy / "digit-0" / "000.png").rename(copy / "digit-0" / "zzz.png")
    arguments = ["--noise-file", tmp_path / "n.npz", "--out", tmp_path / "run"]
    assert josrc("train", copy, *FAST, *arguments) == 2
    assert "The images have changed since" in capsys.readouterr().err


def test_names_that_are_no_utf8_reach_verdicts_and_report(tmp_path: Path) -> None:
    root, run = tmp_path / "photos", tmp_path / "run"
    pixels = np.random.default_rng(0).integers(0, 256, (24, 16, 16, 3), dtype=np.uint8)
    name = os.fsdecode(b"$caf\xe9$")
    for number, image in enumerate(pixels):
        path = root / ("b" if number % 2 else name) / f"{name} {number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    small = ["--model", "test_resnet", "--image-size", "32", "--epochs", "1"]
    assert josrc("train", root, *FAST, *small, "--out", run) == 0
    assert b"$caf\xe9$ 0.png" in (run / "audit" / "verdicts.csv").read_bytes()
    assert set(Run.load(run).verdicts()["given_label"]) == {"b", name}
    assert "$caf?$" in (run / "audit" / "report.html").read_text(encoding="utf-8")


def test_a_run_that_ended_badly_says_so_at_its_end_and_in_its_report(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    summary = json.loads((run / "summary.json").read_text())
    (run / "summary.json").write_text(json.dumps(summary | {"fell": True}))
    assert josrc("resume", run) == 0  # it has finished: what is left is to say how
    assert josrc("report", run) == 0
    warning = "less than half of the best value was left. Suggested labels, and partly"
    assert warning in " ".join(capsys.readouterr().out.split())
    assert warning in (run / "audit" / "report.html").read_text()


def test_classes_that_may_not_have_been_learned_are_named_at_the_end_and_in_the_report(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    path = run / "audit" / "summary.json"
    audit = json.loads(path.read_text())
    names = [entry["class"] for entry in audit["classes"]]
    for entry in audit["classes"]:
        clean = {names[1]: 20, names[3]: 40}.get(entry["class"], 90)
        entry |= {"samples": 100, "clean": clean, "noise_rate": 1 - clean / 100}
    path.write_text(json.dumps(audit | {"samples": 100 * len(audit["classes"])}))
    assert josrc("resume", run) == 0
    assert josrc("report", run) == 0
    warning = (
        f"Most images labelled '{names[1]}' (80 %) and '{names[3]}' (60 %) look wrong, but only "
        "10 % of all others."
    )
    assert warning in " ".join(capsys.readouterr().out.split())
    assert warning in html.unescape((run / "audit" / "report.html").read_text())
