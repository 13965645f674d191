"""Sweeps on a real Ray of two cores: whole, stopped early, and after kills."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

pytest.importorskip("ray")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
EPOCHS = 6
# Two at a time, and one more: most of the time goes to starting their processes.
RUNS = 3
# Seconds a sweep may take on a machine that others use, too.
PATIENCE = 900
PLAN: dict[str, Any] = {
    "data": "digits-o",
    "fixed": {
        "data": {"noise": "symmetric", "rate": 0.3},
        "method": {"name": "standard"},
        "epochs": EPOCHS,
        "device": "cpu",
        "plant": 0.05,
        "stop_on_collapse": False,
    },
    "grid": {"seed": list(range(RUNS))},
    "choices": {"batch_size": [128]},
    "ranges": {"optimizer.lr": {"low": 0.0005, "high": 0.005, "log": True}},
    "metric": "estimated_precision",
}


class Started:
    """A sweep in a process of its own, with all that it starts."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        path = folder / "plan.yaml"
        path.write_text(yaml.safe_dump({**PLAN, **changes}))
        self.out = folder / "sweep"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "josrc", "sweep", path, "--out", self.out, "--cpus=2"],
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "200"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def end(self) -> str:
        output = self.process.communicate(timeout=PATIENCE)[0]
        assert self.process.returncode == 0, output
        return output

    def wait_for(self, count: int, pattern: str) -> list[Path]:
        """Wait until so many files of the sweep match."""
        while len(found := sorted(self.out.glob(pattern))) < count:
            assert self.process.poll() is None, self.process.communicate()[0]
            time.sleep(0.05)
        return found

    def processes(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Any]:
    begun: list[Started] = []

    def start(**changes: Any) -> Started:
        begun.append(Started(tmp_path, **changes))
        return begun[-1]

    yield start
    for sweep in begun:
        if sweep.process.poll() is None:
            for process in [*sweep.processes(), psutil.Process(sweep.process.pid)]:
                process.kill()
            sweep.process.communicate()


def metrics(out: Path) -> dict[str, list[dict[str, str]]]:
    """The lines of each run's metrics, without the seconds."""
    found = {}
    for path in out.glob("runs/*/metrics.csv"):
        with path.open(newline="") as file:
            lines = list(csv.DictReader(file))
        found[path.parent.name] = [
            {k: v for k, v in line.items() if k != "seconds"} for line in lines
        ]
    return found


def table(out: Path) -> list[dict[str, str]]:
    with (out / "table.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep that nobody disturbed."""
    sweep = Started(tmp_path_factory.mktemp("whole"))
    output = sweep.end()
    assert "never by test accuracy" in output
    assert f"({RUNS} of {RUNS})" in output
    return sweep.out


def test_a_sweep_trains_every_run_and_ends_in_a_table(whole: Path, started: Any) -> None:
    lines = table(whole)
    assert [line["state"] for line in lines] == ["finished"] * RUNS
    values = [float(line["estimated_precision_last"]) for line in lines]
    assert values == sorted(values, reverse=True)
    assert all(len(rows) == EPOCHS for rows in metrics(whole).values())
    assert (whole / "parallel.png").is_file()
    for line in lines:
        assert float(line["estimated_precision"]) == float(line["estimated_precision_last"])


def test_what_is_done_is_not_done_again(whole: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in whole.glob("runs/*/*")}
    ended = subprocess.run(
        [sys.executable, "-m", "josrc", "sweep", whole / "plan.yaml", "--out", whole],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"{RUNS} runs, {RUNS} of them already done" in ended.stdout
    assert {path: path.stat().st_mtime_ns for path in whole.glob("runs/*/*")} == before


def test_a_killed_worker_goes_on_where_its_checkpoint_is(whole: Path, started: Any) -> None:
    sweep = started()
    sweep.wait_for(2, "runs/*/checkpoint/state.safetensors")
    workers = [p for p in sweep.processes() if "train" in p.name() or "ray::Impl" in p.name()]
    assert workers, [p.name() for p in sweep.processes()]
    workers[0].send_signal(signal.SIGKILL)
    sweep.end()
    assert metrics(sweep.out) == metrics(whole)
    assert [line["state"] for line in table(sweep.out)] == ["finished"] * RUNS


def test_a_killed_driver_loses_nothing_and_does_nothing_twice(whole: Path, started: Any) -> None:
    sweep = started()
    sweep.wait_for(1, "runs/*/summary.json")
    sweep.wait_for(2, "runs/*/checkpoint/state.safetensors")
    others = sweep.processes()
    sweep.process.kill()
    sweep.process.communicate()
    _, alive = psutil.wait_procs(others, timeout=60)
    names = [process.name() for process in alive]
    for process in alive:
        process.kill()
    # Ray's agents outlive a killed driver; what trains must not.
    assert not [name for name in names if not name.endswith("Agent")], names
    ended = {path.parent.name for path in sweep.out.glob("runs/*/summary.json")}
    assert 1 <= len(ended) < RUNS
    before = {name: file_times(sweep.out / "runs" / name) for name in ended}
    output = started().end()
    assert f"{RUNS} runs, {len(ended)} of them already done" in output
    assert {name: file_times(sweep.out / "runs" / name) for name in ended} == before
    assert metrics(sweep.out) == metrics(whole)
    assert [line["state"] for line in table(sweep.out)] == ["finished"] * RUNS


def file_times(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.name != ".lock"}


def test_asha_stops_runs_that_are_behind_and_they_stay_stopped(started: Any) -> None:
    plan = {
        "grid": {"optimizer.lr": [0.003, 0.00003, 0.00001]},
        "choices": {},
        "ranges": {},
        "scheduler": {"name": "asha", "grace": 2, "reduction": 2},
    }
    sweep = started(**plan)
    sweep.end()
    lines = table(sweep.out)
    states = [line["state"] for line in lines]
    assert "stopped" in states
    assert set(states) <= {"finished", "stopped"}
    assert states == sorted(states), "finished ones come first"
    rows = metrics(sweep.out)
    for line in lines:
        assert (len(rows[line["run"]]) == EPOCHS) == (line["state"] == "finished")
    assert started(**plan).end().count("3 runs, 3 of them already done") == 1
    assert metrics(sweep.out) == rows
