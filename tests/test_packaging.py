"""josrc as it is installed: the wheel, what it needs, and what messages tell people to install."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path
from typing import Any

import pytest
import yaml

from josrc import __version__
from josrc.errors import install_command

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TOOLS = "dev", "all"  # extras of other extras, and of tools


def pins(name: str) -> dict[str, str]:
    """Versions by package that a file of constraints holds."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    found = (line.partition("==") for line in lines if line and not line.startswith("#"))
    return {package.lower(): version for package, _, version in found}


def lower_bounds() -> dict[str, str]:
    extras = PROJECT["optional-dependencies"]
    lines = [*PROJECT["dependencies"]]
    lines += [line for extra in extras if extra not in TOOLS for line in extras[extra]]
    found = [re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", line) for line in lines]
    assert all(found), lines
    return {match[1].lower(): match[2] for match in found if match}


def test_the_lowest_versions_are_those_that_the_project_declares() -> None:
    assert pins("constraints-lowest.txt") == lower_bounds()


def test_every_declared_library_has_a_version_that_is_installed_by_default() -> None:
    named = pins("constraints.txt")
    tried = {name for name in lower_bounds() if name not in ("torch", "torchvision", "trackio")}
    assert tried <= set(named)


def test_every_extra_is_told_and_nobody_is_told_of_another() -> None:
    extras = set(PROJECT["optional-dependencies"]) - {"dev"}
    page = (ROOT / "docs/use/quickstart.md").read_text(encoding="utf-8")
    table = page.partition("### Extras")[2].partition("\n## ")[0]
    assert extras == {*re.findall(r"`(\w+)`", "".join(re.findall(r"^\|([^|]+)", table, re.M)))} | {
        "all"
    }
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    assert set(re.findall(r"install_command\([\"'](\w+)", code)) <= extras


def test_the_docs_install_from_the_folder_while_no_index_has_the_name() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r"pip install '?josrc.*", text), page


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == __version__
    assert citation["license"] == PROJECT["license"]


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        (None, "josrc[onnx]"),
        ({"url": "file:///a%20b/josrc", "dir_info": {"editable": True}}, "'/a b/josrc[onnx]'"),
        (
            {"url": "file:///d/josrc-1.whl", "archive_info": {}},
            "josrc[onnx] @ file:///d/josrc-1.whl",
        ),
        (
            {"url": "https://h/j.git", "vcs_info": {"vcs": "git"}},
            "josrc[onnx] @ git+https://h/j.git",
        ),
    ],
)
def test_an_extra_comes_from_where_josrc_came_from(
    origin: dict[str, Any] | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return None if origin is None else json.dumps(origin)

    monkeypatch.setattr(importlib.metadata, "distribution", lambda _: Installed())
    *words, requirement = shlex.split(install_command("onnx"))
    assert words == ["pip", "install"]
    assert requirement == expected.strip("'")


def test_from_sources_alone_an_extra_comes_from_their_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    assert shlex.split(install_command("ray"))[-1] == f"{ROOT}[ray]"


@pytest.mark.slow
def test_the_wheel_installs_and_runs_in_an_environment_of_its_own(tmp_path: Path) -> None:
    """Built without a network; the libraries are those of this environment, josrc is not."""

    def run(*words: str | Path, cwd: Path = tmp_path) -> str:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        done = subprocess.run(
            words, cwd=cwd, env=environment, capture_output=True, text=True, timeout=900
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    built = tmp_path / "dist"
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", built, ROOT)
    wheel, archive = sorted(built.iterdir(), key=lambda path: path.suffix, reverse=True)
    assert wheel.name == f"josrc-{__version__}-py3-none-any.whl"
    assert archive.name == f"josrc-{__version__}.tar.gz"
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, archive)

    place = tmp_path / "environment"
    venv.create(place)
    python, command = place / "bin/python", place / "bin/josrc"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", wheel)
    packages = next(place.glob("lib/python*/site-packages"))
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    assert Path(run(python, "-c", "import josrc; print(josrc.__file__)").strip()).is_relative_to(
        place
    )
    assert run(command, "--version").strip() == f"josrc {__version__}"
    assert "digits-o" in run(command, "recipes")
    run(command, "train", "digits-o", "--epochs", "1", "--out", "RUN")
    assert (tmp_path / "RUN/audit/report.html").stat().st_size > 10_000
