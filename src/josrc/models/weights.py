"""Weights in files: read without executing anything, and checked against a network."""

from __future__ import annotations

import warnings
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from josrc._reading import regular
from josrc.errors import UserError
from josrc.models.pretrained import check_file


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file or a state dict; nothing in the file is ever executed."""
    check_file(path)
    try:
        if path.suffix == ".safetensors":
            return dict(load_file(regular(path)))
        with warnings.catch_warnings(action="ignore"):
            values = torch.load(regular(path), map_location="cpu", weights_only=True)
    except SafetensorError as error:
        raise UserError(f"{path} can't be read as weights: {error}") from None
    except Exception:  # torch has no list of what a file that is not a checkpoint raises
        raise UserError(
            f"{path} can't be read as weights: it is damaged, or holds Python objects other than "
            "tensors, which josrc never executes. Save a state_dict() or a safetensors file."
        ) from None
    for key in ("state_dict", "model"):
        if isinstance(values, dict) and isinstance(values.get(key), dict):
            values = values[key]
    if not isinstance(values, dict) or not values:
        raise UserError(f"{path} does not hold a state dict.")
    if not all(isinstance(k, str) and isinstance(v, Tensor) for k, v in values.items()):
        raise UserError(f"{path} does not hold a state dict.")
    return values


# Where torchvision and timm keep the classifier of a plain backbone.
CLASSIFIERS = ("fc.", "head.", "classifier.", "last_linear.")
# Counts batches only; PyTorch itself fills it in when an old file lacks it.
OPTIONAL = "num_batches_tracked"


def load_weights(model: nn.Module, path: Path) -> None:
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
