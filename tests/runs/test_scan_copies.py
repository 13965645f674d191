"""Copies and groups among the images of a scan, and labels that come without any image."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from PIL import Image

import josrc
from commands import josrc as command
from josrc.data import duplicates
from josrc.data.near.pairs import NO_PAIRS
from josrc.errors import UserError
from josrc.verdicts.features import label_probabilities
from josrc.verdicts.groups import joined_groups, without_others
from josrc.verdicts.neighbours import nearest_neighbours, neighbours_apart, vote


def read(run: josrc.Run) -> list[dict[str, str]]:
    with (run.path / "audit" / "duplicates.csv").open() as file:
        return list(csv.DictReader(file))


def test_near_copies_are_found_by_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    small = random.integers(0, 256, (40, 8, 8, 3), dtype=np.uint8)
    tiles = [Image.fromarray(s).resize((64, 64), Image.Resampling.BICUBIC) for s in small]
    tiles[7] = tiles[3].crop((4, 4, 60, 60)).resize((64, 64), Image.Resampling.BICUBIC)
    images, labels = np.stack([np.asarray(t) for t in tiles]), np.arange(40) % 2
    features = random.normal(size=(40, 16))
    features[7] = features[3] + 0.01
    given: dict[str, Any] = {"features": features, "quiet": True}
    monkeypatch.setattr(duplicates, "find_near_pairs", lambda *given: NO_PAIRS)  # by sketches
    found = read(josrc.scan((images, labels), out=tmp_path / "run", **given))
    assert [(line["row"], line["kind"]) for line in found] == [("3", "near"), ("7", "near")]
    assert all(line["verdict"] for line in found)


def test_labels_alone_are_no_copies_of_each_other(tmp_path: Path) -> None:
    random, labels = np.random.default_rng(0), np.arange(60) % 3
    features = random.normal(size=(60, 8)) + 5 * np.eye(8)[labels]
    run = josrc.scan(labels, features=features, out=tmp_path / "run")
    assert not (run.path / "audit" / "duplicates.csv").exists()


def repeated(copies: int = 4, wrong: int = 12) -> tuple[np.ndarray, ...]:
    """Features, labels and true ones of 300 images; the last come in copies with a wrong label."""
    random, true = np.random.default_rng(0), np.arange(300) % 3
    last = slice(300 - copies * wrong, 300)
    true[last] = np.repeat(true[-wrong:], copies)
    features = random.normal(size=(300, 32)) + 6 * np.eye(32)[true]
    features[last] = np.repeat(features[last][::copies], copies, axis=0)
    given = true.copy()
    given[last] = (given[last] + 1) % 3
    return features, given, true


def share_found(verdicts: pandas.DataFrame, wrong: np.ndarray) -> float:
    """How many of the wrong labels are among as many of the most suspicious ones."""
    worst = verdicts["score"].argsort()[: wrong.sum()]
    return float(wrong[worst].mean())


def test_copies_do_not_confirm_each_other(tmp_path: Path) -> None:
    features, given, true = repeated()
    run = josrc.scan(given, features=features, out=tmp_path / "run")
    assert share_found(run.verdicts(), given != true) > 0.95


def test_images_of_a_group_do_not_confirm_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    features, given, true = repeated()
    patients = np.arange(300)
    patients[-48:] = np.repeat(np.arange(12), 4) + 1000
    features += np.random.default_rng(1).normal(0, 0.01, features.shape)  # not the very same
    np.save(tmp_path / "features.npy", features)
    table = {"path": [f"{i:03}.png" for i in range(300)], "label": [f"c{label}" for label in given]}
    pandas.DataFrame(table | {"patient": patients}).to_csv(tmp_path / "m.csv", index=False)
    for name in table["path"]:
        Image.new("RGB", (2, 2)).save(tmp_path / name)
    told = ["scan", tmp_path / "m.csv", "--features", tmp_path / "features.npy"]
    found = []
    for name, options in (("alone", []), ("together", ["--group-column", "patient"])):
        run = tmp_path / name
        assert command(*told, *options, "--out", run) == 0
        verdicts = pandas.read_csv(run / "audit" / "verdicts.csv")
        found.append(share_found(verdicts, given != true))
    assert found[0] < 0.7
    assert found[1] > 0.95
    assert command("train", tmp_path / "m.csv", "--group-column", "patient") == 2
    assert "Give --val too" in capsys.readouterr().err
    assert command("audit", run) == 0  # knows the groups still
    again = pandas.read_csv(run / "audit" / "verdicts.csv")
    assert share_found(again, given != true) > 0.95


@pytest.mark.parametrize("count", [2, 18])
def test_labels_that_nothing_speaks_for_can_not_be_judged(count: int, tmp_path: Path) -> None:
    rows = np.eye(18)[:count] if count == 2 else np.ones((count, 4))  # a class each, or copies
    with pytest.raises(UserError, match="There is nothing to judge labels by"):
        josrc.scan((["a", "b"] * 9)[:count], features=rows, out=tmp_path / "run")


def test_a_label_that_no_other_image_has_is_neither_accused_nor_believed(tmp_path: Path) -> None:
    features, given, _ = repeated()
    labels = np.where(np.arange(300) == 7, 3, given)
    verdicts = josrc.scan(labels, features=features, out=tmp_path / "run").verdicts()
    assert verdicts["verdict"].iloc[7] == "clean"
    assert verdicts["confidence"].iloc[7] == 0


@pytest.mark.parametrize("exact", [True, False])
def test_neighbours_of_other_groups_take_the_place_of_those_of_the_own(
    exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("josrc.verdicts.neighbours.MAX_EXACT", 100 if exact else 10)
    monkeypatch.setattr("josrc.verdicts.neighbours.CELL_SIZE", 30)
    random = np.random.default_rng(0)
    groups = np.concatenate([np.zeros(50, dtype=np.int64), np.arange(1, 41)])
    features = random.normal(size=(90, 5)).astype(np.float32)
    features[groups == 0] *= 0.1
    features[groups == 0, 0] += 5
    near = neighbours_apart(nearest_neighbours(features, 45), features, groups)
    assert (np.isfinite(near.similarity) <= (groups[near.index] != groups[:, None])).all()
    # Of the large group 40 images are left, all the others; the rest has its 45.
    assert np.isfinite(near.similarity).sum(axis=1).tolist() == [40] * 50 + [45] * 40
    said = vote(near, np.where(groups == 0, 0, 1), 2)
    assert (said[groups == 0, 1] > 0.9).all()


def test_groups_lie_in_one_fold_and_join_where_they_meet() -> None:
    assert joined_groups(3, [np.array([-1, -1, 2]), None]).tolist() == [0, 1, 2]
    joined = joined_groups(6, [np.array([0, 0, -1, -1, 4, 5]), np.array([9, 8, 8, -1, -1, -1])])
    assert [len(set(joined[rows])) for rows in ([0, 1, 2], [2, 3, 4, 5])] == [1, 4]
    assert without_others(joined, np.array([0, 0, 0, 1, 1, 2])).tolist() == [1, 1, 1, 0, 0, 1]
    points, labels = torch.randn(40, 3, generator=torch.Generator().manual_seed(0)), torch.arange(2)
    labels = labels.repeat(20)
    groups = torch.arange(40) // 4
    every = torch.arange(2).expand(40, -1)
    before, _ = label_probabilities(points, labels, every, 2, groups=groups)
    labels[:4] = 1 - labels[:4]
    after, _ = label_probabilities(points, labels, every, 2, groups=groups)
    assert torch.equal(before[:4], after[:4])
    assert not torch.equal(before[4:], after[4:])
