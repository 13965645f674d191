"""``create_model``: a backbone by name, a head, and weights from timm or from a file."""

from __future__ import annotations

import difflib
import pickle
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from josrc.errors import UserError
from josrc.models.cnn7 import CNN7
from josrc.models.head import create_head


class Classifier(nn.Module):
    """A backbone that turns images into features, and a head that turns features into logits."""

    def __init__(self, backbone: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head

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
    pretrained: bool = False,
    weights: Path | None = None,
) -> Classifier:
    """A classifier ready to train.

    Args:
        name: ``cnn7`` or any name timm knows.
        classes: number of logits.
        in_channels: channels of the images.
        image_size: height and width of the images.
        head: ``mlp`` or ``linear``.
        pretrained: load timm's pretrained weights for the backbone.
        weights: a safetensors file or a PyTorch state dict to start from. Whatever of it does not
            fit the head is left out; a backbone that does not fit is an error.
    """
    backbone, features = _backbone(name, in_channels, image_size, pretrained)
    model = Classifier(backbone, create_head(head, features, classes))
    if weights is not None:
        load_weights(model, weights)
    return model


def _backbone(
    name: str, in_channels: int, image_size: tuple[int, int], pretrained: bool
) -> tuple[nn.Module, int]:
    if name == "cnn7":
        if pretrained:
            raise UserError("There are no pretrained weights for cnn7; use --weights FILE.")
        if min(image_size) < 8:
            raise UserError(f"cnn7 needs images of at least 8x8 pixels, not {image_size}.")
        cnn = CNN7(in_channels, image_size)
        return cnn, cnn.num_features
    import timm

    base = name.split(".")[0].removeprefix("hf-hub:")
    if "/" not in name and not timm.is_model(base):
        near = difflib.get_close_matches(base, ["cnn7", *timm.list_models()], n=3, cutoff=0.6)
        hint = f" Did you mean {' or '.join(near)}?" if near else " Known: cnn7 and timm's models."
        raise UserError(f"Unknown model '{name}'.{hint}")
    kwargs: dict[str, Any] = {"pretrained": pretrained, "num_classes": 0, "in_chans": in_channels}
    try:
        model = timm.create_model(name, **kwargs, img_size=image_size)
    except TypeError:  # most convolutional networks take any size and no such argument
        model = timm.create_model(name, **kwargs)
    except Exception as error:
        if not pretrained:
            raise
        raise UserError(
            f"timm could not load pretrained weights for {name}: {error}\n"
            "Without a network, pass --weights FILE."
        ) from None
    features: Any = getattr(model, "head_hidden_size", None) or model.num_features
    return model, int(features)


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file or a state dict; nothing in the file is ever executed."""
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        raise UserError(f"Weights file {path} does not exist.")
    try:
        if path.suffix == ".safetensors":
            return dict(load_file(path))
        values = torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"{path} can't be read as weights: {reason}") from None
    for key in ("state_dict", "model"):
        if isinstance(values, dict) and isinstance(values.get(key), dict):
            values = values[key]
    if not isinstance(values, dict) or not all(isinstance(v, Tensor) for v in values.values()):
        raise UserError(f"{path} holds no state dict.")
    return values


def load_weights(model: Classifier, path: Path) -> None:
    """Copy weights into a classifier from a josrc file or from a plain backbone's file."""
    values = {key.removeprefix("module."): value for key, value in read_weights(path).items()}
    values = {key.removeprefix("network."): value for key, value in values.items()}
    own = model.state_dict()
    if not any(key.startswith("backbone.") for key in values):
        values = {f"backbone.{key}": value for key, value in values.items()}
    backbone = {key for key in own if key.startswith("backbone.")}
    missing = sorted(key for key in backbone if key not in values)
    if missing:
        raise UserError(f"{path} does not fit this model: it lacks {missing[0].split('.', 1)[1]}.")
    for key in sorted(backbone):
        if values[key].shape != own[key].shape:
            raise UserError(
                f"{path} does not fit this model: {key.split('.', 1)[1]} has shape "
                f"{tuple(values[key].shape)} there and {tuple(own[key].shape)} here."
            )
    heads = {k for k in own if k.startswith("head.")}
    fits = heads <= values.keys() and all(values[k].shape == own[k].shape for k in heads)
    wanted = backbone | heads if fits else backbone
    model.load_state_dict({key: values[key] for key in wanted}, strict=False)
