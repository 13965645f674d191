"""The layout of the code is what docs/develop/architecture.md says it is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "develop" / "architecture.md"


def test_few_modules_lie_beside_the_packages() -> None:
    modules = list((ROOT / "src" / "josrc").glob("*.py"))
    assert len(modules) <= 14


def test_every_file_that_the_page_names_is_there() -> None:
    named = re.findall(r"`([a-z_/]+(?:\.py|/))`", PAGE.read_text())
    assert len(named) > 10
    missing = [name for name in named if not (ROOT / "src" / "josrc" / name).exists()]
    assert not missing


@pytest.mark.slow
def test_the_walk_of_the_page_is_the_one_that_an_image_takes() -> None:
    command = [sys.executable, str(ROOT / "tools" / "walk.py")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    counted = ended.stdout.splitlines()[-1].partition(": ")[2]
    assert counted in PAGE.read_text(), "the page gives the present count"
