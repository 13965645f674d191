"""bench audit: both sides on short runs of digits, what is saved, and the table."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from rich.console import Console

from josrc.bench import cleanlab as cleanlab_side
from josrc.bench.audit import plan_audits, run_audits
from josrc.bench.cleanlab import Fold
from josrc.bench.look_alikes import IMAGES_PER_CLASS
from josrc.bench.plan import AUDIT_CELLS, audit_title
from josrc.bench.render import render, show
from josrc.bench.results import load_results
from josrc.bench.tables import FOLDERS
from josrc.config import RunConfig
from josrc.data.registry import open_source
from josrc.data.source import Source
from josrc.errors import TrainingFailedError, UserError
from josrc.runs.start import configure

CELL = "audit/digits-o-symmetric-0.3"


def bench(folder: Path, epochs: int | None = 1, **changes: object) -> str:
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
    bench(folder)
    return folder


@pytest.fixture
def planned_runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[RunConfig, Source]]:
    """What would be trained, and on what; nothing is."""
    asked: list[tuple[RunConfig, Source]] = []

    def refuse(config: RunConfig, source: Source, *rest: object) -> NoReturn:
        asked.append((config, source))
        raise TrainingFailedError("not today")

    monkeypatch.setattr("josrc.bench.audit.Trainer", refuse)
    return asked


@pytest.mark.slow
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
    # cleanlab says no probabilities, no confidence and no interval; it scores outliers twice.
    ours, theirs = (set(sides[side]["measures"]) for side in ("josrc", "cleanlab"))
    own = {name for name in ours - theirs if not name.startswith("calibration_")}
    assert own == {
        *("sure_share", "sure_right", "sure_reached", "noise_rate_low", "noise_rate_high"),
        *("estimated_precision", "estimated_recall"),
    }
    assert len(ours - theirs - own) == 31
    assert theirs - ours == {"auroc_ood_of_predictions", "average_precision_ood_of_predictions"}
    assert {"accused", "f1_wrong", "first_500_right", "noise_rate_estimated"} <= ours & theirs


@pytest.mark.slow
def test_our_side_plants_errors_that_never_reach_the_truth(done: Path) -> None:
    scratch = done / "scratch" / "trial" / CELL
    ours, theirs = scratch / "josrc/augmented/seed-0", scratch / "cleanlab/augmented/seed-0"
    source = open_source(configure("digits-o", noise="symmetric", rate=0.3).data)
    with np.load(ours / "noise.npz") as labels, np.load(ours / "planted.npz") as planted:
        np.testing.assert_array_equal(labels["given"], source.given)
        np.testing.assert_array_equal(labels["kind"], source.kind)
        assert len(planted["index"]) == 144  # a tenth of 1,436
        assert (planted["label"] != source.given[planted["index"]]).all()
    assert not list(theirs.rglob("planted.npz"))
    assert source.kind is not None
    for side in ("josrc", "cleanlab"):
        file = done / "results" / "trial" / CELL / side / "augmented/seed-0.json"
        rate = json.loads(file.read_text())["measures"]["noise_rate"]
        assert rate == pytest.approx(np.mean(source.kind != 0))


def test_cleanlab_stops_early_unless_it_is_told_otherwise(
    tmp_path: Path, planned_runs: list[tuple[RunConfig, Source]]
) -> None:
    text = bench(tmp_path, epochs=None)
    assert text.count("left out. not today") == 2
    bench(tmp_path, epochs=3)
    chosen = [(config.method.name, config.epochs, config.plant) for config, _ in planned_runs]
    assert chosen == [
        ("josrc", configure("digits-o").epochs, 0.1),
        ("standard", 30, 0),
        ("josrc", 3, 0.1),
        ("standard", 3, 0),
    ]
    assert not (tmp_path / "results").exists()


def test_a_cell_is_asked_for_as_it_is_called(
    tmp_path: Path,
    planned_runs: list[tuple[RunConfig, Source]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    digits = open_source(configure("digits-o").data)
    monkeypatch.setattr("josrc.bench.audit.open_source", lambda data: digits)
    text = bench(tmp_path, data=["cifar10n"], cells=["none-0", "worst-0"], sides=["josrc"])
    assert [config.data.noise for config, _ in planned_runs] == ["none", "worst"]
    assert "josrc cifar10n clean seed 0: left out" in text
    assert "own noise" not in text


def test_both_sides_see_the_same_look_alikes(
    tmp_path: Path, planned_runs: list[tuple[RunConfig, Source]], photographs: list[str]
) -> None:
    bench(tmp_path, epochs=None, data=["look-alikes"], cells=["pairs-0.05"])
    (ours, first), (theirs, second) = planned_runs
    assert (ours.method.name, ours.epochs, ours.plant) == ("josrc", 100, 0.075)
    assert (theirs.method.name, theirs.epochs, theirs.plant) == ("standard", 30, 0)
    assert len(first) == 2000
    assert len(second) == 1600  # four of five folds
    np.testing.assert_array_equal(first.true, np.repeat(np.arange(8), IMAGES_PER_CLASS))
    assert np.mean(first.given != first.true) == pytest.approx(0.05, abs=0.015)
    assert np.mean(second.given != second.true) == pytest.approx(0.05, abs=0.015)


def test_what_is_done_is_not_done_again_and_a_fold_is_a_piece(
    done: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "2 results, 2 of them already done" in bench(done)
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


@pytest.mark.slow
def test_every_sample_is_predicted_by_a_network_that_has_not_seen_it(done: Path) -> None:
    scratch = done / "scratch" / "trial" / CELL / "cleanlab" / "augmented" / "seed-0"
    folds = [dict(np.load(scratch / f"fold-{number}.npz")) for number in range(5)]
    held = np.concatenate([fold["index"] for fold in folds])
    assert sorted(held) == list(range(1436))
    for number, fold in enumerate(folds):
        with np.load(scratch / f"fold-{number}" / "noise.npz") as labels:
            assert len(labels["given"]) == 1436 - len(fold["index"])


@pytest.mark.slow
def test_the_table_and_the_page_show_both_sides(done: Path) -> None:
    console = Console(record=True, width=250, file=io.StringIO())
    show("audit", done / "results" / "trial", console)
    text = console.export_text()
    page = render(load_results(done / "results" / "trial", FOLDERS))
    for side in ("josrc", "cleanlab"):
        file = done / "results/trial" / CELL / side / "augmented/seed-0.json"
        found: dict[str, Any] = json.loads(file.read_text())["measures"]
        row = f"| digits-o<br>Sym-30 | {side}<br>n=1 | {100 * found['noise_rate']:.1f} |"
        assert f"{row} {100 * found['accused']:.1f} |" in page
        assert f" {100 * found['auroc_wrong']:.1f} " in text


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
    with pytest.raises(UserError, match=r"pip install '.*\[compare\]'.*--sides josrc"):
        bench(tmp_path)


def test_every_cell_has_both_sides_and_a_place_of_its_own() -> None:
    keys = plan_audits(("cifar80n-o", "cifar100n-c"), (), ("josrc", "cleanlab"), 1)
    assert [key.path.as_posix() for key in keys[:2]] == [
        "audit/cifar80n-o-symmetric-0.2/josrc/augmented/seed-0.json",
        "audit/cifar80n-o-symmetric-0.2/cleanlab/augmented/seed-0.json",
    ]
    assert len(keys) == 14
    everything = plan_audits(tuple(AUDIT_CELLS), (), ("josrc", "cleanlab"), 2)
    assert len({key.path for key in everything}) == 60


def test_the_titles_of_cells_tell_what_they_are() -> None:
    titles = {data: [audit_title(cell) for cell in cells] for data, cells in AUDIT_CELLS.items()}
    assert titles["cifar100n-c"] == ["clean", "Sym-2", "Sym-5", "Sym-20", "Asym-30"]
    assert titles["cifar10n"] == ["clean", "aggregate", "random1", "worst"]
    assert titles["look-alikes"] == ["pairs-5", "pairs-10"]
