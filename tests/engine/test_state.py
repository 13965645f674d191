"""What a program makes of its configuration."""

from __future__ import annotations

import pytest
import torch

from josrc.data.source import load_source
from josrc.engine.state import Program
from josrc.runs.start import configure


@pytest.mark.parametrize("normalise", [True, False])
def test_images_are_standardised_unless_told_otherwise(normalise: bool) -> None:
    layers = [{"views": {"normalise": normalise}}]
    config = configure("digits-o", method="standard", layers=layers)
    program = Program(config, load_source(config.data), torch.device("cpu"))
    program.begin_epoch(config, 0)
    images = program.loader.fetch(128).images
    assert (images.min() < 0) == normalise
    if not normalise:
        assert (images.min(), images.max()) == (0, 1)
