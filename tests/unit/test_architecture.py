"""The layout of the code is what docs/develop/architecture.md says it is."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "develop" / "architecture.md"
SOURCES, UNIT = ROOT / "src" / "josrc", ROOT / "tests" / "unit"

# Modules without a test file of their name, by what tests them. The lists can only get shorter: a
# new module needs a test file, and one that gets a file has to leave its list.
TESTED_ELSEWHERE = {
    "the public face and the entry, by test_public and all flows": "__init__ __main__",
    "the frame of a room, by its other tests": """
        data/readers/__init__ data/readers/_extras data/readers/table kernels/__init__
        models/__init__ engine/listeners/base""",
    "flows through the commands that use them, from start to end": """
        runs/data runs/inject runs/intro runs/plots runs/run runs/start engine/device
        engine/run_schemas data/images data/readers/arrays data/readers/coco
        data/readers/label_studio data/readers/other_columns review/formats/rows""",
    "tests that start processes, Ray, or a tracker": """
        engine/cluster engine/parallel runs/shards engine/listeners/mlflow
        engine/listeners/wandb""",
    "test_batch_norm, against the layers that they replace": """
        kernels/ops kernels/patches kernels/tensors models/hardware""",
    "a neighbour that alone uses them": """
        bench/truth data/features models/ensemble verdicts/curves verdicts/evidence
        verdicts/rising_chance verdicts/report/copies verdicts/report/decisions""",
}


def test_few_modules_lie_beside_the_packages() -> None:
    modules = list((ROOT / "src" / "josrc").glob("*.py"))
    assert len(modules) <= 14


def test_every_file_that_the_page_names_is_there() -> None:
    named = re.findall(r"`([a-z_/]+(?:\.py|/))`", PAGE.read_text())
    assert len(named) > 10
    missing = [name for name in named if not (ROOT / "src" / "josrc" / name).exists()]
    assert not missing


def has_behaviour(module: Path) -> bool:
    return any(
        isinstance(node, ast.FunctionDef) for node in ast.walk(ast.parse(module.read_text()))
    )


def test_every_module_has_a_test_file_of_its_name() -> None:
    lacking = set()
    for module in SOURCES.rglob("*.py"):
        place = module.relative_to(SOURCES).with_suffix("")
        name = place.parent.name if place.name == "__init__" else place.name.lstrip("_")
        # the command line is tested by tests/flows
        if place.parts[0] == "cli" or not has_behaviour(module):
            continue
        if not (UNIT / place.parent / f"test_{name}.py").exists():
            lacking.add(place.as_posix())
    listed = {name for names in TESTED_ELSEWHERE.values() for name in names.split()}
    assert not lacking - listed, "give these a test file of their name"
    assert not listed - lacking, "these have one, or are gone: take them off the list"


@pytest.mark.slow
def test_the_walk_of_the_page_is_the_one_that_an_image_takes() -> None:
    command = [sys.executable, str(ROOT / "tools" / "walk.py")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    counted = ended.stdout.splitlines()[-1].partition(": ")[2]
    assert counted in PAGE.read_text(), "the page gives the present count"
