"""``create_model``: a backbone by name, a head, and weights from timm or from a file."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from josrc.errors import UserError, sentence
from josrc.models.cnn7 import CNN7
from josrc.models.head import create_head
from josrc.models.preactresnet import PreActResNet18
from josrc.models.pretrained import OWN_MODELS, FoundWeights, find_weights, timm_config
from josrc.models.weights import load_weights


class Classifier(nn.Module):
    """A backbone that turns images into features, and a head that turns features into logits."""

    def __init__(self, backbone: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head

    @property
    def num_features(self) -> int:
        """How many features the head takes."""
        return next(m.in_features for m in self.head.modules() if isinstance(m, nn.Linear))

    def features(self, images: Tensor) -> Tensor:
        """What the head takes, ``(batch, features)``.

        Args:
            images: ``(batch, channels, height, width)``; or their features, which stay as they are:
                where the backbone is frozen they are computed once and stand for the images.
        """
        features: Tensor = images if images.dim() == 2 else self.backbone(images)
        return features

    def freeze_backbone(self) -> None:
        """Train the head alone from now on."""
        self.backbone.requires_grad_(False)

    def forward(self, images: Tensor) -> Tensor:
        """Logits ``(batch, classes)`` of images or of their features."""
        logits: Tensor = self.head(self.features(images))
        return logits


def feature_extractor(network: nn.Module) -> Callable[[Tensor], Tensor]:
    """From images to what the head of a network sees."""
    return (
        network.features if isinstance(network, Classifier) else network.get_submodule("backbone")
    )


def create_model(
    name: str,
    classes: int,
    *,
    in_channels: int = 3,
    image_size: tuple[int, int] = (32, 32),
    head: str = "mlp",
    width: float = 1.0,
    pretrained: bool = False,
    weights: Path | None = None,
) -> Classifier:
    """A classifier ready to train.

    Args:
        name: ``cnn7``, ``preactresnet18`` or any name timm knows.
        classes: number of logits.
        in_channels: channels of the images.
        image_size: height and width of the images.
        head: ``mlp`` or ``linear``.
        width: scales the channels of ``cnn7``; others have names for their sizes.
        pretrained: start from published weights, as ``find_weights`` finds them.
        weights: a safetensors file or a PyTorch state dict to start from, instead of those.
            Whatever of it does not fit the head is left out; a backbone that does not fit is an
            error.
    """
    # A file holds the whole backbone: nothing has to come over the network.
    fetched = pretrained and weights is None
    backbone, features = _backbone(name, in_channels, image_size, width, fetched)
    model = Classifier(backbone, create_head(head, features, classes))
    if weights is not None:
        load_weights(model, weights)
    return model


# Channel means and deviations of ImageNet, which the published code takes for every data set.
IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def expected_images(name: str) -> tuple[int, tuple[float, ...], tuple[float, ...]]:
    """Image size, channel means and deviations a network is made for: timm's data config."""
    if name == "cnn7":
        return 32, *IMAGENET
    import timm

    base = name.removeprefix("hf-hub:")
    if "/" in name or not timm.is_model(base.split(".")[0]):
        return 224, *IMAGENET
    known = timm_config(base)
    if known is None:
        return 224, *IMAGENET
    return int(known.input_size[-1]), tuple(known.mean), tuple(known.std)


def _backbone(
    name: str, in_channels: int, image_size: tuple[int, int], width: float, pretrained: bool
) -> tuple[nn.Module, int]:
    if name in OWN_MODELS and pretrained:
        find_weights(name)  # says that there are none
    if name == "preactresnet18":
        return PreActResNet18(in_channels), PreActResNet18.num_features
    if name == "cnn7":
        if min(image_size) < 8:
            raise UserError(f"cnn7 needs images of at least 8x8 pixels, not {image_size}.")
        cnn = CNN7(in_channels, image_size, width)
        return cnn, cnn.num_features
    import timm

    base = name.split(".")[0].removeprefix("hf-hub:")
    if "/" not in name and not timm.is_model(base):
        near = difflib.get_close_matches(base, [*OWN_MODELS, *timm.list_models()], n=3, cutoff=0.6)
        hint = f" Did you mean {' or '.join(near)}?" if near else " Known: cnn7 and timm's models."
        raise UserError(f"Unknown model '{name}'.{hint}")
    found = find_weights(name) if pretrained else None
    model = _timm_model(name, in_channels, image_size, found)
    _try_out(model, name, in_channels, image_size)
    features: Any = getattr(model, "head_hidden_size", None) or model.num_features
    return model, int(features)


def _timm_model(
    name: str, in_channels: int, image_size: tuple[int, int], found: FoundWeights | None
) -> Any:
    import timm

    options: dict[str, Any] = {"num_classes": 0, "in_chans": in_channels}
    if found is not None:
        options |= {"pretrained": True} | found.timm_options(name)
    try:
        try:
            return timm.create_model(name, **options, img_size=image_size)
        except TypeError:  # most convolutional networks take any size and no such argument
            return timm.create_model(name, **options)
    except Exception as error:
        if found is None:
            raise _wrong_size(name, image_size) from error
        raise UserError(
            f"The weights of {name} from {found.origin} can't be used: {sentence(error)}\n"
            f"If {found.path} is damaged, delete it and try again; or pass --weights FILE."
        ) from None


def _try_out(model: nn.Module, name: str, in_channels: int, image_size: tuple[int, int]) -> None:
    """Forward one empty image: many backbones can't take every size."""
    training = model.training
    try:
        with torch.no_grad():
            model.eval()(torch.zeros(1, in_channels, *image_size))
    except (RuntimeError, AssertionError, ZeroDivisionError, ValueError) as error:
        raise _wrong_size(name, image_size) from error
    model.train(training)


def _wrong_size(name: str, image_size: tuple[int, int]) -> UserError:
    height, width = image_size
    return UserError(
        f"{name} does not accept images of {height} x {width}; try --image-size 32 or 224."
    )
