"""Running a suite, killing it, going on, and rendering what is there."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from josrc.bench.paper import CELLS, TABLES, Cell
from josrc.bench.render import render
from josrc.bench.suite import planned, run_suite
from josrc.engine.trainer import Trainer
from josrc.errors import TrainingFailedError, UserError

KEYS = {cell.key for cell in CELLS}


def run(tmp_path: Path, **changes: object) -> str:
    console = Console(record=True, width=200, file=io.StringIO())
    arguments: dict[str, object] = {
        "methods": ["josrc"],
        "cells": ["symmetric-0.2", "asymmetric-0.4"],
        "seeds": 1,
        "minutes": None,
        "options": {"epochs": 1, "device": "cpu", "batch_size": 100},
        "results": tmp_path / "results",
        "scratch": tmp_path / "runs",
        "console": console,
    }
    run_suite("table2", **{**arguments, **changes})  # type: ignore[arg-type]
    return console.export_text()


@pytest.mark.usefixtures("small_cifar")
def test_a_suite_runs_only_what_is_missing(tmp_path: Path) -> None:
    first = run(tmp_path)
    files = sorted((tmp_path / "results" / "trial").rglob("*.json"))
    written = {file: file.read_bytes() for file in files}
    again = run(tmp_path, seeds=2)

    assert "2 runs, 0 of them done before" in first
    assert "4 runs, 2 of them done before" in again
    assert [file.name for file in files] == ["seed-0.json"] * 2
    assert all(file.read_bytes() == content for file, content in written.items())
    assert len(list((tmp_path / "results").rglob("seed-1.json"))) == 2


@pytest.mark.usefixtures("small_cifar")
def test_a_result_holds_the_summary_and_every_epoch(tmp_path: Path) -> None:
    run(tmp_path, cells=["symmetric-0.2"], options={"epochs": 2, "batch_size": 100})
    place = "trial/table2/cifar80n-o-symmetric-0.2/josrc/augmented/seed-0.json"
    result = json.loads((tmp_path / "results" / place).read_text())

    assert (result["method"], result["noise"], result["rate"]) == ("josrc", "symmetric", 0.2)
    assert result["metrics"]["epoch"] == [1, 2]
    assert len(result["metrics"]["test_accuracy"]) == 2
    assert result["versions"]["torch"]


@pytest.mark.usefixtures("small_cifar")
def test_a_reused_trainer_gives_what_a_fresh_one_gives(tmp_path: Path) -> None:
    run(tmp_path)
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    run(fresh, cells=["asymmetric-0.4"])
    place = Path("results/trial/table2/cifar80n-o-asymmetric-0.4/josrc/augmented/seed-0.json")
    reused, alone = (json.loads((p / place).read_text())["metrics"] for p in (tmp_path, fresh))
    del reused["seconds"], alone["seconds"]
    assert reused == alone


@pytest.mark.usefixtures("small_cifar")
def test_a_killed_suite_goes_on_with_the_run_in_flight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"epochs": 3, "device": "cpu", "batch_size": 100}
    whole = tmp_path / "whole"
    whole.mkdir()
    run(whole, options=options)

    original, calls = Trainer._train_epoch, []

    def dies_in_the_fifth_epoch(self: Trainer) -> None:
        calls.append(self.epoch)
        if len(calls) == 5:
            raise RuntimeError("killed")
        original(self)

    monkeypatch.setattr(Trainer, "_train_epoch", dies_in_the_fifth_epoch)
    with pytest.raises(RuntimeError, match="killed"):
        run(tmp_path, options=options)
    run(tmp_path, options=options)

    assert calls[5] == 1, "the second cell goes on after its first epoch"
    for file in (whole / "results").rglob("*.json"):
        expected = json.loads(file.read_text())["metrics"]
        place = tmp_path / "results" / file.relative_to(whole / "results")
        found = json.loads(place.read_text())["metrics"]
        del expected["seconds"], found["seconds"]
        assert found == expected


@pytest.mark.usefixtures("small_cifar")
def test_no_run_begins_that_would_not_end_in_time(tmp_path: Path) -> None:
    assert "2 runs left" in run(tmp_path, minutes=-1.0)
    assert not (tmp_path / "results").exists()


@pytest.mark.usefixtures("small_cifar")
def test_a_trial_never_passes_for_the_papers_run(tmp_path: Path) -> None:
    run(tmp_path, cells=["symmetric-0.2"])
    assert "1 runs, 0 of them done before" in run(
        tmp_path, cells=["symmetric-0.2"], options={"device": "cpu"}, minutes=-1.0
    )
    assert "| not run |" in render(tmp_path / "results")
    assert "(n=1)" not in render(tmp_path / "results")


@pytest.mark.usefixtures("small_cifar")
def test_a_run_of_other_settings_is_not_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []
    original = Trainer._train_epoch

    def note(self: Trainer) -> None:
        begun.append(self.epoch)
        original(self)

    monkeypatch.setattr(Trainer, "_train_epoch", note)
    run(tmp_path, cells=["symmetric-0.2"])
    options = {"epochs": 2, "device": "cpu", "batch_size": 100}
    run(tmp_path, cells=["symmetric-0.2"], options=options, results=tmp_path / "others")
    assert begun == [0, 0, 1]


@pytest.mark.usefixtures("small_cifar")
def test_a_run_that_fails_is_recorded_as_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: Trainer) -> None:
        raise TrainingFailedError("the loss became nan")

    monkeypatch.setattr(Trainer, "_train_epoch", fails)
    log = run(tmp_path, cells=["symmetric-0.2"])
    assert "failed: the loss became nan" in log
    page = render(tmp_path / "results" / "trial")
    assert "(n=1, 1 failed)" in page


def test_seeds_go_round_by_round_so_that_every_cell_has_a_number_first() -> None:
    seeds = [key.seed for key in planned("table1", ["josrc"], None, 2)]
    assert seeds == [0] * 4 + [1] * 4


@pytest.mark.parametrize(
    ("suite", "methods", "cells", "message"),
    [
        ("table9", None, None, "Unknown suite 'table9'"),
        ("table1", ["dividemix"], None, "'dividemix' is not in table1"),
        ("table1", None, ["symmetric-0.3"], "Unknown cell 'symmetric-0.3'"),
    ],
)
def test_a_wrong_name_is_explained(
    suite: str, methods: list[str] | None, cells: list[str] | None, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        list(planned(suite, methods, cells, 1))


def result(accuracy: float, seed: int) -> dict[str, object]:
    return {
        "last10_mean": accuracy,
        "best": accuracy + 1,
        "best_epoch": 3,
        "final": accuracy,
        "seed": seed,
        "seconds_total": 100.0,
        "device": "a device",
        "versions": {"torch": "2.11"},
        "metrics": {},
    }


def test_the_rendered_table_shows_mean_spread_count_and_difference(tmp_path: Path) -> None:
    folder = tmp_path / "table2/cifar80n-o-symmetric-0.2/josrc/augmented"
    folder.mkdir(parents=True)
    for seed, accuracy in enumerate((65.0, 67.0)):
        (folder / f"seed-{seed}.json").write_text(json.dumps(result(accuracy, seed)))
    (folder / "seed-2.json").write_text("{ not json")
    (folder / "notes.txt").write_text("someone's notes")
    plain = folder.with_name("plain")
    plain.mkdir()
    (plain / "seed-0.json").write_text(json.dumps(result(40.0, 0)))

    page = render(tmp_path)

    # mean 66, sample standard deviation sqrt(2), 66 - 65.83 = 0.17
    assert "| josrc | augmented | Sym-20 | 65.83 ± 0.13 | 66.00 ± 1.41 (n=2) | +0.17 |" in page
    assert "| josrc | plain | Sym-20 | 65.83 ± 0.13 | 40.00 (n=1) | -25.83 |" in page
    assert "| josrc | augmented | Sym-50 | 58.51 ± 0.08 | not run |  |" in page
    assert "seed-2.json: not a result" in page
    assert "notes.txt: not a result" in page


def test_every_published_number_has_its_cell() -> None:
    assert {"symmetric-0.2", "symmetric-0.5", "symmetric-0.8", "asymmetric-0.4"} == KEYS
    for table in TABLES.values():
        assert all(len(row) == len(CELLS) for row in table.scores.values())
    assert TABLES["table2"].score("josrc", Cell("symmetric", 0.8)).mean == 29.76  # type: ignore[union-attr]
