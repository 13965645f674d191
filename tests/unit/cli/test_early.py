"""Mistakes that are answered before torch is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from commands import josrc
from josrc.engine.lock import locked

# The run that is in use; its name has a blank, as names of folders may.
NAME = "a run"


@pytest.mark.parametrize(
    "words",
    [
        "train digits-o --noise symmetric --rate 0.2 --out",
        "scan digits-o --out",
        *("resume", "audit", "predict image.png", "eval digits-o", "export"),
        *("report", "review", "apply --out cleaned.csv"),
    ],
)
def test_a_run_in_use_is_left_alone(
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    run = Path(NAME)
    command, *rest = words.split()
    order = [*rest, run] if rest and rest[-1] == "--out" else [run, *rest]
    with locked(run):
        (run / "config.yaml").write_text("epochs: 3\n")
        assert josrc(command, *order) == 2
    said = capsys.readouterr().err
    assert f"{NAME} is in use by another josrc process" in said
    assert "Wait until that has ended" in said


def test_a_new_run_replaces_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / NAME
    run.mkdir()
    (run / "config.yaml").write_text("epochs: 3\n")
    assert josrc("train", "digits-o", "--out", run) == 2
    said = capsys.readouterr().err
    assert f"Resume it: josrc resume '{run}'. Replace it: --overwrite." in said


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("train digits-o --method jocr", "Unknown method 'jocr'. Did you mean 'jocor'?"),
        ("train digits-o --noise symetric", "Unknown noise 'symetric'. Did you mean 'symmetric'?"),
        ("train . --inject symetric:0.2", "Unknown noise 'symetric'. Did you mean 'symmetric'?"),
        ("scan digit-o", "data set 'digit-o'. Did you mean 'digits-o'?"),
        ("recipes digit-o", "There is no recipe 'digit-o'. Did you mean 'digits-o'?"),
        ("settings jocr", "Unknown method 'jocr'. Did you mean 'jocor'?"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_near_one(
    words: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert josrc(*words.split()) == 2
    assert meant in capsys.readouterr().err


def test_a_misspelt_method_does_not_wait_for_torch() -> None:
    program = (
        "import sys\n"
        "from josrc.cli.main import main\n"
        "try: main(['train', 'digits-o', '--method', 'jocr'])\n"
        "except SystemExit: print('torch' in sys.modules)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.stdout.strip() == "False"
