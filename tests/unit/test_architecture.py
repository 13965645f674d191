"""The layout of the code is what docs/develop/architecture.md says it is."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "develop" / "architecture.md"
SOURCES, UNIT = ROOT / "src" / "josrc", ROOT / "tests" / "unit"

# What opens a file for reading.
OPENERS = re.compile(
    r"(.*\.)?(open|read_text|read_bytes|read_csv|safe_open|load_file|loadtxt|memmap|copyfile)"
    r"|.*\.(ParquetFile|ZipFile|load_from_disk)|parquet\.read_table|sqlite3\.connect"
    r"|(np|numpy|torch|pickle|json|yaml)\.load"
)
WRITING = re.compile(r"[wax]b?\+?|rb?\+")
# Functions that open files past the checked door, and why they may.
PAST_THE_DOOR = {
    "_console.py: on_broken_pipe": "nothing of anybody's: os.devnull",
    "errors.py: _requirement": "of the installed package",
    "kernels/__init__.py: fingerprint": "the package's own source",
    "cli/_demo.py: write_pictures": "the package's own pictures",
    "verdicts/report/page.py: render": "the package's own page",
    "runs/resolve.py: recipe_text": "the package's own recipes",
    "models/published.py: _entries": "timm's source",
    "engine/device.py: device_name": "the system's",
    "data/datasets/digits.py: _read": "scikit-learn's own",
    "review/server.py: _open": "no file: a browser",
    "data/registry.py: open_source": "no file: a data set",
    "data/decode.py: _open": "checks as the door does, with a reason that belongs to one image",
    "data/remote.py: open_remote": "behind an address",
    "data/tars.py: _read_headers": "a file that is open",
}
# Modules without a test file of their name, by what tests them. The lists can only get shorter: a
# new module needs a test file, and one that gets a file has to leave its list.
TESTED_ELSEWHERE = {
    "the public face and the entry, by test_public and all flows": "__init__ __main__",
    "the frame of a room, by its other tests": """
        data/readers/__init__ data/readers/_extras data/readers/table kernels/__init__
        models/__init__ engine/listeners/base""",
    "flows through the commands that use them, from start to end": """
        runs/data runs/inject runs/intro runs/options runs/plots runs/run runs/start
        engine/run_schemas verdicts/scope data/images data/readers/arrays data/readers/coco
        data/readers/label_studio data/readers/other_columns review/formats/rows""",
    "tests that start processes, Ray, or a tracker": """
        engine/cluster engine/parallel engine/listeners/mlflow engine/listeners/wandb""",
    "test_batch_norm, against the layers that they replace": """
        kernels/ops kernels/patches kernels/tensors models/hardware""",
    "a neighbour that alone uses them": """
        bench/ours bench/speed_head bench/truth bench/varied data/features
        engine/listeners/background engine/listeners/clock models/ensemble runs/model_card
        verdicts/curves verdicts/evidence verdicts/groups verdicts/proportions
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


def test_files_are_opened_through_the_checked_door() -> None:
    found = {
        f"{path.relative_to(SOURCES).as_posix()}: {function}"
        for path in SOURCES.rglob("*.py")
        if path.name != "_reading.py"
        for function in opening(ast.parse(path.read_text()))
    }
    assert found == PAST_THE_DOOR.keys(), "open regular(path), or say why not"


@pytest.mark.parametrize(
    ("code", "caught"),
    [
        ("path.read_text()", True),
        ("pandas.read_csv(path)", True),
        ("np.load(path, mmap_mode='r')", True),
        ("pandas.read_csv(regular(path))", False),
        ("regular(path).open('rb')", False),
        ("path.open('wb')", False),
    ],
)
def test_an_opener_past_the_door_is_noticed(code: str, caught: bool) -> None:
    assert list(opening(ast.parse(f"def f(path):\n    {code}"))) == ["f"] * caught


def opening(node: ast.AST, function: str = "the module") -> Iterator[str]:
    """Functions that open a file whose path no ``regular(...)`` has seen."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.Call) and OPENERS.fullmatch(ast.unparse(inner.func)):
            calls = [call for call in ast.walk(inner) if isinstance(call, ast.Call)]
            modes = [one.value for one in inner.args if isinstance(one, ast.Constant)]
            checked = any(ast.unparse(call.func).startswith("regular") for call in calls)
            if not checked and not any(WRITING.fullmatch(str(mode)) for mode in modes):
                yield function
        yield from opening(inner, getattr(inner, "name", None) or function)
