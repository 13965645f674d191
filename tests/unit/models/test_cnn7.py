"""The paper's network."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from josrc.errors import UserError
from josrc.models import create_model
from networks import count

CONVOLUTIONS = [(64, 64), (128, 128), (196, 16)]


CONVOLUTION_BIASES = 64 + 64 + 128 + 128 + 196 + 16  # ours has none; the published counts do


@pytest.mark.parametrize(
    ("classes", "head", "published"),
    [(100, "linear", 541_280), (80, "linear", 536_140), (100, "mlp", 699_488)],
)
def test_cnn7_has_the_published_parameters_without_convolution_biases(
    classes: int, head: str, published: int
) -> None:
    model = create_model("cnn7", classes, head=head)
    assert count(model) == published - CONVOLUTION_BIASES
    assert all(m.bias is None for m in model.modules() if isinstance(m, nn.Conv2d))


@pytest.mark.parametrize(
    ("channels", "size", "features"), [(3, (32, 32), 256), (1, (8, 8), 16), (3, (32, 16), 128)]
)
def test_cnn7_halves_the_image_after_every_two_convolutions(
    channels: int, size: tuple[int, int], features: int
) -> None:
    model = create_model("cnn7", 10, in_channels=channels, image_size=size)
    shapes: list[tuple[int, ...]] = []
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.MaxPool2d):
            module.register_forward_hook(lambda *call: shapes.append(tuple(call[2].shape[1:])))
    logits = model(torch.rand(2, channels, *size))
    height, width = size
    expected = []
    for block in CONVOLUTIONS:
        expected += [(outputs, height, width) for outputs in block]
        height, width = height // 2, width // 2
        expected.append((block[-1], height, width))
    assert shapes == expected
    assert model.backbone.num_features == features
    assert logits.shape == (2, 10)


def test_cnn7_refuses_images_that_three_poolings_would_empty() -> None:
    with pytest.raises(UserError, match=r"at least 8x8.*\(7, 32\)"):
        create_model("cnn7", 10, image_size=(7, 32))
