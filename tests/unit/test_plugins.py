"""Methods, loggers and data sets of other packages: they need an entry point, and no fork."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import josrc as library
from commands import josrc
from reviewing import read

PACKAGE = Path(__file__).parents[1] / "support" / "plugin"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The example package as pip would leave it, in a folder of its own on the path."""
    site = Path(shutil.copytree(PACKAGE, tmp_path / "site"))
    monkeypatch.syspath_prepend(str(site))
    yield site
    for name in [name for name in sys.modules if name.partition(".")[0] == "josrc_example"]:
        del sys.modules[name]


def test_a_package_adds_a_method_a_logger_and_a_data_set(installed: Path, tmp_path: Path) -> None:
    run = library.train(
        "stripes", method="absolute-error", log=["loss-file"], epochs=2, out=tmp_path / "run"
    )
    assert run.config.method.name == "absolute-error"
    assert run.config.model.width == 0.25, "by the recipe of the data set"
    assert run.summary["data"] == "stripes"
    assert run.summary["final"] is not None
    lines = (run.path / "logs" / "loss-file" / "loss.txt").read_text().split("\n")
    losses = [float(row["loss"]) for row in read(run.path / "metrics.csv")]
    assert [float(line.split()[1]) for line in lines[:-1]] == pytest.approx(losses, rel=1e-5)
    assert len(library.Run.load(run.path).verdicts()) == 120


def test_they_are_listed_and_checked(installed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert josrc("methods") == 0
    assert "absolute-error" in capsys.readouterr().out
    assert josrc("doctor", "data", "stripes") == 0
    assert "150 images, drawn" in capsys.readouterr().out
    assert josrc("train", "stripe") == 2
    assert "Did you mean 'stripes'?" in capsys.readouterr().err


def test_a_package_that_can_not_be_imported_is_named_and_ends_nothing(
    installed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("method", "logger", "dataset"):
        (installed / "josrc_example" / f"{name}.py").write_text("import a_library_of_yesterday\n")
    for words, name in (
        (["digits-o", "--method", "absolute-error"], "absolute-error"),
        (["digits-o", "--log", "loss-file"], "loss-file"),
        (["stripes"], "stripes"),
    ):
        assert josrc("train", *words, "--epochs", 1, "--out", tmp_path / "run") == 2
        said = capsys.readouterr().err
        assert f"{name}, which the package josrc-example adds to josrc." in said
        assert "a_library_of_yesterday" in said
        assert "Traceback" not in said
    assert josrc("methods") == 0
    listed = " ".join(capsys.readouterr().out.split())
    assert "can't be loaded" in listed
    assert "coteaching" in listed


def test_an_entry_point_of_something_else_is_refused(
    installed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    points = installed / "josrc_example-1.0.dist-info" / "entry_points.txt"
    text = points.read_text().replace("method:AbsoluteError", "method:describe")
    points.write_text(text.replace("josrc_example.dataset", "josrc_example.logger"))
    assert josrc("train", "digits-o", "--method", "absolute-error") == 2
    assert "which is not a Method" in capsys.readouterr().err
    assert josrc("train", "stripes") == 2
    assert "has no function open_source" in capsys.readouterr().err
