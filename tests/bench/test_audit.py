"""bench audit: both sides on short runs of digits, what is saved, and the table."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from josrc.bench import cleanlab as cleanlab_side
from josrc.bench.audit import planned_audits, run_audits
from josrc.bench.cleanlab import Fold, judge_with_cleanlab, predict
from josrc.bench.paper import Cell
from josrc.bench.plan import run_behind
from josrc.bench.render import render, show
from josrc.bench.results import AuditResult, ResultKey, load_results
from josrc.bench.tables import FOLDERS, measure_cell
from josrc.data.registry import open_source
from josrc.engine.state import TrainState
from josrc.errors import UserError
from josrc.runs.start import configure

CELL = "audit/digits-o-symmetric-0.3"


def bench(folder: Path, epochs: int = 1, **changes: object) -> str:
    console = Console(record=True, width=200, file=io.StringIO())
    run_audits(
        **{  # type: ignore[arg-type]
            "data": ["digits-o"],
            "cells": ["symmetric-0.3"],
            "sides": [],
            "seeds": 1,
            "options": {"epochs": epochs, "device": "cpu", "data_root": None},
            "results": folder / "results",
            "scratch": folder / "scratch",
            "console": console,
            **changes,
        }
    )
    return console.export_text()


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audit")
    with pytest.MonkeyPatch.context() as patch:
        # As if these digits were a table's, like CIFAR with the paper's noise.
        patch.setattr("josrc.bench.audit.run_behind", lambda key: replace(key, suite="digits"))
        bench(folder)
    return folder


def test_both_sides_are_measured_alike(done: Path) -> None:
    sides = {}
    for side in ("josrc", "cleanlab"):
        file = done / "results" / "trial" / CELL / side / "augmented" / "seed-0.json"
        sides[side] = json.loads(file.read_text())
        assert (sides[side]["side"], sides[side]["noise"], sides[side]["rate"]) == (
            side,
            "symmetric",
            0.3,
        )
        assert sides[side]["seconds_training"] > 0
        assert "cleanlab" in sides[side]["versions"]
        for value in sides[side]["measures"].values():
            assert value is None or 0 <= value <= 1
    # cleanlab has no confidence in its verdicts, and a second way to score outliers.
    ours, theirs = (set(sides[side]["measures"]) for side in ("josrc", "cleanlab"))
    assert ours - theirs == {"sure_share", "sure_right"}
    assert theirs - ours == {"auroc_ood_of_predictions", "average_precision_ood_of_predictions"}


def test_the_run_of_our_side_is_the_tables_run_too(done: Path) -> None:
    run = done / "results" / "trial" / "digits/digits-o-symmetric-0.3/josrc/augmented/seed-0.json"
    kept = json.loads(run.read_text())
    assert kept["settings"]["name"] == "josrc"
    assert len(kept["metrics"]["test_accuracy"]) == kept["epochs"] == 1
    # The other way round: a run that was made for the table is not made again.
    scratch = done / "scratch" / "trial" / "digits/digits-o-symmetric-0.3/josrc/augmented/seed-0"
    assert json.loads((scratch / "summary.json").read_text())["final"] == kept["final"]


@pytest.mark.parametrize(
    ("data", "cell", "suite"),
    [
        ("cifar80n-o", Cell("asymmetric", 0.4), "table2"),
        ("cifar100n-c", Cell("symmetric", 0.2), "table1"),
        ("cifar80n-o", Cell("symmetric", 0.3), None),
        ("digits-o", Cell("symmetric", 0.2), None),
    ],
)
def test_which_audits_have_a_run_in_the_tables(data: str, cell: Cell, suite: str | None) -> None:
    run = run_behind(ResultKey("audit", data, cell, "josrc", "augmented", 3))
    assert run == (suite and ResultKey(suite, data, cell, "josrc", "augmented", 3))


def test_what_is_done_is_not_done_again_and_a_fold_is_a_piece(
    done: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "2 results, 2 of them done before" in bench(done)
    # Without its result and its last fold, a side trains that fold alone.
    file = done / "results" / "trial" / CELL / "cleanlab" / "augmented" / "seed-0.json"
    before = json.loads(file.read_text())
    scratch = done / "scratch" / "trial" / CELL / "cleanlab" / "augmented" / "seed-0"
    file.unlink()
    (scratch / "fold-4.npz").unlink()
    looked = []
    look = cleanlab_side._look

    def count(*arguments: object) -> Fold:
        looked.append(arguments)
        return look(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(cleanlab_side, "_look", count)
    bench(done)
    assert len(looked) == 1
    assert json.loads(file.read_text())["measures"] == before["measures"]


def test_every_sample_is_predicted_by_a_network_that_has_not_seen_it(done: Path) -> None:
    scratch = done / "scratch" / "trial" / CELL / "cleanlab" / "augmented" / "seed-0"
    folds = [dict(np.load(scratch / f"fold-{number}.npz")) for number in range(5)]
    held = np.concatenate([fold["index"] for fold in folds])
    assert sorted(held) == list(range(1436))
    for number, fold in enumerate(folds):
        with np.load(scratch / f"fold-{number}" / "noise.npz") as labels:
            assert len(labels["given"]) == 1436 - len(fold["index"])


def test_the_table_and_the_page_show_both_sides(done: Path) -> None:
    console = Console(record=True, width=250, file=io.StringIO())
    show("audit", done / "results" / "trial", console)
    text = console.export_text()
    found = json.loads((done / "results/trial" / CELL / "josrc/augmented/seed-0.json").read_text())[
        "measures"
    ]
    assert f"{100 * found['auroc_wrong']:.2f} (n=1)" in text
    page = render(load_results(done / "results" / "trial", FOLDERS))
    assert "| label is wrong: AUROC | not run<br>cleanlab not run |" in page
    assert f"{100 * found['f1_clean']:.2f} (n=1)<br>cleanlab" in page


def test_a_side_that_calls_nothing_so_is_not_taken_for_one_that_was_not_run() -> None:
    made = {"side": "josrc", "data": "digits-o", "seed": 0, "epochs": 1, "device": "cpu"}

    def side(precision: float | None) -> list[AuditResult]:
        found = {"measures": {"precision": precision}, "seconds_training": 1, "seconds_audit": 1}
        return [AuditResult.model_validate(found | made)]

    assert measure_cell("precision", side(0.5), side(None)) == "50.00 (n=1)\ncleanlab -"
    assert measure_cell("precision", side(None), side(0.5)) == "-\ncleanlab 50.00 (n=1)"
    assert measure_cell("precision", side(0.5), []) == "50.00 (n=1)\ncleanlab not run"
    assert measure_cell("precision", side(None), side(None)) == ""


def test_features_are_what_the_last_layer_sees() -> None:
    config = configure("digits-o", method="standard")
    source = open_source(config.data)
    state = TrainState(config, source, torch.device("cpu"))
    features, probabilities = predict(state, source.images.pixels[:50])
    head = state.method.network.head
    assert features.shape == (50, head[-1].in_features)
    with torch.no_grad():
        again = head[-1](torch.from_numpy(features)).softmax(dim=1)
    np.testing.assert_allclose(probabilities, again.numpy(), rtol=1e-4)
    assert state.method.training


def test_cleanlab_judges_what_anybody_would_judge() -> None:
    generator = np.random.default_rng(0)
    true = np.arange(300) % 3
    given = np.where(np.arange(300) % 20 == 0, (true + 1) % 3, true)
    probabilities = 0.9 * np.eye(3)[true] + 0.1 / 3 + generator.uniform(0, 0.01, (300, 3))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    distance = generator.normal(1, 0.1, 300)
    distance[7] = 5
    rows = np.array_split(np.arange(300), 5)
    folds = [
        Fold(i, probabilities[i], np.exp(-distance[i]), distance[i], np.array(0), np.array(0))
        for i in rows
    ]
    judged = judge_with_cleanlab(folds, given)
    assert judged.group[7] == 2
    assert (judged.group[given != true] == 1).all()
    assert (judged.group[(given == true)] == 0).mean() > 0.98
    np.testing.assert_array_equal(judged.suggested[given != true], true[given != true])
    assert judged.ood_score.argmax() == 7


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": ["imagenet"]}, "'imagenet' is not in audit"),
        ({"cells": ["symmetric-0.9"]}, "Unknown cell 'symmetric-0.9'"),
        ({"sides": ["fastdup"]}, "Unknown side 'fastdup'"),
    ],
)
def test_unknown_names_are_explained(
    tmp_path: Path, changes: dict[str, list[str]], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        bench(tmp_path, **changes)


def test_without_cleanlab_the_way_out_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cleanlab", None)
    with pytest.raises(UserError, match=r"pip install 'josrc\[audit\]'.*--sides josrc"):
        bench(tmp_path)


def test_the_reported_cells_are_those_of_the_docs() -> None:
    keys = planned_audits(("cifar80n-o", "cifar100n-c"), (), ("josrc", "cleanlab"), 1)
    assert [key.path.as_posix() for key in keys[:2]] == [
        "audit/cifar80n-o-symmetric-0.2/josrc/augmented/seed-0.json",
        "audit/cifar80n-o-symmetric-0.2/cleanlab/augmented/seed-0.json",
    ]
    assert len(keys) == 6
