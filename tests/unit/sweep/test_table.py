"""The table of a sweep."""

from __future__ import annotations

from pathlib import Path

from josrc.sweep.plan import read_plan, trials_of
from josrc.sweep.record import Record, SweepFolder
from josrc.sweep.table import write_table
from sweeps import written

SUMMARY = {
    "method": "standard", "data": "digits-o", "epochs": 4, "seconds_total": 1.5,
    "last10_mean": 99.0, "best": 99.0, "best_epoch": 4,
}  # fmt: skip


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
