"""What PLAN.yaml may say, and which trials follow from it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from commands import josrc
from josrc.errors import UserError, install_command
from josrc.sweep.plan import read_plan, trials_of
from josrc.sweep.record import Record
from sweeps import written


def trials(folder: Path, **changes: Any) -> list[Any]:
    return trials_of(read_plan(written(folder, **changes)))


def test_a_grid_is_every_combination(tmp_path: Path) -> None:
    found = [trial.varied for trial in trials(tmp_path)]
    assert found == [
        {"method.name": method, "seed": seed}
        for method in ("standard", "josrc")
        for seed in range(3)
    ]


def test_each_draw_is_run_at_every_point_of_the_grid(tmp_path: Path) -> None:
    drawn: dict[str, Any] = {
        "choices": {"batch_size": [32, 64, 128]},
        "ranges": {
            "optimizer.lr": {"low": 1e-4, "high": 1e-2, "log": True},
            "views.pad": {"low": 0, "high": 3, "whole": True},
        },
    }
    found = trials(tmp_path, samples=5, **drawn)
    assert len(found) == 30
    for sample in range(5):
        six = [trial.varied for trial in found[6 * sample : 6 * sample + 6]]
        assert len({tuple(v[key] for key in drawn["choices"] | drawn["ranges"]) for v in six}) == 1
    rates = {trial.varied["optimizer.lr"] for trial in found}
    assert len(rates) == 5
    assert all(1e-4 <= rate <= 1e-2 for rate in rates)
    assert {trial.varied["views.pad"] for trial in found} <= {0, 1, 2, 3}
    assert {type(trial.varied["views.pad"]) for trial in found} == {int}
    longer = trials(tmp_path, samples=6, **drawn)
    assert longer[:30] == found, "more samples leave the first as they are"
    assert trials(tmp_path, samples=5, draw_seed=1, **drawn) != found


def test_a_trial_is_known_by_its_settings_in_any_order(tmp_path: Path) -> None:
    names = {trial.name for trial in trials(tmp_path)}
    fixed = {"plant": 0.05, "epochs": 4, "data.rate": 0.3, "data.noise": "symmetric"}
    grid = {"seed": [2, 1, 0], "method.name": ["josrc", "standard"]}
    assert {trial.name for trial in trials(tmp_path, fixed=fixed, grid=grid)} == names
    assert not names & {trial.name for trial in trials(tmp_path, fixed=fixed | {"epochs": 5})}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metric": "test_accuracy"}, "test_accuracy is not allowed"),
        ({"metric": "last10_mean"}, "last10_mean is not allowed"),
        ({"metric": "loss"}, "loss is not valid. It is agreement or estimated_precision"),
        ({"metric": "agreement"}, "digits-o has none"),
        ({"metric": "estimated_precision", "fixed": {"epochs": 2}}, "add plant: 0.05"),
        ({"scheduler": "asha"}, "needs a metric"),
        ({"scheduler": "pbt"}, "scheduler.name='pbt' is not valid"),
        ({"samples": 3}, "no choices and no ranges"),
        ({"grid": {"seed": []}}, "seed has no values"),
        ({"grid": {"epochs": [1, 2]}}, "'epochs' is in both fixed and grid"),
        ({"grid": {"optimizer.lrr": [1]}}, "Unknown key 'optimizer.lrr'"),
        ({"grid": {"seed": [-1]}}, "seed=-1"),
        ({"gird": {}}, "Unknown key 'gird'. Did you mean 'grid'"),
        ({"ranges": {"optimizer.lr": {"low": 1, "high": 0.1}}}, "low < high"),
        ({"ranges": {"optimizer.lr": {"low": -1e308, "high": 1e308}}}, "is too wide"),
        ({"ranges": {"views.pad": {"low": 0.2, "high": 0.4, "whole": True}}}, "No whole number"),
        ({"ranges": {"optimizer.lr": {"low": 0.1, "high": 1000001}}}, "optimizer.lr=1000001"),
        ({"choices": {"batch_size": [64] * 50 + ["many"]}}, "batch_size='many'"),
        ({"cpus": 10**400}, "cpus="),
        ({"data": "/dev/null"}, "/dev/null is a device"),
        ({"data": __file__}, "is neither a folder of class folders nor a manifest"),
        ({"grid": {f"k{n}": list(range(100)) for n in range(9)}}, "000,000 runs, more than"),
        ({"ranges": {"optimizer.lr": {"low": 0, "high": 0.1, "log": True}}}, "low > 0"),
        (
            {"grid": {"seed": list(range(200)), "data.noise_seed": list(range(100))}},
            "20,000 runs, more than 10,000",
        ),
    ],
)
def test_mistakes_in_a_plan_are_told(
    changes: dict[str, Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert josrc("sweep", written(tmp_path, **changes), "--out", tmp_path / "sweep") == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "sweep").exists()


def test_without_ray_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert josrc("sweep", written(tmp_path), "--out", tmp_path / "sweep") == 2
    assert install_command("ray") in capsys.readouterr().err


def test_a_folder_of_something_else_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "photo.jpg").touch()
    assert josrc("sweep", written(tmp_path), "--out", tmp_path / "mine") == 2
    assert "contains photo.jpg, which is not part of a sweep" in capsys.readouterr().err


def test_a_plan_that_is_missing_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert josrc("sweep", "no-such.yaml") == 2
    assert "no-such.yaml does not exist" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["{}", '{"reports": [1], "end": "", "message": ""}', "[]", "x"])
def test_a_damaged_record_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "record.json").write_text(text)
    with pytest.raises(UserError, match=r"record\.json is damaged"):
        Record.read(tmp_path / "record.json")
