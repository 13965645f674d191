"""Checkpoints that are damaged, and clocks that leap."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from commands import josrc
from josrc._console import say_once
from josrc.engine.checkpoint import load_tensors, save_tensors
from josrc.errors import UserError

OPTIONS = ["--method", "standard", "--epochs", "3", "--device", "cpu", "--batch-size", "256"]


def test_the_one_before_is_kept_until_the_new_one_has_been_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, before = tmp_path / "state.safetensors", tmp_path / "before.safetensors"
    for number in range(3):
        values = {"x": torch.full((4,), float(number)), "nan": torch.tensor(float("nan"))}
        save_tensors(path, values, {"epoch": number}, before)
    assert [load_tensors(one)[1]["epoch"] for one in (path, before)] == [2, 1]

    def spoiled(tensors: dict[str, Any], target: Path, **more: Any) -> None:
        kept({**tensors, "x": tensors["x"] + 1}, target, **more)

    kept = save_tensors.__globals__["save_file"]
    monkeypatch.setattr("josrc.engine.checkpoint.save_file", spoiled)
    with pytest.raises(OSError, match="could not be read back"):
        save_tensors(path, {"x": torch.zeros(4)}, {"epoch": 3}, before)
    assert [load_tensors(one)[1]["epoch"] for one in (path, before)] == [2, 1]
    assert sorted(p.name for p in tmp_path.iterdir()) == [before.name, path.name]


class Killed(BaseException):
    """Nobody catches it."""


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A run that was killed in its last epoch, and the same run, whole."""
    whole, run = tmp_path / "whole", tmp_path / "run"
    monkeypatch.setattr("josrc.engine.trainer.CHECKPOINT_PATIENCE", 0)
    assert josrc("train", "digits-o", *OPTIONS, "--quiet", "--out", whole) == 0

    def die(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("josrc.runs.start.held_out_answers", die)
        patch.setattr("josrc.runs.start.gather_evidence", die)
        with pytest.raises(Killed):
            josrc("train", "digits-o", *OPTIONS, "--quiet", "--out", run)
    return run, whole


def test_a_damaged_checkpoint_is_answered_with_the_one_before(
    stopped: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, whole = stopped
    newest, before = (run / "checkpoint" / f"{n}.safetensors" for n in ("state", "before"))
    assert load_tensors(before)[1]["epoch"] == 2
    for share in (0, 0.5, 0.99):
        again = tmp_path / f"again-{share}"
        shutil.copytree(run, again)
        cut = again / "checkpoint" / "state.safetensors"
        cut.write_bytes(newest.read_bytes()[: int(share * newest.stat().st_size)])
        say_once.cache_clear()
        assert josrc("resume", again, "--quiet") == 0
        assert "Continuing with the previous one, from epoch 2:" in capsys.readouterr().err
        assert not (again / "checkpoint" / "before.safetensors").exists(), "the run has ended"
        for name in ("weights/last.safetensors", "weights/best.safetensors", "audit/verdicts.csv"):
            assert (again / name).read_bytes() == (whole / name).read_bytes()
    newest.write_bytes(b"")
    before.write_bytes(b"")
    assert josrc("resume", run, "--quiet") == 2
    assert f"Checkpoint {newest} can't be read" in capsys.readouterr().err


def test_a_checkpoint_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="can't be read"):
        load_tensors(tmp_path / "gone.safetensors")


def test_a_checkpoint_is_whole_or_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.safetensors"
    save_tensors(path, {"a": torch.ones(3)}, {"epoch": 1})

    def dies(*arguments: Any, **options: Any) -> None:
        Path(arguments[1]).write_bytes(b"half a file")
        raise OSError("disk full")

    monkeypatch.setattr("josrc.engine.checkpoint.save_file", dies)
    with pytest.raises(OSError, match="disk full"):
        save_tensors(path, {"a": torch.zeros(3)}, {"epoch": 2})
    tensors, metadata = load_tensors(path)
    assert metadata == {"epoch": 1}
    assert torch.equal(tensors["a"], torch.ones(3))
