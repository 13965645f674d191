"""What a state makes of its configuration."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from josrc.data.registry import open_source
from josrc.engine.state import TrainState
from josrc.runs.start import configure
from josrc.selection import kept_count


@pytest.mark.parametrize("normalise", [True, False])
def test_images_are_standardised_unless_told_otherwise(normalise: bool) -> None:
    layers = [{"views": {"normalise": normalise}}]
    config = configure("digits-o", method="standard", layers=layers)
    state = TrainState(config, open_source(config.data), torch.device("cpu"))
    state.begin_epoch(config, 0)
    images = state.loader.fetch(128).images
    assert (images.min() < 0) == normalise
    if not normalise:
        assert (images.min(), images.max()) == (0, 1)


def test_a_forget_rate_reaches_the_step_unrounded_and_all_else_in_float32() -> None:
    """``int((1 - 0.8) * 80)`` is 15, which 0.8 in float32 need not give."""
    layers = [{"method": {"forget_rate": 0.8, "forget_ramp": 0}}]
    config = configure("digits-o", method="coteaching-plus", layers=layers)
    state = TrainState(config, open_source(config.data), torch.device("cpu"))
    assert state.scalars["forget_rate"].item() == 0.8
    assert state.scalars["disagreement"].dtype == torch.float32
    state.begin_epoch(config, 3)
    assert kept_count(state.scalars["forget_rate"], 80).item() == 15


def test_an_epoch_follows_the_order_of_a_method_that_has_one() -> None:
    config = configure("digits-o", method="dividemix", batch_size=32)
    source = open_source(config.data).take(np.arange(100))
    state = TrainState(config, source, torch.device("cpu"))
    warm_up = config.method.warm_up
    state.begin_epoch(config, warm_up - 1)
    assert len(state.loader) == 100
    state.begin_epoch(config, warm_up)
    steps = len(state.loader) // 64  # sixteen labelled, sixteen not, for each of two networks
    assert state.loader.sizes() == [64] * steps
    trusted = state.method.clean_probability > config.method.threshold
    assert steps == int(trusted.sum(dim=1).max()) // 16 + 1
    order = state.loader.order[: len(state.loader)].view(-1, 4)
    assert trusted[1, order[:, 0]].all()
    assert trusted[0, order[:, 2]].all()
    half_way = TrainState(config, source, torch.device("cpu"))
    half_way.load(state.tensors())
    half_way.begin_epoch(config, warm_up, position=64)
    assert torch.equal(half_way.loader.order, state.loader.order)
    assert half_way.loader.cursor == 64
