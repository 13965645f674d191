"""Training through the trainer: metrics, collapse, resuming to the last bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from josrc.data.source import Source
from josrc.engine.run_folder import RunFolder
from josrc.engine.state import TrainState
from josrc.engine.trainer import Trainer
from josrc.errors import InterruptedRunError, UserError
from josrc.runs.data import with_noise_rate
from trainers import small, trainer


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
