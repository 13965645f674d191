"""Training through the trainer: metrics, collapse, resuming to the last bit."""

from __future__ import annotations

import json
import math
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from josrc.config import RunConfig
from josrc.data.registry import open_source
from josrc.data.source import Source
from josrc.engine.checkpoint import load_tensors, save_tensors
from josrc.engine.listeners.base import Listener
from josrc.engine.metrics import METRIC_COLUMNS, Truth
from josrc.engine.optimizer import set_optimizer
from josrc.engine.run_folder import RunFolder
from josrc.engine.state import TrainState
from josrc.engine.trainer import Trainer
from josrc.errors import InterruptedRunError, TrainingFailedError, UserError
from josrc.runs.data import with_noise_rate
from josrc.runs.start import configure


def small(**options: Any) -> tuple[RunConfig, Source]:
    """A run on 300 of the digits: a fraction of a second an epoch."""
    values = {"noise": "symmetric", "rate": 0.5, "epochs": 3, "batch_size": 64, "device": "cpu"}
    config = configure("digits-o", **{**values, **options})
    whole = open_source(config.data)
    return config, whole.take(np.arange(300))


def trainer(folder: Path, **options: Any) -> Trainer:
    config, source = small(**options)
    made = Trainer(config, source, RunFolder(folder))
    made.folder.create(config, source, made.device)
    return made


def state(made: Trainer) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in made.state.tensors().items()}


def without_time(rows: list[Any]) -> list[Any]:
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def interrupt_at(made: Trainer, step: int) -> None:
    """Ask the run to stop before its ``step``-th step, as a signal handler would."""
    original, count = made.stepper, 0

    def stepper(size: int) -> None:
        nonlocal count
        count += 1
        if count == step:
            made.stop.signal = 15
        original(size)

    made.stepper = stepper


# 300 samples in batches of 64 are five steps an epoch: stop in the first, at an epoch's end, later.
@pytest.mark.parametrize("step", [2, 5, 8, 14])
@pytest.mark.parametrize(
    "options",
    [
        {"method": "standard"},
        {"method": "josrc"},
        {"method": "josrc", "plant": 0.1},
        {"method": "pencil", "plant": 0.1},
    ],
)
def test_a_run_stopped_anywhere_ends_like_one_never_stopped_to_the_last_bit(
    tmp_path: Path, options: dict[str, Any], step: int
) -> None:
    whole = trainer(tmp_path / "whole", **options)
    whole.run()

    stopped = trainer(tmp_path / "stopped", **options)
    interrupt_at(stopped, step)
    with pytest.raises(InterruptedRunError, match="josrc resume"):
        stopped.run()
    resumed = trainer(tmp_path / "stopped", **options)
    resumed.restore()
    resumed.run()

    assert without_time(resumed.rows) == without_time(whole.rows)
    for name, value in state(whole).items():
        assert torch.equal(resumed.state.tensors()[name], value), name


def test_dropout_goes_on_where_it_stopped(tmp_path: Path) -> None:
    torch.manual_seed(3)
    made = trainer(tmp_path / "a")
    made.save()
    drawn = torch.rand(4)
    torch.manual_seed(99)
    made.restore()
    assert torch.equal(torch.rand(4), drawn)


def test_two_runs_of_one_seed_are_equal_and_of_two_seeds_are_not(tmp_path: Path) -> None:
    runs = [trainer(tmp_path / name, seed=seed) for name, seed in (("a", 1), ("b", 1), ("c", 2))]
    for made in runs:
        made.run()
    first, same, other = (without_time(made.rows) for made in runs)
    assert first == same
    assert first != other


def test_a_trainer_taken_over_for_other_images_trains_like_a_new_one(tmp_path: Path) -> None:
    config, source = small(epochs=2)
    order = np.random.default_rng(0).permutation(len(source))
    other = source.take(order)

    def trained(name: str, data: Source, reuse: Trainer | None = None) -> Trainer:
        made = Trainer(config, data, RunFolder(tmp_path / name), reuse=reuse)
        made.folder.create(config, data, made.device)
        made.run()
        return made

    first, new = trained("first", source), trained("new", other)
    taken = trained("taken", other, reuse=first)
    assert taken.state is first.state
    assert without_time(taken.rows) == without_time(new.rows)
    assert taken.rows[-1]["loss"] != first.rows[-1]["loss"]


def test_every_column_of_the_contract_is_there(tmp_path: Path) -> None:
    made = trainer(tmp_path / "run")
    made.run()
    rows = made.folder.read_metrics()
    assert list(rows[0]) == list(METRIC_COLUMNS)
    assert [row["epoch"] for row in rows] == [1, 2, 3]
    for row in rows:
        sizes = [row["n_clean"], row["n_id"], row["n_ood"]]
        assert sum(sizes) == 300  # type: ignore[arg-type]
        assert 0 <= row["test_accuracy"] <= 100  # type: ignore[operator]
    assert rows[0]["n_clean"] == 300, "the threshold is 0 in the first epoch"


def test_the_summary_is_what_the_rows_say(tmp_path: Path) -> None:
    made = trainer(tmp_path / "run", epochs=12, method="standard")
    summary = made.run()
    accuracies = np.array([row["test_accuracy"] for row in made.rows])
    assert summary["last10_mean"] == pytest.approx(accuracies[-10:].mean())
    assert summary["last10_std"] == pytest.approx(accuracies[-10:].std())
    assert summary["best"] == accuracies.max()
    assert summary["best_epoch"] == int(accuracies.argmax()) + 1
    assert summary["final"] == accuracies[-1]
    assert json.loads(made.folder.summary.read_text()) == summary


def test_group_metrics_by_hand() -> None:
    _, source = small()
    kind = np.array([0, 0, 1, 1, 2, 2])
    true = np.array([0, 1, 2, 3, 8, 9])
    given = np.array([0, 1, 3, 4, 5, 6])
    tiny = replace(source.take(np.arange(6)), true=true, given=given)
    assert (tiny.kind == kind).all()
    prediction = torch.tensor([0, 2, 2, 4, 5, 1])
    group = torch.tensor([0, 0, 0, 1, 2, 1])

    row = Truth(tiny, torch.device("cpu")).metrics(prediction, group)

    assert (row["n_clean"], row["n_id"], row["n_ood"]) == (3, 2, 1)
    assert row["clean_precision"] == pytest.approx(200 / 3)
    assert (row["id_precision"], row["ood_precision"]) == (50, 100)
    assert (row["fit_clean"], row["fit_id"], row["fit_ood"]) == (50, 50, 50)
    assert row["recover_id"] == 50


@pytest.mark.parametrize("variant", ["c", "ci", "cio", "full"])
def test_each_variant_trains(tmp_path: Path, variant: str) -> None:
    config, source = small()
    settings = config.method.model_copy(update={"variant": variant})
    config = config.model_copy(update={"method": settings})
    made = Trainer(config, source, RunFolder(tmp_path / "run"))
    made.folder.create(config, source, made.device)
    before = state(made)["method.network.head.0.weight"]
    summary = made.run()
    assert summary["variant"] == variant
    assert not torch.equal(state(made)["method.network.head.0.weight"], before)


@pytest.fixture
def _every_epoch_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints of such short epochs would otherwise be spared."""
    monkeypatch.setattr("josrc.engine.trainer.CHECKPOINT_PATIENCE", 0)


@pytest.mark.usefixtures("_every_epoch_saved")
def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_what_was_saved(tmp_path: Path) -> None:
    made = trainer(tmp_path / "run", method="standard", epochs=4)
    original = made.state.end_epoch

    def end_epoch() -> Any:
        row = original()
        return row | {"loss": math.nan} if made.epoch == 2 else row

    made.state.end_epoch = end_epoch  # type: ignore[method-assign]
    with pytest.raises(TrainingFailedError, match=r"epoch 3(.|\n)*Last good checkpoint: epoch 2"):
        made.run()
    assert load_tensors(made.folder.checkpoint)[1]["epoch"] == 2
    assert made.folder.best.is_file()
    assert not made.folder.summary.exists()


def collapsing(folder: Path, accuracies: list[float], **options: Any) -> Trainer:
    made = trainer(folder, method="standard", epochs=len(accuracies), **options)
    made.state.end_epoch = lambda: {  # type: ignore[method-assign]
        "loss": 1.0,
        "test_accuracy": accuracies[made.epoch],
    }
    return made


@pytest.mark.usefixtures("_every_epoch_saved")
def test_a_collapse_stops_the_run_and_names_the_last_good_checkpoint(tmp_path: Path) -> None:
    made = collapsing(tmp_path / "run", [60, 70, 12.5, 12.6, 12.4, 12.5])
    message = r"collapsed: 70.00 %(.|\n)*epoch 5(.|\n)*Last good checkpoint: epoch 2"
    with pytest.raises(TrainingFailedError, match=message):
        made.run()


def test_epochs_that_a_failed_run_never_reached_count_as_chance(tmp_path: Path) -> None:
    made = collapsing(tmp_path / "run", [*[88.0] * 12, math.nan, math.nan])
    fine = made.state.end_epoch

    def end_epoch() -> Any:
        return fine() | ({"loss": math.nan} if made.epoch == 11 else {})

    made.state.end_epoch = end_epoch  # type: ignore[method-assign]
    with pytest.raises(TrainingFailedError):
        made.run()
    summary = made.summary()
    chance = 100 / 8
    # Of the last ten of 14 epochs seven were reached, and three not.
    assert summary["last10_mean"] == pytest.approx((7 * 88 + 3 * chance) / 10)
    assert (summary["final"], summary["best"]) == (chance, 88.0)


def test_a_dip_or_a_run_that_never_learned_is_no_collapse(tmp_path: Path) -> None:
    collapsing(tmp_path / "dip", [60, 12.5, 12.5, 65, 12.5, 70]).run()
    collapsing(tmp_path / "never", [12.5, 13, 14, 12.5, 12.5, 12.5]).run()


def test_a_collapse_may_be_allowed(tmp_path: Path) -> None:
    config, source = small(method="standard", epochs=5)
    config = config.model_copy(update={"stop_on_collapse": False})
    made = Trainer(config, source, RunFolder(tmp_path / "run"))
    made.folder.create(config, source, made.device)
    made.state.end_epoch = lambda: {  # type: ignore[method-assign]
        "loss": 1.0,
        "test_accuracy": [70, 12.5, 12.5, 12.5, 12.5][made.epoch],
    }
    assert made.run()["best"] == 70


class Notices(Listener):
    """Keeps what a run tells its user."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def noticed(self, text: str) -> None:
        self.texts.append(text)


def test_a_fall_by_half_is_told_once_and_the_run_goes_on(tmp_path: Path) -> None:
    # Chance is 12.5 %: a fall to 30 % is no collapse. 35 % is just half, 50 % ends the first fall.
    made = collapsing(tmp_path / "run", [60, 70, 30, 35, 34, 33, 32, 31, 50, 20, 34, 34])
    made.listeners = [heard := Notices()]
    summary = made.run()
    first, second = heard.texts
    assert first.startswith("Test accuracy fell from 70.00 % (epoch 2) to 32.00 % (epoch 7). ")
    assert f"{made.folder.best} holds epoch 2" in first
    assert "to 34.00 % (epoch 12)" in second
    assert summary["fell"] is True
    assert load_tensors(made.folder.best)[1]["epoch"] == 2


def test_a_dip_that_is_over_is_told_and_not_in_the_summary(tmp_path: Path) -> None:
    made = collapsing(tmp_path / "run", [70, 30, 30, 30, 60])
    made.listeners = [heard := Notices()]
    assert "fell" not in made.run()
    assert len(heard.texts) == 1


def unlabelled(folder: Path, **options: Any) -> tuple[Trainer, Notices]:
    """A run of whose data nobody knows the truth, and which has no test images."""
    config, source = small(method="standard", noise="none", rate=0.0, **options)
    blind = replace(source, true=None, test_images=None, test_labels=None)
    made = Trainer(config, blind, RunFolder(folder), [heard := Notices()])
    made.folder.create(config, blind, made.device)
    return made, heard


def test_a_fall_is_told_where_there_is_nothing_to_test_on(tmp_path: Path) -> None:
    made, heard = unlabelled(tmp_path / "run", epochs=12)
    original = made.state.begin_epoch

    def begin_epoch(config: RunConfig, epoch: int, position: int) -> Any:
        if epoch == 9:  # what was learned is lost, and not learned again
            with torch.no_grad():
                for parameter in made.state.method.parameters():
                    parameter.normal_()
        row = original(config, epoch, position)
        if epoch >= 9:
            set_optimizer(made.state.optimizer, 0.0, 0.9)
        return row

    made.state.begin_epoch = begin_epoch  # type: ignore[method-assign]
    summary = made.run()
    assert "Agreement with the labels it is trained on fell from" in heard.texts[0]
    assert "(epoch 12)" in heard.texts[0]
    assert summary["fell"] is True


def test_a_class_that_takes_over_is_named(tmp_path: Path) -> None:
    made, heard = unlabelled(tmp_path / "run", epochs=4)
    network = made.state.method.network
    with torch.no_grad():
        network.head[-1].weight.zero_()
        network.head[-1].bias.copy_(torch.eye(8)[5] * 100)  # "5", whatever it sees
    summary = made.run()
    (text,) = heard.texts
    given = 100 * (made.source.given == 5).mean()
    assert (
        f"'5' takes over: 100 % of the training images are predicted to be in this class, "
        f"and {given:.0f} %" in text
    )
    assert summary["overtaken_by"] == "5"
    assert "fell" not in summary


def test_a_healthy_run_is_told_nothing(tmp_path: Path) -> None:
    made, heard = unlabelled(tmp_path / "run", epochs=4)
    assert not {"fell", "overtaken_by"} & made.run().keys()
    assert heard.texts == []


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


def test_a_checkpoint_of_another_run_or_of_garbage_is_explained(tmp_path: Path) -> None:
    made = trainer(tmp_path / "run")
    made.folder.checkpoint.parent.mkdir()
    made.folder.checkpoint.write_bytes(b"garbage")
    with pytest.raises(UserError, match="can't be read"):
        made.restore()
    other = trainer(tmp_path / "other", method="standard")
    other.save()
    made.folder.checkpoint.write_bytes(other.folder.checkpoint.read_bytes())
    with pytest.raises(UserError, match="does not fit this run"):
        made.restore()


def test_a_run_that_is_going_wrong_keeps_its_last_good_checkpoint(tmp_path: Path) -> None:
    made = trainer(tmp_path / "run", method="standard")
    original, steps = made.stepper, []

    def stepper(size: int) -> None:
        original(size)
        steps.append(size)
        if len(steps) == 7:
            made.state.loss_sum.fill_(math.nan)
            made.stop.signal = 2

    made.stepper = stepper
    with pytest.raises(InterruptedRunError, match="last good checkpoint is kept"):
        made.run()
    metadata = load_tensors(made.folder.checkpoint)[1]
    assert (metadata["epoch"], metadata["position"]) == (1, 0)


def test_a_request_that_comes_too_late_is_handed_on(tmp_path: Path) -> None:
    made = trainer(tmp_path / "run", method="standard", epochs=1)
    original = made.state.end_epoch

    def end_epoch() -> Any:
        signal.raise_signal(signal.SIGINT)
        return original()

    made.state.end_epoch = end_epoch  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        made.run()
    assert made.folder.summary.is_file(), "the run itself is complete"


def test_the_teacher_is_evaluated_with_statistics_of_its_own(tmp_path: Path) -> None:
    made = trainer(tmp_path / "run", epochs=8)
    made.state.method.settings = made.config.method.model_copy(update={"teacher_decay": 0.8})
    made.run()
    assert max(row["teacher_accuracy"] or 0 for row in made.rows) > 2.2 * 12.5


def test_compiled_code_serves_what_only_the_schedule_knows(tmp_path: Path) -> None:
    first, source = small(method="coteaching", rate=0.5)
    made = Trainer(with_noise_rate(first, source), source, RunFolder(tmp_path / "a"))
    other, noisier = small(method="coteaching", rate=0.8, seed=4)
    other = with_noise_rate(other, noisier)
    assert made.fits(other, noisier)
    longer = other.model_copy(update={"batch_size": 32})
    assert not made.fits(longer, noisier)

    reused = Trainer(other, noisier, RunFolder(tmp_path / "b"), reuse=made)
    fresh = Trainer(other, noisier, RunFolder(tmp_path / "c"))
    for run in (reused, fresh):
        run.folder.create(other, noisier, run.device)
        run.run()
    assert reused.state is made.state
    assert without_time(reused.rows) == without_time(fresh.rows)


def test_sgd_state_begins_as_torch_would_begin_it() -> None:
    config, source = small(method="standard")
    sgd = config.optimizer.model_copy(update={"name": "sgd", "lr": 0.1, "weight_decay": 1e-3})
    config = config.model_copy(update={"optimizer": sgd})
    state = TrainState(config, source, torch.device("cpu"))
    weight = state.method.network.head[-1].bias  # type: ignore[union-attr, index]
    start = weight.detach().clone()
    weight.grad = torch.ones_like(weight)
    state.optimizer.step()
    expected = start - 0.1 * (1 + 1e-3 * start)
    torch.testing.assert_close(weight.detach(), expected)


def test_momentum_may_rise_from_zero() -> None:
    config, source = small(method="standard")
    sgd = config.optimizer.model_copy(update={"name": "sgd", "momentum": 0.0})
    config = config.model_copy(update={"optimizer": sgd})
    state = TrainState(config, source, torch.device("cpu"))
    assert "optimizer.0.momentum_buffer" in state.tensors()
    assert state.optimizer.param_groups[0]["momentum"] == 0
