"""Signs that a run goes wrong."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from josrc.config import RunConfig
from josrc.engine.checkpoint import load_tensors
from josrc.engine.listeners.base import Listener
from josrc.engine.optimizer import set_optimizer
from josrc.engine.run_folder import RunFolder
from josrc.engine.trainer import Trainer
from josrc.errors import InterruptedRunError, TrainingFailedError
from trainers import small, trainer


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
    assert "Agreement with the training labels fell from" in heard.texts[0]
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
        f"'5' takes over: 100 % of the training images are predicted as this class, but "
        f"only {given:.0f} %" in text
    )
    assert summary["overtaken_by"] == "5"
    assert "fell" not in summary


def test_a_healthy_run_is_told_nothing(tmp_path: Path) -> None:
    made, heard = unlabelled(tmp_path / "run", epochs=4)
    assert not {"fell", "overtaken_by"} & made.run().keys()
    assert heard.texts == []


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
