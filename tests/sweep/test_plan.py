"""What PLAN.yaml may say, and which trials follow from it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from commands import josrc
from josrc.errors import UserError, install_command
from josrc.sweep.plan import read_plan, trials_of
from josrc.sweep.record import Record, SweepFolder
from josrc.sweep.table import write_table

PLAN: dict[str, Any] = {
    "data": "digits-o",
    "fixed": {"data": {"noise": "symmetric", "rate": 0.3}, "epochs": 4, "plant": 0.05},
    "grid": {"method.name": ["standard", "josrc"], "seed": [0, 1, 2]},
}


SUMMARY = {
    "method": "standard", "data": "digits-o", "epochs": 4, "seconds_total": 1.5,
    "last10_mean": 99.0, "best": 99.0, "best_epoch": 4,
}  # fmt: skip


def written(folder: Path, **changes: Any) -> Path:
    path = folder / "plan.yaml"
    path.write_text(yaml.safe_dump({**PLAN, **changes}))
    return path


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
        ({"metric": "test_accuracy"}, "test_accuracy is refused"),
        ({"metric": "last10_mean"}, "last10_mean is refused"),
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
    assert "holds photo.jpg, which is not part of a sweep" in capsys.readouterr().err


def test_a_plan_that_is_missing_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert josrc("sweep", "no-such.yaml") == 2
    assert "no-such.yaml does not exist" in capsys.readouterr().err


def test_a_record_keeps_what_was_reported_before_an_epoch(tmp_path: Path) -> None:
    record = Record().with_report(1, 50.0).with_report(2, 60.0).with_report(3, 70.0)
    record.write(tmp_path / "record.json")
    found = Record.read(tmp_path / "record.json")
    assert found == record
    assert found.until(2).reports == [(1, 50.0), (2, 60.0)]
    assert found.with_report(2, 61.0).reports == [(1, 50.0), (2, 61.0)], "an epoch done again"


@pytest.mark.parametrize("text", ["{}", '{"reports": [1], "end": "", "message": ""}', "[]", "x"])
def test_a_damaged_record_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "record.json").write_text(text)
    with pytest.raises(UserError, match=r"record\.json is damaged"):
        Record.read(tmp_path / "record.json")


def test_the_table_has_the_best_finished_run_first(tmp_path: Path) -> None:
    plan = read_plan(written(tmp_path, metric="estimated_precision"))
    made, folder = trials_of(plan), SweepFolder(tmp_path / "sweep")
    for place, (trial, value) in enumerate(
        zip(made, (0.5, 0.9, 0.99, 0.7, 0.6, None), strict=True)
    ):
        run = folder.run(trial.name)
        run.path.mkdir(parents=True)
        run.config.touch()
        if value is not None:
            Record([(1, 0.1), (4, value)]).write(folder.record(trial.name))
        if place == 2:  # was far ahead when it was stopped
            folder.mark(trial.name, end="stopped")
        elif place < 5:
            run.write_summary(SUMMARY)
    lines = write_table(plan, made, folder)
    order = [made[place].name for place in (1, 3, 4, 0, 2, 5)]
    assert [line["run"] for line in lines] == order
    text = folder.table.read_text().splitlines()
    assert text[0].startswith("run,state,epochs,method.name,seed,estimated_precision_last,")
    assert "accuracy" not in folder.table.read_text()
    assert [line.split(",")[1] for line in text[1:]] == ["finished"] * 4 + [
        "stopped",
        "interrupted",
    ]
    assert folder.picture.read_bytes().startswith(b"\x89PNG")
