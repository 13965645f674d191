"""PreAct ResNet-18."""

from __future__ import annotations

import pytest
import torch

from josrc.errors import UserError
from josrc.models import create_model
from networks import count


def test_preactresnet18_has_as_many_weights_as_its_layers_say() -> None:
    stages = [(64, 64), (64, 128), (128, 256), (256, 512)]
    convolutions = 3 * 64 * 9
    norms = 2 * 512
    for inputs, outputs in stages:
        convolutions += 9 * (inputs * outputs + 3 * outputs * outputs)
        convolutions += inputs * outputs if inputs != outputs else 0
        norms += 2 * (inputs + 3 * outputs)
    model = create_model("preactresnet18", 100, head="linear")
    assert count(model) == convolutions + norms + 512 * 100 + 100
    assert model.num_features == 512


@pytest.mark.parametrize(("size", "channels"), [((32, 32), 3), ((8, 8), 1)])
def test_preactresnet18_takes_small_images(size: tuple[int, int], channels: int) -> None:
    model = create_model("preactresnet18", 7, in_channels=channels, image_size=size).eval()
    features = model.backbone(torch.randn(2, channels, *size))
    assert features.shape == (2, 512)
    assert (features >= 0).all()
    with pytest.raises(UserError, match="no pretrained weights for preactresnet18"):
        create_model("preactresnet18", 7, pretrained=True)
