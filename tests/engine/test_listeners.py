"""``--log``: real event files of TensorBoard read back, and a logger that somebody adds."""

from __future__ import annotations

import csv
import re
import shutil
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import josrc as library
from josrc.cli.main import main
from josrc.engine import listeners
from josrc.engine.listeners.tensorboard import TensorBoard
from josrc.runs.start import configure

FAST = ["--epochs", "2", "--batch-size", "256", "--device", "cpu", "--quiet"]
DOCS = Path(__file__).parents[2] / "docs" / "model.md"


def curves(folder: Path) -> dict[str, list[tuple[int, float]]]:
    events = EventAccumulator(str(folder))
    events.Reload()
    return {
        tag: [(event.step, event.value) for event in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }


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


@pytest.mark.parametrize("given", ["tensorboard", ["tensorboard"]])
def test_one_logger_need_be_no_list(given: object) -> None:
    assert configure("digits-o", log=given).log == ["tensorboard"]


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


def test_a_logger_is_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The one that the documentation shows."""
    (code,) = re.findall(r"```python\n(\"\"\"Lines.*?)```", DOCS.read_text(), flags=re.DOTALL)
    (tmp_path / "lines.py").write_text(code)
    monkeypatch.setattr(listeners, "__path__", [*listeners.__path__, str(tmp_path)])
    run = tmp_path / "run"
    assert listeners.logger_names() == ["lines", "tensorboard"]
    library.train("digits-o", out=run, epochs=2, batch_size=256, method="standard", log=["lines"])
    lines = (run / "logs" / "lines" / "lines.txt").read_text().splitlines()
    assert lines[0].startswith("standard, from epoch 1")
    assert lines[-1] == "finished"
    assert [line.split()[:2] for line in lines[1:-1]] == [["epoch", "1"], ["epoch", "2"]]


def test_an_unknown_logger_is_named_before_anything_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(["train", "digits-o", "--log", "tensorbord"])
    assert end.value.code == 2
    assert "no logger 'tensorbord'. Did you mean 'tensorboard'?" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_logger_of_a_run_is_named_when_it_goes_on(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(finished, tmp_path / "run"))
    (run / "summary.json").unlink()
    config = run / "config.yaml"
    config.write_text(config.read_text().replace("log: []", "log: [progress]"))
    with pytest.raises(SystemExit) as end:
        main(["resume", str(run)])
    assert end.value.code == 2
    assert "no logger 'progress'." in capsys.readouterr().err
