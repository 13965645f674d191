"""Scans on a real Ray of two cores: the verdicts of one process, whatever is killed meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
from PIL import Image

from commands import josrc

ROOT = Path(__file__).parents[3]
CLASSES, IMAGES, SHARD = 3, 600, 128
SHARDS = -(-IMAGES // SHARD)
# What a scan leaves, but for times: the same to the last byte.
SAME = [
    "audit/verdicts.csv",
    "audit/summary.json",
    "audit/duplicates.csv",
    "features.safetensors",
    "skipped.csv",
]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Class folders of coloured clouds; every tenth is in the wrong one, and two are damaged."""
    folder, draw = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for number in range(IMAGES):
        kind = number % CLASSES
        small = draw.integers(0, 160, (6, 6, 3))
        small[..., kind] += 90
        label = (kind + 1) % CLASSES if number % 10 == 0 else kind
        path = folder / f"class-{label}" / f"{number:03}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(small.astype(np.uint8)).resize((48, 48)).save(path)
    for number in (100, 401):
        (path,) = folder.glob(f"*/{number}.png")
        path.write_bytes(b"this is no picture")
    return folder


class Scan:
    """A scan on Ray in a process of its own, with all that it starts."""

    def __init__(self, pictures: Path, out: Path) -> None:
        self.out = out
        self.process = subprocess.Popen(
            [
                sys.executable, "-m", "josrc", "scan", pictures, "--out", out, "--image-size=64",
                "--engine=ray", "--cpus=2", f"--shard-size={SHARD}",
            ],
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )  # fmt: skip

    def end(self) -> str:
        output = self.process.communicate(timeout=900)[0]
        assert self.process.returncode == 0, output
        return output

    def shards(self) -> dict[Path, int]:
        """Those that are there, and when they were written."""
        return {path: path.stat().st_mtime_ns for path in self.out.glob("shards/*.parquet")}

    def wait_for_shards(self, count: int) -> dict[Path, int]:
        while len(found := self.shards()) < count:
            assert self.process.poll() is None, self.process.communicate()[0]
            time.sleep(0.02)
        return found

    def processes(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def worker(self) -> psutil.Process:
        """One that makes a shard just now."""
        while True:
            for process in self.processes():
                if process.name().startswith("ray::make_shard"):
                    return process
            assert self.process.poll() is None, self.process.communicate()[0]


@pytest.fixture
def started(pictures: Path, tmp_path: Path) -> Iterator[Callable[[], Scan]]:
    begun: list[Scan] = []

    def start() -> Scan:
        begun.append(Scan(pictures, tmp_path / "RUN"))
        return begun[-1]

    yield start
    for scan in begun:
        if scan.process.poll() is None:
            for process in [*scan.processes(), psutil.Process(scan.process.pid)]:
                process.kill()
            scan.process.communicate()


@pytest.fixture(scope="module")
def alone(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What one process leaves."""
    out = tmp_path_factory.mktemp("alone") / "RUN"
    asked = ["scan", str(pictures), "--out", str(out), "--image-size=64", "--workers=0", "--quiet"]
    assert josrc(*asked) == 0
    return content(out)


def content(out: Path) -> dict[str, bytes]:
    return {name: (out / name).read_bytes() for name in SAME}


@pytest.mark.slow
def test_after_the_kill_of_a_worker_the_verdicts_are_those_of_one_process(
    alone: dict[str, bytes], started: Callable[[], Scan]
) -> None:
    pytest.importorskip("ray")
    scan = started()
    before = scan.wait_for_shards(1)
    scan.worker().send_signal(signal.SIGKILL)
    scan.end()
    assert content(scan.out) == alone
    after = scan.shards()
    assert len(after) == SHARDS
    assert before.items() <= after.items()
    assert alone["skipped.csv"].count(b"\n") == 3  # both damaged ones are told, below the header


@pytest.mark.slow
def test_after_the_kill_of_the_driver_only_missing_shards_are_made(
    alone: dict[str, bytes], started: Callable[[], Scan]
) -> None:
    pytest.importorskip("ray")
    scan = started()
    scan.wait_for_shards(2)
    others = scan.processes()
    scan.process.kill()
    scan.process.communicate()
    _, alive = psutil.wait_procs(others, timeout=60)
    names = [process.name() for process in alive]
    for process in alive:
        process.kill()
    # Ray's agents outlive a killed driver; what makes shards must not.
    assert not [name for name in names if not name.endswith("Agent")], names
    before = scan.shards()
    assert 2 <= len(before) < SHARDS
    again = started()
    assert f"{SHARDS} shards of {SHARD} images, {len(before)} of them made before" in again.end()
    assert before.items() <= again.shards().items()
    assert len(again.shards()) == SHARDS
    assert content(again.out) == alone


def test_options_that_do_not_go_with_ray_are_told(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scan = ["scan", str(pictures), "--out", str(tmp_path / "RUN")]
    assert josrc(*scan, "--address=auto") == 2
    assert "--address needs --engine ray" in capsys.readouterr().err
    assert josrc(*scan, "--engine=ray", "--shard-size=100") == 2
    assert "a shard has 128 images, or a multiple of that" in capsys.readouterr().err
    np.save(tmp_path / "features.npy", np.zeros((IMAGES, 4)))
    given = ["--features", str(tmp_path / "features.npy"), "--engine=ray"]
    assert josrc(*scan, *given) == 2
    assert "reads no images" in capsys.readouterr().err
    assert not (tmp_path / "RUN").exists()
