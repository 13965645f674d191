"""A suite on a real Ray of two cores."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from commands import josrc
from josrc.errors import install_command

ROOT = Path(__file__).parents[2]


def suite(folder: Path, *more: str) -> str:
    asked = ["digits", "--methods=standard,coteaching", "--seeds=1", "--epochs=2", "--device=cpu"]
    where = [f"--results={folder / 'results'}", f"--scratch={folder / 'scratch'}"]
    ended = subprocess.run(
        [sys.executable, "-m", "josrc", "bench", "run", *asked, *where, *more],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


def results(folder: Path) -> dict[str, list[float]]:
    files = sorted((folder / "results" / "trial").rglob("seed-*.json"))
    return {
        str(path.relative_to(folder)): json.loads(path.read_text())["metrics"]["loss"]
        for path in files
    }


@pytest.mark.slow
def test_ray_makes_the_results_of_one_process(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    output = suite(tmp_path / "ray", "--engine=ray")
    assert "(2 of 2)" in output
    suite(tmp_path / "alone")
    found = results(tmp_path / "ray")
    assert len(found) == 2
    assert found == results(tmp_path / "alone")
    assert "2 runs, 2 of them already done" in suite(tmp_path / "ray", "--engine=ray")


def test_options_that_do_not_go_with_ray_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert josrc("bench", "run", "digits", "--engine=ray", "--minutes=5") == 2
    assert "leave it out with --engine ray" in capsys.readouterr().err
    assert josrc("bench", "run", "digits", "--address=auto") == 2
    assert "add --engine ray" in capsys.readouterr().err
    assert josrc("bench", "run", "digits", "--engine=rays") == 2
    assert "engine='rays' is not valid" in capsys.readouterr().err


def test_without_ray_the_extra_of_a_suite_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert josrc("bench", "run", "digits", "--engine=ray") == 2
    assert install_command("ray") in capsys.readouterr().err
