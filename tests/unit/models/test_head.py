"""Heads."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from josrc.models.head import create_head


def test_the_mlp_head_is_initialised_as_kaiming_normal_with_zero_biases() -> None:
    torch.manual_seed(0)
    head = create_head("mlp", 256, 100)
    layers = [m for m in head.modules() if isinstance(m, nn.Linear)]
    assert [tuple(m.weight.shape) for m in layers] == [(512, 256), (100, 512)]
    for layer in layers:
        std = math.sqrt(2 / layer.in_features)
        assert layer.weight.std().item() == pytest.approx(std, rel=0.02)
        assert layer.weight.mean().item() == pytest.approx(0, abs=std / 50)
        beyond = (layer.weight.abs() > 2 * std).float().mean().item()
        assert beyond == pytest.approx(math.erfc(math.sqrt(2)), abs=0.005)  # none, were it uniform
        assert layer.bias.count_nonzero() == 0


def test_an_unknown_head_is_refused() -> None:
    with pytest.raises(ValueError, match="'cosine'"):
        create_head("cosine", 8, 2)
