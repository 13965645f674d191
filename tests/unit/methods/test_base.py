"""What the methods with two networks, and those that keep small losses, have in common."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch import nn

from josrc.errors import UserError
from josrc.methods import get_method
from josrc.methods.base import SmallLossSettings, TwoNetworks, describe_both
from josrc.runs.start import configure

SMALL_LOSS = ["coteaching", "coteaching-plus", "jocor"]


class Pair(TwoNetworks):
    """Two networks and no step."""


def test_the_networks_begin_with_other_weights_and_both_are_tested() -> None:
    torch.manual_seed(0)
    pair = Pair(None, lambda: nn.Linear(3, 2))
    assert not torch.equal(pair.network.weight, pair.second_network.weight)
    assert pair.tested == [pair.network, pair.second_network]
    assert pair.teacher is None
    assert len(list(pair.parameters())) == 4


def test_logits_are_those_of_each_network_in_float32() -> None:
    pair = Pair(None, nn.Identity)
    images = torch.rand(4, 3).bfloat16()
    for logits in pair.predict(images):
        assert logits.dtype == torch.float32
        assert torch.equal(logits, images.float())


def test_two_networks_are_described_sample_by_sample() -> None:
    generator = np.random.default_rng(0)
    first, second = generator.normal(size=(2, 30, 3)) * 2
    label = generator.integers(0, 3, 30)
    p, q = softmax(first, axis=1), softmax(second, axis=1)
    logits = (torch.tensor(z, dtype=torch.float32).requires_grad_() for z in (first, second))
    found = describe_both(*logits, torch.tensor(label))
    assert not any(value.requires_grad for value in found.values())
    np.testing.assert_array_equal(found["prediction"], p.argmax(axis=1))
    np.testing.assert_array_equal(found["second_prediction"], q.argmax(axis=1))
    np.testing.assert_array_equal(found["agreement"], p.argmax(axis=1) == q.argmax(axis=1))
    np.testing.assert_allclose(found["label_probability"], p[range(30), label], rtol=1e-5)
    mean = (p[range(30), label] + q[range(30), label]) / 2
    np.testing.assert_allclose(found["clean_likelihood"], mean, rtol=1e-5)
    np.testing.assert_allclose(found["mean_probabilities"], (p + q) / 2, rtol=1e-5)
    second = found["second_label_probability"]
    np.testing.assert_allclose(second, q[range(30), label], rtol=1e-5)


@pytest.mark.parametrize("key", SMALL_LOSS)
def test_the_forget_rate_comes_from_the_data_unless_it_is_given(key: str) -> None:
    settings = get_method(key).Settings
    assert settings.model_validate({}).with_noise_rate(0.36).forget_rate == 0.36
    assert settings.model_validate({"forget_rate": 0.2}).with_noise_rate(0.36).forget_rate == 0.2
    assert settings.model_validate({"forget_rate": 0.2}).with_noise_rate(None).forget_rate == 0.2
    assert settings.model_validate({"forget_rate": 0.0}).with_noise_rate(0.36).forget_rate == 0


@pytest.mark.parametrize("key", SMALL_LOSS)
def test_a_missing_noise_rate_is_explained(key: str) -> None:
    settings = get_method(key).Settings.model_validate({})
    with pytest.raises(UserError, match=rf"{key} .*such as method\.forget_rate=0\.2\).*noise file"):
        settings.with_noise_rate(None)


def test_the_schedule_without_a_forget_rate_is_explained_too() -> None:
    method = get_method("jocor")
    built = method(method.Settings.model_validate({}), nn.Identity)
    with pytest.raises(UserError, match="forget_rate"):
        built.schedule(0, 200)


@pytest.mark.parametrize("rate", [-0.1, 1.1])
def test_a_forget_rate_is_a_share(rate: float) -> None:
    with pytest.raises(UserError, match=r"method\.forget_rate"):
        configure("digits-o", method="jocor", layers=[{"method": {"forget_rate": rate}}])


@pytest.mark.parametrize("key", SMALL_LOSS)
def test_phases_scale_with_the_run(key: str) -> None:
    long, short = (
        configure("cifar100n-c", method=key, epochs=epochs).method for epochs in (200, 3)
    )
    assert isinstance(long, SmallLossSettings)
    assert isinstance(short, SmallLossSettings)
    assert (long.forget_ramp, short.forget_ramp) == (10, 1)
    rates = [short.with_noise_rate(0.4).forget_rate_at(epoch) for epoch in range(3)]
    assert rates == [0, 0.4, 0.4]
