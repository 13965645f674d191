"""The layout of the code is what docs/develop/architecture.md says it is."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "develop" / "architecture.md"
SOURCE = ROOT / "src" / "josrc"
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


def test_few_modules_lie_beside_the_packages() -> None:
    modules = list((ROOT / "src" / "josrc").glob("*.py"))
    assert len(modules) <= 14


def test_every_file_that_the_page_names_is_there() -> None:
    named = re.findall(r"`([a-z_/]+(?:\.py|/))`", PAGE.read_text())
    assert len(named) > 10
    missing = [name for name in named if not (ROOT / "src" / "josrc" / name).exists()]
    assert not missing


def test_files_are_opened_through_the_checked_door() -> None:
    found = {
        f"{path.relative_to(SOURCE).as_posix()}: {function}"
        for path in SOURCE.rglob("*.py")
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


@pytest.mark.slow
def test_the_walk_of_the_page_is_the_one_that_an_image_takes() -> None:
    command = [sys.executable, str(ROOT / "tools" / "walk.py")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    counted = ended.stdout.splitlines()[-1].partition(": ")[2]
    assert counted in PAGE.read_text(), "the page gives the present count"
