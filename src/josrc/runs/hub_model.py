"""A run's network as timm and the Hugging Face hub have theirs: weights, a configuration, a card.

``timm.create_model("local-dir:FOLDER", pretrained=True)`` reads the folder, and with
``hf-hub:OWNER/NAME`` whatever account it is uploaded to. Success is reported only once that has
been tried.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import timm
import torch
from torch import Tensor, nn

from josrc._io import atomic_write, write_text
from josrc.errors import UserError, sentence
from josrc.models.factory import Classifier
from josrc.models.pretrained import OWN_MODELS
from josrc.runs.model_card import model_card
from josrc.runs.predictor import Predictor
from josrc.runs.run import Run

WEIGHTS, SETTINGS, CARD = "model.safetensors", "config.json", "README.md"
# Differences of a probability that count as the same, and images that are tried.
TOLERANCE, TRIED_IMAGES = 1e-5, 4


def write_hub_model(run: Run, folder: Path, *, last: bool = False) -> dict[str, Any]:
    """Write the folder; returns what was checked.

    Args:
        run: whose network it is.
        folder: where it goes; only files of these names are replaced.
        last: the last weights, and not the best.
    """
    predictor = run.predictor(last)
    network = exportable(predictor)
    name = predictor.config.model.name
    model = timm_model(network, predictor, name)
    settings = settings_of(predictor, model, name)
    from safetensors.torch import save_file

    with atomic_write(folder / WEIGHTS) as partial:
        save_file({key: value.contiguous() for key, value in model.state_dict().items()}, partial)
    write_text(folder / SETTINGS, json.dumps(settings, indent=2) + "\n")
    write_text(folder / CARD, model_card(run, predictor, settings, last=last))
    try:
        read: Any = timm.create_model(f"local-dir:{folder.absolute()}", pretrained=True)
    except Exception as error:  # timm may find anything wrong
        raise _not_done(folder, sentence(error)) from None
    shape = (predictor.spec.channels, *_size(predictor))
    images = torch.randn(TRIED_IMAGES, *shape, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        ours, theirs = (one.eval()(images).softmax(dim=1) for one in (network, read))
    difference = float((ours - theirs).abs().max())
    if not difference <= TOLERANCE:
        raise _not_done(folder, f"a probability differs by {difference:.2g}.")
    return {"with": f"timm {timm.__version__}", "largest_difference": difference}


def _not_done(folder: Path, why: str) -> UserError:
    for name in (WEIGHTS, SETTINGS, CARD):
        (folder / name).unlink(missing_ok=True)
    return UserError(f"timm does not read the exported network: {why} Use --format onnx.")


def exportable(predictor: Predictor) -> Classifier:
    """The network, if timm has such a one; else an error that says what can be exported so."""
    name, networks = predictor.config.model.name, predictor.networks
    instead = "Use --format onnx or torch, which hold any network."
    if len(networks) != 1 or not isinstance(networks[0], Classifier):
        raise UserError(
            f"--format hf holds one network, and {predictor.config.method.name} answers with the "
            f"mean of {len(networks)}. {instead}"
        )
    if name in OWN_MODELS:
        raise UserError(f"timm does not know {name}, so --format hf can't hold it. {instead}")
    if not isinstance(networks[0].head, nn.Linear):
        raise UserError(
            "timm's networks end in one layer, and this head has two. Train with "
            f"model.head=linear (as --train head does) to export it as hf. {instead}"
        )
    return networks[0]


def timm_model(network: Classifier, predictor: Predictor, name: str) -> nn.Module:
    """Timm's network of that name, with the weights of the run's backbone and head."""
    model: Any = timm.create_model(
        name.removeprefix("hf-hub:"), num_classes=len(predictor.class_names), **_options(predictor)
    )
    tensors: dict[str, Tensor] = dict(network.backbone.state_dict())
    own = model.state_dict()
    layer = next(
        (key for key, module in model.named_modules() if module is model.get_classifier()), None
    )
    if layer is None or not isinstance(model.get_classifier(), nn.Linear):
        raise UserError(f"{name} has no single last layer: --format hf can't hold it. Use onnx.")
    tensors |= {f"{layer}.{key}": value for key, value in network.head.state_dict().items()}
    fits = own.keys() == tensors.keys() and all(own[k].shape == v.shape for k, v in tensors.items())
    if not fits:
        raise UserError(f"{name} is another network in timm with classes than without. Use onnx.")
    model.load_state_dict(tensors)
    return model.cpu().eval()  # type: ignore[no-any-return]


def _options(predictor: Predictor) -> dict[str, Any]:
    """What the network was made with besides its name."""
    options: dict[str, Any] = {}
    if predictor.spec.channels != 3:
        options["in_chans"] = predictor.spec.channels
    name = predictor.config.model.name.removeprefix("hf-hub:")
    try:
        timm.create_model(name, num_classes=0, img_size=_size(predictor))
    except TypeError:  # most convolutional networks take any size and no such argument
        return options
    return options | {"img_size": list(_size(predictor))}


def _size(predictor: Predictor) -> tuple[int, int]:
    """Height and width of what the network sees."""
    wanted = predictor.normalise(torch.device("cpu")).size
    height, width = predictor.spec.size if wanted is None else wanted
    return int(height), int(width)


def settings_of(predictor: Predictor, model: Any, name: str) -> dict[str, Any]:
    """``config.json`` as timm writes it."""
    spec, standardised = predictor.spec, predictor.config.views.normalise
    channels, (height, width) = spec.channels, _size(predictor)
    base = name.removeprefix("hf-hub:")
    own = dict(model.pretrained_cfg)
    return {
        "architecture": base.split(".")[0],
        "num_classes": len(predictor.class_names),
        "num_features": int(model.num_features),
        "global_pool": own.get("global_pool", "avg"),
        "pretrained_cfg": {
            "tag": "josrc",
            "custom_load": False,
            "input_size": [channels, height, width],
            "fixed_input_size": bool(own.get("fixed_input_size", False)),
            "interpolation": "bilinear",
            "crop_pct": spec.size[0] / spec.tile[0],
            "crop_mode": "center",
            "mean": list(spec.mean) if standardised else [0.0] * channels,
            "std": list(spec.std) if standardised else [1.0] * channels,
            "num_classes": len(predictor.class_names),
            "pool_size": own.get("pool_size"),
            "first_conv": own.get("first_conv"),
            "classifier": own.get("classifier"),
            "label_names": predictor.class_names,
        },
        "model_args": _options(predictor),
    }
