"""What a state makes of its configuration."""

from __future__ import annotations

import pytest
import torch

from josrc.data.registry import open_source
from josrc.engine.state import TrainState
from josrc.runs.start import configure


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
