"""Posterior: its memory, its targets, its warm-up, and that it never sees the truth."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import josrc
from batches import batch_of
from josrc.data.noise import CLEAN, ID, OOD
from josrc.data.registry import open_source
from josrc.engine.state import TrainState
from josrc.methods._noise_model import CONFIDENCE_HEAPS
from josrc.methods._opinions import Opinions
from josrc.methods.posterior import Posterior, PosteriorSettings
from josrc.runs.start import configure

AT = {"distillation": torch.tensor(0.25)}


# --- the memory ----------------------------------------------------------------------------------


def distributions(count: int, classes: int, concentration: float) -> torch.Tensor:
    drawn = np.random.default_rng(0).dirichlet(np.full(classes, concentration), count)
    return torch.tensor(drawn, dtype=torch.float32)


def test_opinions_in_half_precision_lose_a_2000th_and_what_is_tiny() -> None:
    given = distributions(200, 50, 0.05)
    memory = Opinions(*Opinions.tables(300, 50, 50), 50)
    index = torch.randperm(300)[:200]
    memory.write(index, given)
    read = memory.read(index)
    torch.testing.assert_close(read, given, rtol=1 / 2000, atol=3.1e-8)
    unseen = torch.ones(300, dtype=torch.bool)
    unseen[index] = False
    assert not memory.seen(unseen.nonzero().squeeze(1)).any()
    assert memory.read(unseen.nonzero().squeeze(1)).abs().sum() == 0


@pytest.mark.parametrize("concentration", [0.01, 0.1, 1.0])
def test_of_many_classes_the_likeliest_are_kept_and_the_rest_is_spread(concentration) -> None:
    given = distributions(100, 1000, concentration)
    memory = Opinions(*Opinions.tables(100, 1000, 128), 1000)
    index = torch.arange(100)
    memory.write(index, given)
    read = memory.read(index)
    torch.testing.assert_close(read.sum(dim=1), torch.ones(100), rtol=0, atol=1e-3)
    assert torch.equal(read.argmax(dim=1), given.argmax(dim=1))
    # What is lost: how the rest of the classes shared what was left.
    left = 1 - given.topk(128, dim=1).values.sum(dim=1)
    lost = (read - given).abs().sum(dim=1)
    assert (lost <= 2 * left + 2e-3).all()
    memory.write(index, torch.full((100, 1000), 1e-3))
    torch.testing.assert_close(memory.read(index).sum(dim=1), torch.ones(100), rtol=0, atol=1e-3)


@pytest.mark.parametrize(("kept", "most"), [(1000, 2.0), (256, 1.5), (128, 0.75)])
def test_a_million_samples_with_a_thousand_classes_take_less_than_4_gib(kept, most) -> None:
    thousand = Opinions.tables(1000, 1000, kept)
    taken = sum(table.nbytes for table in thousand if table is not None) * 1000
    assert taken < most * 2**30 < 4 * 2**30


# --- a step --------------------------------------------------------------------------------------


class Source:
    """What the method asks of data."""

    closed = 4
    given = np.zeros(6, dtype=np.int64)

    def __len__(self) -> int:
        return 6


def made(**settings: object) -> Posterior:
    """The method for six samples whose images are their logits."""
    method = Posterior(PosteriorSettings(**settings), nn.Identity)
    method.prepare(Source())  # type: ignore[arg-type]
    return method


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


LOGITS = np.random.default_rng(0).normal(scale=2, size=(2, 6, 4))
LABEL = np.array([0, 1, 2, 3, 0, 1])


def take(method: Posterior):
    images = torch.tensor(np.concatenate(list(LOGITS)), dtype=torch.float32)
    return method.step(batch_of(images, torch.tensor(LABEL)), AT)


def cross_entropy(target: np.ndarray) -> np.ndarray:
    logs = [np.log(softmax(view)) for view in LOGITS]
    return -sum((target * log).sum(axis=1) for log in logs) / 2


def test_the_warm_up_learns_given_labels_but_those_it_watches() -> None:
    method = made()
    assert method.watched.sum() == 1
    found = take(method)
    expected = cross_entropy(np.eye(4)[LABEL]) * ~method.watched.numpy()
    assert found.loss.item() == pytest.approx(expected.mean(), rel=1e-5)
    assert (found.group == CLEAN).all()


@pytest.mark.parametrize("weighted", [True, False])
def test_the_loss_in_float64(weighted: bool) -> None:
    method = made(weighted=weighted, history=0.4)
    method.warm.zero_()
    transitions = np.random.default_rng(1).dirichlet(np.ones(4), 4)
    method.transitions.copy_(torch.tensor(transitions))
    method.target_mean.fill_(0.7)
    method.target_variance.fill_(0.05)
    method.foreign.fill_(0.1)
    before = np.random.default_rng(2).dirichlet(np.ones(4), 6)
    method.opinions.write(torch.arange(6), torch.tensor(before).float())
    found = take(method)

    opinion = 0.6 * softmax(LOGITS[0]) + 0.4 * before
    np.testing.assert_allclose(method.opinions.read(torch.arange(6)), opinion, atol=1e-3)
    joint = opinion * transitions.T[LABEL]
    evidence = joint.sum(axis=1)
    posterior = joint / evidence[:, None]
    none = (0.1 / 4) / (0.1 / 4 + 0.9 * evidence)
    below = np.minimum(posterior.max(axis=1) - 0.7, 0)
    weight = np.exp(-2 * below**2 / 0.05) if weighted else np.ones(6)
    target = 0.75 * weight[:, None] * posterior + 0.25 * opinion
    assert found.loss.item() == pytest.approx(cross_entropy(target).mean(), rel=2e-3)
    rows = np.arange(6)
    expected = posterior[rows, LABEL] * (1 - none)
    np.testing.assert_allclose(found.clean_likelihood, expected, atol=2e-3)
    assert found.group.tolist() == [
        OOD if n > 0.5 else CLEAN if p == y else ID
        for n, p, y in zip(none, posterior.argmax(axis=1), LABEL, strict=True)
    ]


def test_what_is_foreign_is_called_so_and_is_doubtful() -> None:
    method = made()
    method.warm.zero_()
    method.foreign.fill_(0.97)
    found = take(method)
    assert (found.group == OOD).any()
    near_even = found.mean_probabilities - 0.25
    assert near_even.abs().max() < 0.05


def test_a_new_label_forgets_the_opinion_that_the_old_one_formed() -> None:
    method = made()
    take(method)
    method.relabel(torch.tensor([2]), torch.tensor([0]))
    assert method.opinions.seen(torch.arange(6)).tolist() == [True, True, False, True, True, True]


# --- the warm-up ---------------------------------------------------------------------------------


def ended(gains: list[float], spread: float = 0.05) -> int:
    """The first epoch after the warm-up, if watched labels are predicted so well."""
    method = made(warm_up_least=4, warm_up_most=20, window=2)
    method.watched.fill_(True)
    label = torch.tensor(LABEL)
    for epoch, gain in enumerate(gains, start=1):
        for row, own in enumerate(gain + spread * np.array([-1, 1, -1, 1, -1, 1])):
            opinion = torch.full((1, 4), (1 - float(own)) / 3)
            opinion[0, label[row]] = own
            method.opinions.write(torch.tensor([row]), opinion)
        if not method._warms_up(epoch, label):
            return epoch
    raise AssertionError


def test_it_goes_on_while_labels_that_are_not_learned_are_predicted_better() -> None:
    rising = [0.25 + 0.03 * epoch for epoch in range(1, 25)]
    slowed = [min(value, 0.5) for value in rising]
    assert ended(rising) == 20
    assert 8 <= ended(slowed) <= 12
    assert ended([0.6] * 25) == 4


def test_it_goes_on_while_chance_could_predict_as_well() -> None:
    assert ended([0.27] * 25) == 20


# --- whole runs ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_true_and_test_labels_leave_no_trace_in_weights() -> None:
    config = configure(
        "digits-o", noise="asymmetric", rate=0.3, method="posterior", epochs=3,
        layers=[{"model": {"width": 0.1}, "method": {"warm_up_least": 1, "warm_up_most": 1}}],
    )  # fmt: skip
    source = open_source(config.data)
    generator = np.random.default_rng(0)
    other = replace(
        source,
        true=generator.permutation(source.true),
        test_labels=generator.permutation(source.test_labels),
    )
    states = []
    for data in (source, other):
        state = TrainState(config, data, torch.device("cpu"))
        for epoch in range(3):
            state.begin_epoch(config, epoch)
            for size in state.loader.sizes():
                state.train_step(size)
            state.end_epoch()
        states.append(state.method.state_dict())
        assert not state.method.warm
    for name, value in states[0].items():
        assert torch.equal(states[1][name], value), name
    assert len(states[0]["foreign"]) == CONFIDENCE_HEAPS


@pytest.mark.slow
def test_with_many_classes_labelled_asymmetrically_it_is_ahead(tmp_path: Path) -> None:
    reached = {
        key: josrc.train(
            "digits-o", method=key, noise="asymmetric", rate=0.4, out=tmp_path / key
        ).summary["last10_mean"]
        for key in ("standard", "josrc", "posterior")
    }
    assert reached["posterior"] > reached["standard"] + 5
    assert reached["posterior"] >= reached["josrc"]
