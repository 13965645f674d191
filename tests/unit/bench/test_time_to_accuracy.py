"""Accuracy against time, by real runs of the command."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from commands import josrc
from josrc.bench.paper import SYM20
from josrc.bench.time_to_accuracy import EPOCHS, Schedule, _schedules, read_times, run_times
from josrc.errors import UserError
from josrc.runs.start import configure

RUNS = ["--data", "digits-o", "--methods", "standard", "--epochs", "1", "--epochs", "3"]


def bench(results: Path, *more: str) -> int:
    scratch = results.parent / "scratch"
    return josrc("bench", "time", *RUNS, *more, "--results", results, "--scratch", scratch)


@pytest.mark.slow
def test_every_schedule_is_timed_once_and_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results"
    assert bench(results) == 0
    said = capsys.readouterr().out
    assert "2 runs, 0 of them already done" in said
    found = read_times(results)
    assert [run["epochs"] for run in found] == [1, 3]
    for run in found:
        # The command takes longer than its epochs: it starts, and writes what it found.
        assert run["seconds"] > run["seconds_of_epochs"] > 0
        assert run["command"].startswith("josrc train digits-o --noise symmetric --rate 0.2")
        assert f"--epochs {run['epochs']}" in run["command"]
    summaries = [
        json.loads(path.read_text())["final"]
        for path in sorted((tmp_path / "scratch").rglob("summary.json"))
        if path.parent.name.startswith("epochs-")
    ]
    assert [run["accuracy"] for run in found] == summaries
    rows = csv.DictReader((results / "figures" / "time.csv").read_text().splitlines())
    assert [row["method"] + row["epochs"] for row in rows] == ["standard1", "standard3"]
    assert (results / "figures" / "time.png").read_bytes().startswith(b"\x89PNG")
    before = {path: path.stat().st_mtime_ns for path in (results / "time").rglob("*.json")}
    assert bench(results) == 0
    assert "2 runs, 2 of them already done" in capsys.readouterr().out
    assert before == {path: path.stat().st_mtime_ns for path in (results / "time").rglob("*.json")}


def write(
    results: Path,
    accuracy: float,
    seconds: float,
    epochs: int,
    method: str,
    recipe: str = "augmented",
    seed: int = 0,
) -> Path:
    path = results / Schedule("cifar80n-o", SYM20, method, epochs, recipe, seed).path
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {
        "data": "cifar80n-o", "noise": "symmetric", "rate": 0.2, "method": method,
        "epochs": epochs, "seconds": seconds, "accuracy": accuracy, "device": "cpu",
        "recipe": recipe, "seed": seed,
    }  # fmt: skip
    path.write_text(json.dumps(kept))
    return path


def shown(results: Path) -> str:
    console = Console(file=io.StringIO(), record=True, width=120)
    run_times(
        data=["digits-o"],
        methods=["standard"],
        epochs=[1],
        options={},
        results=results,
        scratch=results,
        console=console,
    )
    return console.export_text()


def done(results: Path) -> None:
    """The run that ``shown`` would make, as a file without recipe and seed."""
    path = results / "time" / "digits-o-symmetric-0.2" / "standard" / "epochs-1.json"
    path.parent.mkdir(parents=True)
    kept = {"data": "digits-o", "noise": "symmetric", "rate": 0.2, "method": "standard"}
    path.write_text(
        json.dumps(kept | {"epochs": 1, "seconds": 2.0, "accuracy": 50.0, "device": "cpu"})
    )


def test_it_says_what_reaches_the_papers_accuracy_soonest(tmp_path: Path) -> None:
    done(tmp_path)
    write(tmp_path, 60.0, 20.0, 10, "josrc")
    assert "the paper's 65.83 % not reached" in shown(tmp_path)
    write(tmp_path, 66.0, 130.0, 200, "josrc")
    write(tmp_path, 65.9, 60.0, 100, "posterior")
    assert "the paper's 65.83 % reached in 60.0 s by Posterior, 100 epochs" in shown(tmp_path)


def test_seeds_count_as_their_mean_and_another_recipe_by_itself(tmp_path: Path) -> None:
    done(tmp_path)
    write(tmp_path, 60.0, 20.0, 10, "josrc")
    write(tmp_path, 62.0, 30.0, 10, "josrc", seed=1)
    write(tmp_path, 66.5, 35.0, 25, "josrc", recipe="fast")
    words = shown(tmp_path)
    assert re.search(r"Jo-SRC +│ +10 │ +2 │ +25.0 │ +61.00", words)
    assert "the paper's 65.83 % reached in 35.0 s by Jo-SRC, fast, 25 epochs" in words
    rows = list(csv.DictReader((tmp_path / "figures" / "time.csv").read_text().splitlines()))
    found = [(row["recipe"], row["epochs"], row["seed"]) for row in rows]
    assert found[:3] == [("augmented", "10", "0"), ("augmented", "10", "1"), ("fast", "25", "0")]


def test_a_recipe_is_timed_at_its_own_length_for_every_seed() -> None:
    schedules = _schedules(["cifar80n-o"], ["josrc"], (), "fast", 2)
    assert [one.path.name for one in schedules[:2]] == [
        "fast-epochs-25.json",
        "fast-epochs-25-seed-1.json",
    ]
    words = " ".join(schedules[1].command({}))
    assert words.endswith("--method josrc --epochs 25 --quiet --recipe fast --seed 1")
    kept = configure("cifar80n-o", recipe="fast", noise="symmetric", rate=0.2)
    assert kept == configure("cifar80n-o", recipe="fast", noise="symmetric", rate=0.2, epochs=25)


def test_a_file_in_the_wrong_place_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, 60.0, 20.0, 10, "josrc")
    path.rename(path.with_name("epochs-20.json"))
    with pytest.raises(UserError, match=r"epochs-20\.json is not a result"):
        read_times(tmp_path)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--data", "mnist"], "'mnist' is not timed"),
        (["--methods", "jsrc"], "jsrc"),
        (["--epochs", "0"], "one epoch or more"),
        (["--recipe", "quick"], "no recipe 'quick'"),
    ],
)
def test_mistakes_are_named_before_anything_is_trained(
    asked: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert josrc("bench", "time", *asked, "--results", tmp_path) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_longest_schedule_comes_first_so_that_it_pays_for_compiling() -> None:
    assert list(EPOCHS) == sorted(EPOCHS, reverse=True)
