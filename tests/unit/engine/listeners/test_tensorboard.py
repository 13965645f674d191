"""Event files of TensorBoard."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import josrc as library
from josrc.cli.main import main
from josrc.engine.listeners.tensorboard import TensorBoard
from trackers import FAST, curves


def test_an_event_file_holds_the_numbers_of_the_metrics(tmp_path: Path) -> None:
    run = tmp_path / "run"
    noisy = ["--noise", "symmetric", "--rate", "0.5", "--log", "tensorboard"]
    with pytest.raises(SystemExit) as end:
        main(["train", "digits-o", *noisy, *FAST, "--out", str(run)])
    assert not end.value.code
    logged = curves(run / "logs" / "tensorboard")
    with (run / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    columns = {name for row in rows for name, cell in row.items() if cell} - {"epoch"}
    assert set(logged) == columns
    assert {"test_accuracy", "loss", "n_clean", "teacher_accuracy"} <= columns
    for name in columns:
        expected = [(int(row["epoch"]), float(row[name])) for row in rows if row[name]]
        assert [step for step, _ in logged[name]] == [step for step, _ in expected]
        values = [value for _, value in expected]
        assert [value for _, value in logged[name]] == pytest.approx(values, rel=1e-5)


def test_a_resumed_run_logs_each_epoch_once(finished: Path, tmp_path: Path) -> None:
    config = library.Run.load(finished).config
    # Killed in epoch 4, after a checkpoint in epoch 2.
    for done, epochs in ((0, (1, 2, 3)), (2, (3, 4))):
        logger = TensorBoard(config, tmp_path)
        logger.started(4, done)
        for epoch in epochs:
            logger.epoch_ended({"epoch": epoch, "loss": 10.0 * done + epoch, "agreement": None})
        logger.ended(None)
    assert curves(tmp_path) == {"loss": [(1, 1), (2, 2), (3, 23), (4, 24)]}
