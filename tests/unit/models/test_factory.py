"""Networks by name."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from josrc.errors import UserError
from josrc.models import create_model


def test_a_file_takes_the_place_of_pretrained_weights(tmp_path: Path) -> None:
    saved = create_model("cnn7", 10).state_dict()
    torch.save(saved, tmp_path / "weights.pt")
    model = create_model("cnn7", 10, pretrained=True, weights=tmp_path / "weights.pt")
    assert all(torch.equal(value, saved[key]) for key, value in model.state_dict().items())


def test_cnn7_has_no_pretrained_weights() -> None:
    with pytest.raises(UserError, match="no pretrained weights for cnn7; use --weights"):
        create_model("cnn7", 10, pretrained=True)


@pytest.mark.parametrize("head", ["mlp", "linear"])
@pytest.mark.parametrize(
    "name", ["resnet18", "mobilenetv3_small_050", "vit_tiny_patch16_224", "test_convnext"]
)
def test_a_timm_backbone_trains_at_32_pixels(name: str, head: str) -> None:
    model = create_model(name, 7, head=head)
    logits = model(torch.rand(3, 3, 32, 32))
    assert logits.shape == (3, 7)
    logits.logsumexp(dim=1).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_a_timm_backbone_takes_images_of_one_channel() -> None:
    model = create_model("test_resnet", 7, in_channels=1, image_size=(8, 8))
    assert model(torch.rand(2, 1, 8, 8)).shape == (2, 7)


@pytest.mark.parametrize(
    ("name", "meant"), [("resnet_18", "resnet18"), ("cnn9", "cnn7"), ("resnet18x.tv", "resnet18")]
)
def test_a_misspelt_model_is_answered_with_near_ones(name: str, meant: str) -> None:
    with pytest.raises(UserError, match=rf"Unknown model '{name}'.*{meant}"):
        create_model(name, 10)


def test_a_backbone_that_can_not_see_images_so_small_is_a_mistake_with_a_message() -> None:
    with pytest.raises(UserError, match="test_vit"):
        create_model("test_vit", 10, image_size=(8, 8))(torch.rand(2, 3, 8, 8))
