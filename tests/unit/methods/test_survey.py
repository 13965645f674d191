"""Passes over the whole training set: what they see, when they happen, what they leave behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from josrc.config import RunConfig
from josrc.data.registry import open_source
from josrc.data.source import Source
from josrc.engine.run_folder import RunFolder
from josrc.engine.state import TrainState
from josrc.engine.trainer import Trainer
from josrc.errors import InterruptedRunError
from josrc.methods import method_names
from josrc.methods._survey import Survey
from josrc.runs.data import with_noise_rate
from josrc.runs.start import configure

WITH_MEMORY = [
    "cleannet", "deepself", "dividemix", "elr", "f-correction", "joint-optim", "m-correction",
    "metacleaner", "mlnt", "pencil", "posterior", "sed", "sop",
]  # fmt: skip


def small(method: str, **options: object) -> tuple[RunConfig, Source]:
    """A run on 200 of the digits."""
    values = {"noise": "symmetric", "rate": 0.5, "epochs": 3, "batch_size": 64, "device": "cpu"}
    layers = [{"model": {"width": 0.25}}]
    layers += [{"method": {"updates": 30}}] if method == "cleannet" else []
    config = configure("digits-o", method=method, layers=layers, **{**values, **options})
    whole = open_source(config.data)
    source = whole.take(np.arange(200))
    return with_noise_rate(config, source), source


def trainer(folder: Path, method: str) -> Trainer:
    config, source = small(method)
    made = Trainer(config, source, RunFolder(folder))
    made.folder.create(config, source, made.device)
    return made


def state(method: str = "standard") -> tuple[TrainState, RunConfig]:
    config, source = small(method)
    return TrainState(config, source, torch.device("cpu")), config


def test_a_survey_sees_every_sample_plain_and_in_order() -> None:
    built, _ = state()
    seen: list[Tensor] = []

    class Eye(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            assert not self.training
            seen.append(images)
            return images.flatten(1)

    network = Eye().train()
    survey = Survey(built.loader, built._autocast, 0, lambda: None)
    logits = survey.logits(network)
    source = small("standard")[1]
    pixels = torch.from_numpy(source.images.pixels).permute(0, 3, 1, 2)
    torch.testing.assert_close(logits, built.loader.normalise(pixels).flatten(1))
    assert torch.equal(survey.labels, torch.from_numpy(source.given))
    assert network.training, "as it was before"


def test_the_losses_are_those_of_the_given_labels() -> None:
    built, _ = state()
    survey = Survey(built.loader, built._autocast, 0, lambda: None)
    network = built.method.network
    log_p = survey.logits(network).log_softmax(dim=1)
    expected = [-log_p[i, label] for i, label in enumerate(survey.labels.tolist())]
    torch.testing.assert_close(survey.losses(network), torch.stack(expected))
    assert survey.features(network).shape == (200, 16)


def test_what_a_step_draws_is_a_function_of_seed_and_epoch() -> None:
    built, config = state("dividemix")
    assert built.method.needs.draws > 0
    draws = []
    for epoch in (0, 1, 0):
        built.loader.begin_epoch(config.seed, epoch)
        draws.append(built.loader.fetch(64).draws.clone())
    assert draws[0].shape == (64, built.method.needs.draws)
    assert torch.equal(draws[0], draws[2])
    assert not torch.equal(draws[0], draws[1])


def test_every_method_with_memory_is_tested_here() -> None:
    found = [method for method in method_names() if state(method)[0].method.memory]
    assert sorted(found) == WITH_MEMORY


# 200 samples in batches of 64 are four steps an epoch: stop between two epochs, when the survey of
# the second is done and none of its steps, and inside an epoch.
@pytest.mark.parametrize("step", [4, 6])
@pytest.mark.parametrize("method", WITH_MEMORY)
def test_a_run_with_memory_goes_on_to_the_last_bit(tmp_path: Path, method: str, step: int) -> None:
    whole = trainer(tmp_path / "whole", method)
    whole.run()
    stopped = trainer(tmp_path / "stopped", method)
    original, taken = stopped.stepper, []

    def stepper(size: int) -> None:
        taken.append(size)
        if len(taken) == step:
            stopped.stop.signal = 15
        original(size)

    stopped.stepper = stepper
    with pytest.raises(InterruptedRunError):
        stopped.run()
    torch.rand(7)  # whatever else the process draws
    resumed = trainer(tmp_path / "stopped", method)
    resumed.restore()
    surveys = []
    survey = resumed.state.method.before_epoch
    resumed.state.method.before_epoch = lambda *a: surveys.append(a[0]) or survey(*a)  # type: ignore[method-assign]
    resumed.run()
    assert surveys == [2], "the survey of the second epoch is not repeated"
    for name, value in whole.state.tensors().items():
        assert torch.equal(resumed.state.tensors()[name], value), name


@pytest.mark.parametrize("method", WITH_MEMORY)
def test_weights_hold_networks_alone_and_a_new_run_begins_with_a_new_memory(
    tmp_path: Path, method: str
) -> None:
    made = trainer(tmp_path / "run", method)
    begun = {name: value.clone() for name, value in made.state.tensors().items()}
    made.run()
    kept = {key.split(".")[0] for key in load_file(made.folder.last)}
    assert "network" in kept
    assert made.state.method.memory
    assert not kept & made.state.method.memory
    config, source = small(method)
    made.state.restart(config, source)
    for name, value in begun.items():
        assert torch.equal(made.state.tensors()[name], value), name
