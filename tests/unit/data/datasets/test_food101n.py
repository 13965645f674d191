"""Food101N, and the labels that people have checked."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from commands import josrc
from josrc.data.noise import CLEAN, ID
from josrc.data.registry import describe_data, open_source
from josrc.data.source import with_noise
from josrc.engine.metrics import Truth
from josrc.errors import UserError
from published_sets import FAST, FOODS, read_csv


def test_food101n_is_tested_on_food_101_and_knows_what_people_checked(kitchen: Path) -> None:
    source = open_source(describe_data("food101n", root=kitchen))
    assert source.class_names == FOODS
    assert source.given.tolist() == [number % 3 for number in range(30)]
    assert source.test_labels is not None
    assert source.test_labels.tolist() == [0, 1, 2, 0, 1, 2]
    assert source.verified is not None
    assert source.verified_held is not None
    # The ninth label is in both lists: what scores a method is not learned from.
    assert source.verified.tolist() == [1, 0, *[1] * 6, *[-1] * 22]
    assert source.verified_held.tolist() == [-1] * 8 + [0, 1, 0, 1] + [-1] * 18


def test_the_two_folders_may_lie_anywhere_and_the_test_list_be_json(kitchen: Path) -> None:
    food101 = kitchen / "elsewhere"
    (kitchen / "food-101").rename(food101)
    (food101 / "meta" / "test.txt").unlink()
    listed = {name: [f"{name}/{place}", f"{name}/{place + 3}"] for place, name in enumerate(FOODS)}
    (food101 / "meta" / "test.json").write_text(json.dumps(listed))
    root = kitchen / "Food-101N_release"
    source = open_source(describe_data("food101n", root=root, test=food101))
    assert source.test_labels is not None
    assert source.test_labels.tolist() == [0, 0, 1, 1, 2, 2]
    with pytest.raises(UserError, match=r"meta/test.txt: is missing"):
        open_source(describe_data("food101n", root=root))


def test_a_class_that_is_not_listed_is_named(kitchen: Path) -> None:
    with (kitchen / "Food-101N_release/meta/imagelist.tsv").open("a") as text:
        text.write("appel_pie/1.jpg\n")
    with pytest.raises(UserError, match=r"'appel_pie' is not in .*Did you mean 'apple_pie'"):
        open_source(describe_data("food101n", root=kitchen))


def test_cleannet_learns_from_checked_labels_and_is_scored_by_others(
    kitchen: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    settings = ["method.warm_up=0", "method.updates=5", "method.references=2"]
    options = [*FAST, "--method", "cleannet", "--data-root", kitchen, "--out", run]
    assert josrc("train", "food101n", *options, *settings) == 0
    (row,) = read_csv(run / "metrics.csv")
    assert float(row["fit_clean"]) in (0, 50, 100)  # two of the four held labels are right
    assert row["id_precision"] == row["fit_id"] == ""
    assert "val_chosen" not in json.loads((run / "summary.json").read_text())


def test_checked_labels_score_the_clean_selection(kitchen: Path) -> None:
    source = open_source(describe_data("food101n", root=kitchen))
    group, prediction = torch.full((30,), ID), torch.from_numpy(source.given).clone()
    group[8:11] = CLEAN  # of the held labels 0, 1, 0, 1 three are selected, one of them right
    prediction[11] += 1
    row = Truth(source, torch.device("cpu")).metrics(prediction, group)
    assert row == {
        "n_clean": 3, "n_id": 27, "n_ood": 0,
        "clean_precision": pytest.approx(100 / 3), "fit_clean": 50,
        "fit_given": pytest.approx(100 * 29 / 30),
        "top_class": 0, "top_share": pytest.approx(100 / 3),
    }  # fmt: skip


def test_other_labels_keep_of_the_checks_what_follows(kitchen: Path) -> None:
    source = open_source(describe_data("food101n", root=kitchen))
    labels = source.given.copy()
    labels[:3] = 2  # right, wrong and right before; the third stays what it was
    file = kitchen / "labels.npy"
    np.save(file, labels)
    other = with_noise(source, describe_data("food101n", root=kitchen, noise_file=file))
    assert other.verified is not None
    assert other.verified[:4].tolist() == [0, -1, 1, 1]
