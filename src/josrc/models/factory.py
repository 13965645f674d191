"""``create_model``: a backbone by name, a head, and weights from timm or from a file."""

from __future__ import annotations

import difflib
import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from josrc.errors import UserError, sentence
from josrc.models.cnn7 import CNN7
from josrc.models.head import create_head
from josrc.models.preactresnet import PreActResNet18

OWN_MODELS = ("cnn7", "preactresnet18")


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

    def forward(self, images: Tensor) -> Tensor:
        """Logits ``(batch, classes)``."""
        logits: Tensor = self.head(self.backbone(images))
        return logits


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
        pretrained: load timm's pretrained weights for the backbone.
        weights: a safetensors file or a PyTorch state dict to start from, in place of timm's.
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
    known = timm.get_pretrained_cfg(base, allow_unregistered=True)
    if known is None:
        return 224, *IMAGENET
    return int(known.input_size[-1]), tuple(known.mean), tuple(known.std)


def _backbone(
    name: str, in_channels: int, image_size: tuple[int, int], width: float, pretrained: bool
) -> tuple[nn.Module, int]:
    if name in OWN_MODELS and pretrained:
        raise UserError(f"There are no pretrained weights for {name}; use --weights FILE.")
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
    kwargs: dict[str, Any] = {"pretrained": pretrained, "num_classes": 0, "in_chans": in_channels}
    try:
        try:
            model = timm.create_model(name, **kwargs, img_size=image_size)
        except TypeError:  # most convolutional networks take any size and no such argument
            model = timm.create_model(name, **kwargs)
    except Exception as error:
        if not pretrained:
            raise _wrong_size(name, image_size) from error
        raise UserError(
            f"timm could not load pretrained weights for {name}: {sentence(error)}\n"
            "Without a network, pass --weights FILE."
        ) from None
    _try_out(model, name, in_channels, image_size)
    features: Any = getattr(model, "head_hidden_size", None) or model.num_features
    return model, int(features)


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
    return UserError(f"{name} can't take images of {height} x {width}; try --image-size 32 or 224.")


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file or a state dict; nothing in the file is ever executed."""
    if not path.is_file():
        raise UserError(f"Weights file {path} does not exist.")
    try:
        if path.suffix == ".safetensors":
            return dict(load_file(path))
        with warnings.catch_warnings(action="ignore"):
            values = torch.load(path, map_location="cpu", weights_only=True)
    except SafetensorError as error:
        raise UserError(f"{path} can't be read as weights: {error}") from None
    except Exception:  # torch has no list of what a file that is no checkpoint raises
        raise UserError(
            f"{path} can't be read as weights: it is damaged, or holds Python objects other than "
            "tensors, which josrc never executes. Save a state_dict() or a safetensors file."
        ) from None
    for key in ("state_dict", "model"):
        if isinstance(values, dict) and isinstance(values.get(key), dict):
            values = values[key]
    if not isinstance(values, dict) or not values:
        raise UserError(f"{path} holds no state dict.")
    if not all(isinstance(k, str) and isinstance(v, Tensor) for k, v in values.items()):
        raise UserError(f"{path} holds no state dict.")
    return values


# Where torchvision and timm keep the classifier of a plain backbone.
CLASSIFIERS = ("fc.", "head.", "classifier.", "last_linear.")
# Counts batches only; PyTorch itself fills it in when an old file lacks it.
OPTIONAL = "num_batches_tracked"


def load_weights(model: Classifier, path: Path) -> None:
    """Copy weights into a classifier from a josrc file or from a plain backbone's file."""
    values = read_weights(path)
    for prefix in ("module.", "network."):
        values = {key.removeprefix(prefix): value for key, value in values.items()}
    if not any(key.startswith("backbone.") for key in values):
        values = {f"backbone.{key}": v for key, v in values.items() if not _is_classifier(key)}
    own = model.state_dict()
    _check_backbone(path, own, values)
    heads = {key for key in own if key.startswith("head.")}
    fits = heads <= values.keys() and all(values[k].shape == own[k].shape for k in heads)
    wanted = {key for key in own if key in values and (fits or key not in heads)}
    model.load_state_dict({key: values[key] for key in wanted}, strict=False)


def _is_classifier(key: str) -> bool:
    return key.startswith(CLASSIFIERS)


def _check_backbone(path: Path, own: dict[str, Tensor], values: dict[str, Tensor]) -> None:
    """Every tensor of the backbone must be there in its shape, and no other."""
    ours = {key for key in own if key.startswith("backbone.") and not key.endswith(OPTIONAL)}
    theirs = {key for key in values if key.startswith("backbone.") and not key.endswith(OPTIONAL)}
    for key in sorted(ours - theirs):
        _misfit(path, f"it lacks {key.removeprefix('backbone.')}")
    for key in sorted(theirs - ours):
        _misfit(path, f"it holds {key.removeprefix('backbone.')}, which this model lacks")
    for key in sorted(ours):
        here, there = tuple(own[key].shape), tuple(values[key].shape)
        if here != there:
            name = key.removeprefix("backbone.")
            _misfit(path, f"{name} has shape {there} there and {here} here")


def _misfit(path: Path, reason: str) -> None:
    raise UserError(f"{path} does not fit this model: {reason}.")
