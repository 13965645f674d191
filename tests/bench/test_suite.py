"""Running a suite, killing it, going on, and rendering what is there."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from bench_results import PutResult
from josrc._console import duration
from josrc.bench import plan
from josrc.bench import suite as suite_module
from josrc.bench.paper import CELLS
from josrc.bench.progress import SuiteProgress
from josrc.bench.provenance import commit
from josrc.bench.render import render
from josrc.bench.results import ResultKey, load_results
from josrc.bench.suite import run_suite
from josrc.bench.tables import FOLDERS
from josrc.config import RunConfig
from josrc.engine.run_folder import RunFolder
from josrc.engine.trainer import Trainer
from josrc.errors import InterruptedRunError, TrainingFailedError, UserError
from josrc.runs import start


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
    arguments |= {"suite": "table2", **changes}
    run_suite(arguments.pop("suite"), **arguments)  # type: ignore[arg-type]
    return console.export_text()


def page_of(results: Path) -> str:
    return render(load_results(results, FOLDERS))


@pytest.mark.usefixtures("small_cifar")
def test_a_suite_runs_only_what_is_missing(tmp_path: Path) -> None:
    first = run(tmp_path)
    files = sorted((tmp_path / "results" / "trial").rglob("*.json"))
    written = {file: file.read_bytes() for file in files}
    again = run(tmp_path, seeds=2)

    assert "2 runs, 0 of them already done" in first
    assert "4 runs, 2 of them already done" in again
    assert [file.name for file in files] == ["seed-0.json"] * 2
    assert all(file.read_bytes() == content for file, content in written.items())
    assert len(list((tmp_path / "results").rglob("seed-1.json"))) == 2
    lines = [line for line in first.splitlines() if " seed 0: " in line]
    assert lines[0].startswith("josrc cifar80n-o Sym-20 seed 0: ")
    assert "(run 1 of 2, about " in lines[0]
    assert lines[0].endswith("left)")
    assert lines[1].endswith("(run 2 of 2)")


@pytest.mark.usefixtures("small_cifar")
def test_processes_share_a_suite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, put_result: PutResult
) -> None:
    place = "trial/table2/cifar80n-o-symmetric-0.2/josrc/augmented/seed-0"
    file = tmp_path / "results" / f"{place}.json"
    with RunFolder(tmp_path / "runs" / place).locked():  # as another process that makes this run
        text = run(tmp_path)
    assert "josrc cifar80n-o Asym-40 seed 0: " in text
    assert "(run 1 of 1)" in text
    assert "Being made by other processes: 1 of the runs." in text
    assert not file.exists()

    # And one that the other process ends after this one has looked for what is missing.
    def configure(*arguments: object, **options: object) -> RunConfig:
        put_result(f"results/{Path(place).parent}", epochs=1, device="another's")
        return start.configure(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(suite_module, "configure", configure)
    text = run(tmp_path)
    assert "2 runs, 1 of them already done" in text
    assert json.loads(file.read_text())["device"] == "another's"


@pytest.mark.usefixtures("small_cifar")
def test_a_result_holds_the_summary_and_every_epoch(tmp_path: Path) -> None:
    run(tmp_path, cells=["symmetric-0.2"], options={"epochs": 2, "batch_size": 100})
    place = "trial/table2/cifar80n-o-symmetric-0.2/josrc/augmented/seed-0.json"
    result = json.loads((tmp_path / "results" / place).read_text())

    assert (result["method"], result["noise"], result["rate"]) == ("josrc", "symmetric", 0.2)
    assert result["metrics"]["epoch"] == [1, 2]
    assert len(result["metrics"]["test_accuracy"]) == 2
    assert result["versions"]["torch"]
    assert result["settings"]["variant"] == "full"
    assert result["configuration"]["batch_size"] == 100
    assert result["configuration"]["optimizer.decay_start"] == 1  # 80 of 200
    assert result["commit"] == commit()


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


@pytest.mark.slow
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
    run(tmp_path, options=options | {"engine": "eager"})  # how it is computed is not what it is

    assert calls[5] == 1, "the second cell goes on after its first epoch"
    for file in (whole / "results").rglob("*.json"):
        expected = json.loads(file.read_text())["metrics"]
        place = tmp_path / "results" / file.relative_to(whole / "results")
        found = json.loads(place.read_text())["metrics"]
        del expected["seconds"], found["seconds"]
        assert found == expected


def test_no_run_begins_that_would_not_end_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, made = [1000.0], []

    def takes_a_minute(work: suite_module.SuiteWork, key: ResultKey, config: RunConfig) -> None:
        made.append(key.cell.key)
        work.progress.started(epochs=1, done=0)
        now[0] += 60
        work.progress.epoch_ended({"epoch": 1})
        work.progress.run_ended()

    monkeypatch.setattr("josrc.bench.progress.time.monotonic", lambda: now[0])
    monkeypatch.setattr(suite_module.SuiteWork, "run", takes_a_minute)
    assert "Stopped after 60 s: 3 runs left." in run(tmp_path, cells=None, minutes=1.9)
    assert made == ["symmetric-0.2"]
    assert "Stopped after 2 min: 2 runs left." in run(tmp_path, cells=None, minutes=2.1)


def test_only_a_result_counts_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, put_result: PutResult
) -> None:
    asked = Asked(monkeypatch)
    broken, other = (
        f"results/trial/table2/cifar80n-o-{cell}/josrc/augmented"
        for cell in ("symmetric-0.2", "asymmetric-0.4")
    )
    put_result(broken).write_text("{ not json")
    put_result(other, epochs=2)
    log = run(tmp_path)
    assert "2 runs, 0 of them already done" in log
    assert f"Left out: {tmp_path / broken / 'seed-0.json'} is not a result" in log
    assert [asked["noise"] for asked in asked.runs] == ["asymmetric"], "a trial of another length"
    assert "2 runs, 1 of them already done" in run(tmp_path, options={"epochs": 2})


@pytest.mark.usefixtures("small_cifar")
def test_a_trial_never_passes_for_the_papers_run(tmp_path: Path) -> None:
    run(tmp_path, cells=["symmetric-0.2"])
    assert "1 runs, 0 of them already done" in run(
        tmp_path, cells=["symmetric-0.2"], options={"device": "cpu"}, minutes=-1.0
    )
    assert "not run<br>paper 65.83 ± 0.13 |" in page_of(tmp_path / "results")
    assert "(n=1)" not in page_of(tmp_path / "results")


@pytest.mark.slow
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
    run(tmp_path, cells=["symmetric-0.2"], options=options)
    assert begun == [0, 0, 1]

    # Nor is one whose folder an older version left, or a full disk.
    (folder,) = {path.parent for path in (tmp_path / "runs").rglob("config.yaml")}
    for file in ("config.yaml", "checkpoint/state.safetensors"):
        (folder / file).write_text("gone: 1\n")
        log = run(tmp_path, cells=["symmetric-0.2"], options=options, results=tmp_path / file)
        assert f"{folder} can't be resumed and starts over" in log
    assert begun == [0, 0, 1, 0, 1, 0, 1]


@pytest.mark.usefixtures("small_cifar")
def test_a_run_that_fails_is_recorded_as_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: Trainer) -> None:
        raise TrainingFailedError("the loss became nan")

    monkeypatch.setattr(Trainer, "_train_epoch", fails)
    log = run(tmp_path, cells=["symmetric-0.2"])
    assert "failed: the loss became nan" in log
    page = page_of(tmp_path / "results" / "trial")
    # It was worth nothing from the first epoch on: what guessing reaches.
    (result,) = load_results(tmp_path / "results" / "trial", ["table2"]).runs.values()
    chance = 100 / 80
    assert (result.last10_mean, result.final, result.best) == (chance, chance, 0)
    assert f"{chance:.2f} (n=1, 1 failed)" in page
    assert f"| {chance:.2f} (failed) |" in page


@pytest.mark.usefixtures("small_cifar")
def test_the_ablation_trains_its_variants_and_leaves_table_2_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails_at_once(self: Trainer) -> None:
        raise TrainingFailedError("to save time")

    monkeypatch.setattr(Trainer, "_train_epoch", fails_at_once)
    log = run(tmp_path, suite="ablation", cells=None)
    root = tmp_path / "results/trial"
    variants = {
        path.relative_to(root).as_posix(): json.loads(path.read_text())["variant"]
        for path in root.rglob("*.json")
    }
    assert "ablation: 4 runs, 0 of them already done" in log
    assert variants == {
        "ablation/cifar80n-o-symmetric-0.2/josrc/augmented-c/seed-0.json": "c",
        "ablation/cifar80n-o-symmetric-0.2/josrc/augmented-ci/seed-0.json": "ci",
        "ablation/cifar80n-o-symmetric-0.2/josrc/augmented-cio/seed-0.json": "cio",
        "table2/cifar80n-o-symmetric-0.2/josrc/augmented/seed-0.json": "full",
    }
    again = run(tmp_path, cells=["symmetric-0.2"])
    assert "table2: 1 runs, 1 of them already done" in again


@pytest.mark.usefixtures("small_cifar")
def test_a_group_trains_each_run_on_the_data_of_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = {}

    def note(self: Trainer) -> None:
        place = self.folder.path.relative_to(tmp_path / "runs/trial").as_posix()
        assert self.source.true is not None
        wrong = float(np.mean(self.source.given != self.source.true))
        trained[place] = self.source.name, self.source.closed, len(self.source.given), wrong
        raise TrainingFailedError("to save time")

    monkeypatch.setattr(Trainer, "_train_epoch", note)
    run(tmp_path, suite="ours", methods=["posterior"], cells=None)
    expected = {
        f"ours/{data}-{cell.key}/posterior/{recipe}/seed-0": (data, closed, 200)
        for data, closed in (("cifar100n-c", 100), ("cifar80n-o", 80))
        for cell in CELLS
        for recipe in ("augmented", "short")
    }
    assert {place: found[:3] for place, found in trained.items()} == expected
    for place, (*_, closed, _, wrong) in trained.items():
        rate = float(place.split("/")[1].rsplit("-", 1)[1])
        foreign = 1 - closed / 100  # whatever they are given is wrong
        assert wrong == pytest.approx(foreign + (1 - foreign) * rate, abs=0.1), place


class Asked:
    """Stands in for configuring and training: notes what is asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runs: list[dict[str, object]] = []
        monkeypatch.setattr(
            suite_module, "configure", lambda data, **asked: {"data": data, **asked}
        )
        monkeypatch.setattr(
            suite_module.SuiteWork, "run", lambda work, key, asked: self.note(asked)
        )

    def note(self, asked: dict[str, object]) -> None:
        self.runs.append(asked)


def test_the_plain_recipe_is_asked_for_with_block_noise_in_the_asymmetric_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked(monkeypatch)
    run(tmp_path, suite="table1", methods=["standard"], recipe="plain", options={})
    symmetric, asymmetric = asked.runs
    assert (symmetric["recipe"], symmetric["noise"], symmetric["rate"]) == (
        "plain",
        "symmetric",
        0.2,
    )
    assert (asymmetric["recipe"], asymmetric["noise"], asymmetric["rate"]) == (
        "plain",
        "block",
        0.4,
    )


def test_methods_that_josrc_lacks_are_left_out_with_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (plan, suite_module):
        monkeypatch.setattr(module, "method_names", lambda: ["josrc", "standard"])
    asked = Asked(monkeypatch)
    log = run(tmp_path, methods=None, cells=["symmetric-0.2"], options={})
    missing = "decoupling, coteaching, coteaching-plus, jocor"
    assert f"Left out, since josrc does not have them yet: {missing}." in log
    assert [asked["method"] for asked in asked.runs] == ["standard", "josrc"]


def test_a_stopped_suite_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stops(*arguments: object) -> None:
        raise InterruptedRunError(2, tmp_path, "the state is saved")

    monkeypatch.setattr(suite_module.SuiteWork, "run", stops)
    with pytest.raises(InterruptedRunError) as stop:
        run(tmp_path)
    # `josrc resume` would end the run, and leave no result.
    said = "Stopped by SIGINT; the state is saved.\nRun the same command again to continue."
    assert str(stop.value) == said


def test_a_suite_without_that_recipe_says_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="ablation has no recipe 'plain'"):
        run(tmp_path, suite="ablation", recipe="plain", cells=None)


def test_the_estimate_counts_only_work_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("josrc.bench.progress.time.monotonic", lambda: now[0])
    progress = SuiteProgress("table2", runs=3)
    progress.started(epochs=10, done=5)
    for epoch in range(6, 11):
        now[0] += 20  # 100 s for the half of a run: 200 s a run
        progress.epoch_ended({"epoch": epoch})
    assert progress.pace == pytest.approx(200)
    assert progress.run_ended() == "run 1 of 3, about 7 min left"
    assert progress.bar.tasks[0].fields["run"] == 1


def test_durations_are_read_at_a_glance() -> None:
    assert duration(42) == "42 s"
    assert duration(720) == "12 min"
    assert duration(9000) == "2.5 h"
