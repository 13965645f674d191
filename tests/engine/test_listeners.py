"""``--log``: real event files of TensorBoard read back, and a logger that somebody adds."""

from __future__ import annotations

import csv
import json
import re
import shutil
import socket
import sqlite3
import struct
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import josrc as library
from josrc.cli.main import main
from josrc.engine import listeners
from josrc.engine.listeners import background
from josrc.engine.listeners.tensorboard import TensorBoard
from josrc.runs.start import configure

FAST = ["--epochs", "2", "--batch-size", "256", "--device", "cpu", "--quiet"]
DOCS = Path(__file__).parents[2] / "docs" / "use" / "model.md"


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
    assert listeners.logger_names() == ["lines", "mlflow", "tensorboard", "trackio", "wandb"]
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


@pytest.fixture
def logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of two epochs that TensorBoard, MLflow and Weights & Biases heard of, without a net."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "run"
    words = ["--log", "tensorboard,mlflow", "--log", "wandb", "--method", "standard", *FAST]
    with pytest.raises(SystemExit) as end:
        main(["train", "digits-o", *words, "--out", str(run)])
    assert not end.value.code
    return run


def records_of(content: bytes) -> Iterator[bytes]:
    """The records of a file of Weights & Biases: LevelDB's log behind seven bytes of a header."""
    block, place, parts = 2**15, 7, b""
    while place + 7 <= len(content):
        left = block - place % block
        if left < 7:  # too short for another header: filled with zeros
            place += left
            continue
        size, kind = struct.unpack("<HB", content[place + 4 : place + 7])
        parts += content[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # whole, or the last part of one
            yield parts
            parts = b""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the trackers' own libraries
def test_several_trackers_hold_the_numbers_of_the_metrics(logged: Path) -> None:
    from mlflow import MlflowClient
    from wandb.proto import wandb_internal_pb2

    with (logged / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    expected = {
        name: [(int(row["epoch"]), pytest.approx(float(row[name]), rel=1e-5)) for row in rows]
        for name in ("loss", "test_accuracy", "lr")
    }
    found = curves(logged / "logs" / "tensorboard")
    assert {name: found[name] for name in expected} == expected

    client = MlflowClient(tracking_uri=(logged / "logs" / "mlflow").as_uri())
    (run,) = client.search_runs([client.get_experiment_by_name("josrc").experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.params["method.name"] == "standard"
    for name, values in expected.items():
        history = client.get_metric_history(run.info.run_id, name)
        assert [(metric.step, metric.value) for metric in history] == values

    (file,) = (logged / "logs" / "wandb").glob("wandb/offline-run-*/run-*.wandb")
    heard: dict[str, list[tuple[int, float]]] = {}
    for data in records_of(file.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        items = {"/".join(i.nested_key) or i.key: i.value_json for i in record.history.item}
        for name in expected.keys() & items.keys():
            step = int(record.history.step.num)
            heard.setdefault(name, []).append((step, float(items[name])))
    assert heard == expected


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of its own libraries
def test_trackio_holds_the_numbers_of_the_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    pytest.importorskip("trackio", reason="Trackio asks for an older Pillow than constraints.txt")
    options = {"method": "standard", "batch_size": 256, "device": "cpu", "log": ["trackio"]}
    run = library.train("digits-o", out=tmp_path / "run", epochs=2, **options)
    with closing(sqlite3.connect(tmp_path / "trackio" / "josrc.db")) as database:
        found = database.execute("SELECT step, metrics FROM metrics ORDER BY step").fetchall()
    heard = [(step, json.loads(metrics)["loss"]) for step, metrics in found]
    expected = [(row["epoch"], pytest.approx(row["loss"], rel=1e-4)) for row in run.metrics]
    assert heard == expected


def test_a_tracker_that_fails_never_ends_a_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(self: TensorBoard, row: object) -> None:
        raise RuntimeError("the account\nis full")

    monkeypatch.setattr(TensorBoard, "epoch_ended", full)
    run = tmp_path / "run"
    words = ["--method", "standard", "--log", "tensorboard", *FAST]
    with pytest.raises(SystemExit) as end:
        main(["train", "digits-o", *words, "--out", str(run)])
    assert not end.value.code
    said = capsys.readouterr().err
    assert said.count("--log tensorboard failed, and gets nothing more of this run: ") == 1
    assert "the account is full" in said
    assert (run / "summary.json").is_file()


def test_a_tracker_that_hangs_holds_no_training_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    never = threading.Event()

    def hang(self: TensorBoard, epochs: int, done: int) -> None:
        never.wait()

    monkeypatch.setattr(TensorBoard, "started", hang)
    monkeypatch.setattr(background, "PATIENCE", 0.1)
    run = library.train(
        "digits-o", out=tmp_path / "run", epochs=2, batch_size=256, method="standard",
        device="cpu", log=["tensorboard"],
    )  # fmt: skip
    never.set()
    assert len(run.metrics) == 2
    assert run.summary["epochs"] == 2
    said = capsys.readouterr().err
    assert said.count("--log tensorboard has not answered within") == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the tracker's own library
def test_a_server_that_never_answers_costs_no_training_and_no_other_tracker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()  # connections are taken, and nothing ever comes
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{server.getsockname()[1]}")
        monkeypatch.setattr(background, "PATIENCE", 1.0)
        words = ["--log", "mlflow,tensorboard", "--method", "standard", *FAST]
        with pytest.raises(SystemExit) as end:
            main(["train", "digits-o", *words, "--out", str(tmp_path / "run")])
    assert not end.value.code
    assert capsys.readouterr().err.count("--log mlflow has not answered within 1 s") == 1
    found = curves(tmp_path / "run" / "logs" / "tensorboard")
    assert [step for step, _ in found["loss"]] == [1, 2]
