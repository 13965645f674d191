"""Clothing1M in small: its files, protocol and table."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest
import timm
import torch
from rich.console import Console

from commands import josrc
from josrc.bench.plan import plan_runs
from josrc.bench.suite import run_suite
from josrc.data.datasets import clothing1m
from josrc.data.registry import describe_data, open_source
from josrc.engine.trainer import Trainer
from josrc.errors import TrainingFailedError, UserError
from josrc.runs.start import configure
from published_sets import FAST, draw, read_csv, write


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Clothing1M with 56 noisy images, 14 clean ones to train on, 14 for validation, 14 for tests.

    Of the clean-train images the first seven have a noisy label too, one too high in two of them.
    """
    root = tmp_path_factory.mktemp("clothing1m")
    lists = root / "annotations"

    def keys(part: str, count: int) -> list[str]:
        found = [f"images/{number % 3}/{part},{number}.jpg" for number in range(count)]
        for number, key in enumerate(found):
            draw(root / key, number % 14)
        return found

    noisy, train, val, test = keys("n", 56), keys("t", 14), keys("v", 14), keys("e", 14)
    write(lists / "noisy_train_key_list.txt", noisy)
    write(lists / "clean_train_key_list.txt", train)
    write(lists / "clean_val_key_list.txt", val)
    write(lists / "clean_test_key_list.txt", test)
    wrong = [f"{key} {(number + (number < 2)) % 14}" for number, key in enumerate(train[:7])]
    write(lists / "noisy_label_kv.txt", [*(f"{k} {n % 14}" for n, k in enumerate(noisy)), *wrong])
    right = [f"{key} {number}" for part in (train, val, test) for number, key in enumerate(part)]
    write(lists / "clean_label_kv.txt", right)
    write(lists / "category_names_eng.txt", [f"Garment {number}" for number in range(14)])
    return root


@pytest.fixture
def broken_shop(shop: Path, tmp_path: Path) -> Path:
    """The same with the text files in the root, to be changed by a test."""
    copy = tmp_path / "copy"
    shutil.copytree(shop / "images", copy / "images")
    shutil.copytree(shop / "annotations", copy, dirs_exist_ok=True)
    return copy


def test_clothing1m_is_the_noisy_images_and_the_clean_splits(shop: Path) -> None:
    source = open_source(describe_data("clothing1m", root=shop))
    assert source.class_names == [f"Garment {number}" for number in range(14)]
    assert source.given.tolist() == [number % 14 for number in range(56)]
    assert (source.true, source.verified) == (None, None)
    assert source.ids[1] == "images/1/n,1.jpg"
    assert source.paths[1] == str(shop / "images/1/n,1.jpg")
    assert source.val is not None
    assert source.val.true is not None
    assert source.val.ids[:2] == ["images/0/v,0.jpg", "images/1/v,1.jpg"]
    assert source.val.true.tolist() == source.val.given.tolist() == list(range(14))
    assert source.test_labels is not None
    assert source.test_labels.tolist() == list(range(14))


def test_the_published_protocol_takes_peoples_labels_where_there_is_no_other(shop: Path) -> None:
    config = describe_data("clothing1m", root=shop, protocol="published")
    source = open_source(config)
    assert source.ids[56:58] == ["images/0/t,0.jpg", "images/1/t,1.jpg"]
    assert source.given[56:].tolist() == [1, 2, *range(2, 14)]
    assert source.verified is not None
    assert source.verified.tolist() == [-1] * 56 + [0, 0] + [1] * 12


def test_clothing1m_chooses_its_epoch_by_validation(
    shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    options = [*FAST, "--epochs", "3", "--method", "standard", "--data-root", shop, "--out", run]
    assert josrc("train", "clothing1m", "--recipe", "resnet18", *options) == 0
    assert "chosen by the validation images" in " ".join(capsys.readouterr().out.split())
    summary, rows = json.loads((run / "summary.json").read_text()), read_csv(run / "metrics.csv")
    chosen = max(rows, key=lambda row: float(row["agreement"]))
    assert summary["best_epoch"] == int(chosen["epoch"])
    assert summary["val_chosen"] == pytest.approx(float(chosen["test_accuracy"]), abs=1e-3)
    assert summary["test_best"] == summary["best"]
    assert summary["best"] == pytest.approx(max(float(r["test_accuracy"]) for r in rows), abs=1e-3)
    assert (summary["recipe"], summary["noise"], summary["epochs"]) == ("resnet18", "none", 3)
    assert [float(row["lr"]) for row in rows] == [0.0008, 0.0005, 0.00005]
    # Labels of the validation images are people's: there is no verdict on them.
    assert {row["path"] for row in read_csv(run / "audit" / "verdicts.csv")} == {
        str(shop / f"images/{number % 3}/n,{number}.jpg") for number in range(56)
    }
    assert josrc("audit", run) == 0
    assert len(read_csv(run / "audit" / "verdicts.csv")) == 56


def test_an_epoch_may_be_a_balanced_part_of_the_data(shop: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    options = [*FAST, "--epochs", "2", "--method", "dividemix", "--data-root", shop, "--out", run]
    assert josrc("train", "clothing1m", *options, "data.epoch_samples=28", "method.warm_up=1") == 0
    first, second = read_csv(run / "metrics.csv")
    assert int(first["n_clean"]) + int(first["n_id"]) == 28
    assert 28 <= int(second["n_clean"]) + int(second["n_id"]) <= 56


def test_clothing1m_without_its_files_says_how_to_lay_them_out(
    broken_shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (broken_shop / "clean_val_key_list.txt").unlink()
    assert josrc("train", "clothing1m", *FAST, "--data-root", broken_shop) != 0
    said = " ".join(capsys.readouterr().err.split())
    assert "clean_val_key_list.txt: is missing" in said
    assert "DIR/images/" in said
    assert "Traceback" not in said
    assert josrc("train", "clothing1m", *FAST) != 0
    assert "--data-root" in capsys.readouterr().err


FAULTS = {
    "a class that is none": ("noisy_label_kv.txt", "images/0/n,0.jpg 14", "line 64.*0 to 13"),
    "a label that is none": ("clean_label_kv.txt", "images/0/n,0.jpg shirt", "line 43.*shirt"),
    "a class too many": ("category_names_eng.txt", "Hat", "15 names, not 14"),
}


@pytest.mark.parametrize(("file", "line", "message"), FAULTS.values(), ids=FAULTS)
def test_a_faulty_line_is_named(broken_shop: Path, file: str, line: str, message: str) -> None:
    with (broken_shop / file).open("a") as text:
        text.write(f"{line}\n")
    with pytest.raises(UserError, match=message):
        open_source(describe_data("clothing1m", root=broken_shop))


def test_images_without_label_or_file_are_left_out_and_listed(
    broken_shop: Path, tmp_path: Path
) -> None:
    with (broken_shop / "noisy_train_key_list.txt").open("a") as text:
        text.write("images/0/stranger.jpg\nimages/0/n,0.jpg\nimages/1/e,1.jpg\n")
    (broken_shop / "images/2/n,2.jpg").unlink()
    run = tmp_path / "run"
    options = [*FAST, "--method", "standard", "--data-root", broken_shop, "--out", run]
    assert josrc("train", "clothing1m", *options) == 0
    skipped = {Path(row["path"]).name: row["reason"] for row in read_csv(run / "skipped.csv")}
    assert skipped.keys() == {"stranger.jpg", "n,2.jpg"}
    assert skipped["stranger.jpg"] == "it has no label"
    # An image that is listed twice counts once, and a test image is not trained on.
    names = [Path(row["path"]).name for row in read_csv(run / "audit" / "verdicts.csv")]
    assert sorted(names) == sorted(f"n,{number}.jpg" for number in range(56) if number != 2)


def test_the_doctor_counts_what_is_there_and_lists_what_is_wrong(broken_shop: Path) -> None:
    with (broken_shop / "noisy_train_key_list.txt").open("a") as text:
        text.write("images/0/stranger.jpg\nimages/0/n,0.jpg\n")
    with (broken_shop / "noisy_label_kv.txt").open("a") as text:
        text.write("images/0/n,3.jpg 14\n")
    (broken_shop / "images/2/v,2.jpg").unlink()
    (broken_shop / "clean_test_key_list.txt").unlink()
    found = list(clothing1m.findings(broken_shop))
    assert [line.text for line in found if not line.fault] == [
        "category_names_eng.txt: 14, as published"
    ]
    faults = [line.text for line in found if line.fault]
    for words in (
        "clean_test_key_list.txt: is missing",
        "noisy_train_key_list.txt: 58, but 1,000,000 are published",
        "clean_val_key_list.txt: 14, but 14,313 are published",
        "1 lines name no class: noisy_label_kv.txt line 64 'images/0/n,3.jpg 14'",
        "1 images of noisy_train_key_list.txt have no label: images/0/stranger.jpg",
        "1 lines of noisy_train_key_list.txt repeat an image: images/0/n,0.jpg",
        "1 images of noisy_train_key_list.txt are missing: images/0/stranger.jpg",
        "1 images of clean_val_key_list.txt are missing: images/2/v,2.jpg",
    ):
        assert sum(words in fault for fault in faults) == 1, words


def test_a_whole_copy_has_nothing_to_complain_of(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = dict(zip(clothing1m.LISTS, (56, 14, 14, 14), strict=True))
    monkeypatch.setattr(clothing1m, "LISTS", sizes)
    labelled = dict(zip(clothing1m.LABELLED, (63, 42), strict=True))
    monkeypatch.setattr(clothing1m, "LABELLED", labelled)
    assert all(
        line.endswith("as published")
        for line in clothing1m.check(describe_data("clothing1m", root=shop))
    )
    with pytest.raises(UserError, match="is not a folder"):
        list(clothing1m.check(describe_data("clothing1m", root=shop / "nowhere")))


def test_the_doctor_is_asked_by_name(broken_shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert josrc("doctor", "data", "clothing1m", broken_shop) != 0
    said = capsys.readouterr()
    assert "category_names_eng.txt: 14, as published" in " ".join(said.out.split())
    assert "56, but 1,000,000 are published" in " ".join(said.err.split())


def test_the_released_configurations_are_recipes_of_their_own() -> None:
    clothing = configure("clothing1m", recipe="released")
    assert (clothing.data.protocol, clothing.model.name) == ("published", "resnet18.tv_in1k")
    assert clothing.method.model_dump()["warm_up"] == 5
    assert clothing.optimizer.at(0, 15)[0] == 0.002
    food = configure("food101n", recipe="released")
    assert (food.epochs, food.batch_size, food.optimizer.weight_decay) == (50, 128, 5e-3)
    # Joint-Optim sees the whole million ten times, then trains on what the labels became.
    joint = configure("clothing1m", method="joint-optim")
    assert (joint.data.epoch_samples, joint.epochs) == (None, 20)
    assert joint.method.model_dump()["first_step"] == 10
    assert [joint.optimizer.at(epoch, 20)[0] for epoch in (0, 9, 10, 15)] == [
        8e-4, 8e-4, 5e-4, 5e-5,
    ]  # fmt: skip


def test_table_3_runs_as_soon_as_the_data_is_there(shop: Path, tmp_path: Path) -> None:
    console = Console(record=True, width=200, file=io.StringIO())
    options = {"data_root": shop, "model": "test_resnet", "pretrained": False, "image_size": 32}
    run_suite(
        "table3",
        methods=["standard", "josrc"],
        cells=None,
        seeds=1,
        minutes=None,
        options=options | {"epochs": 1, "device": "cpu", "batch_size": 16, "workers": 1},
        results=tmp_path / "results",
        scratch=tmp_path / "runs",
        console=console,
    )
    place = tmp_path / "results" / "trial" / "table3" / "clothing1m-none-0"
    files = {file.relative_to(place).as_posix() for file in place.rglob("*.json")}
    assert files == {
        "standard/resnet18/seed-0.json",
        "standard/resnet50/seed-0.json",
        "josrc/resnet18/seed-0.json",
        "josrc/resnet50/seed-0.json",
        "josrc/released/seed-0.json",
    }
    released = json.loads((place / "josrc/released/seed-0.json").read_text())
    assert released["recipe"] == "released"
    assert released["val_chosen"] is not None


def test_table_3_begins_with_files_where_there_is_no_network(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: dict[str, float] = {}

    def fails_at_once(self: Trainer) -> None:
        first = self.state.method.network.backbone.conv1.weight
        begun[self.config.model.name] = first.mean().item()
        raise TrainingFailedError("to save time")

    monkeypatch.setattr(Trainer, "_train_epoch", fails_at_once)
    files = []
    for name, value in (("resnet18", 0.25), ("resnet50", 0.5)):
        weights = timm.create_model(name).state_dict()
        weights["conv1.weight"].fill_(value)
        torch.save(weights, tmp_path / f"{name}.pt")
        files += ["--weights", f"{name}={tmp_path / name}.pt"]
    results = ["--results", tmp_path / "results", "--scratch", tmp_path / "runs"]
    options = ["--methods", "standard", "--seeds", "1", "--data-root", shop, "--device", "cpu"]
    assert josrc("bench", "run", "table3", *options, *results, *files) == 0
    assert begun == {"resnet18.tv_in1k": 0.25, "resnet50.tv_in1k": 0.5}
    place = tmp_path / "results/table3/clothing1m-none-0/standard/resnet18/seed-0.json"
    assert json.loads(place.read_text())["weights"] == "resnet18.pt"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("resnet34=FILE", "the runs train resnet18 and resnet50"),
        ("resnet18=absent.pt", "absent.pt does not exist"),
        ("absent.pt", "absent.pt does not exist"),
    ],
)
def test_weights_for_no_network_of_the_table_are_an_error_before_any_data_is_read(
    given: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert josrc("bench", "run", "table3", "--weights", given) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("suite", "options", "apart"),
    [
        ("table3", {}, False),
        ("table3", {"pretrained": False}, True),
        ("table2", {"pretrained": True}, True),
        ("table2", {"pretrained": False}, False),
    ],
)
def test_runs_that_begin_otherwise_than_the_papers_are_kept_apart(
    suite: str, options: dict[str, bool], apart: bool, tmp_path: Path
) -> None:
    # What is not a result is left out: the lines say where the suite looks.
    runs = plan_runs(suite, ["standard"], None, seeds=1)
    for key in runs:
        write(tmp_path / "results" / ("trial" if apart else "") / key.path, ["{}"])
    console = Console(record=True, width=200, file=io.StringIO())
    where = {"results": tmp_path / "results", "scratch": tmp_path / "runs", "console": console}
    few = {"methods": ["standard"], "cells": None, "seeds": 1, "minutes": -1}
    run_suite(suite, options=options, **few, **where)
    assert console.export_text().count("is not a result") == len(runs)
