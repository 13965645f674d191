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
from josrc._version import __version__
from josrc.errors import UserError, sentence
from josrc.models.factory import Classifier
from josrc.models.pretrained import OWN_MODELS
from josrc.runs.predictor import Predictor

WEIGHTS, SETTINGS, CARD = "model.safetensors", "config.json", "README.md"
# Differences of a probability that count as the same, and images that are tried.
TOLERANCE, TRIED_IMAGES = 1e-5, 4


def write_hub_model(
    predictor: Predictor,
    folder: Path,
    summary: dict[str, Any],
    audit: dict[str, Any] | None,
) -> dict[str, Any]:
    """Write the folder; returns what was checked.

    Args:
        predictor: the run's network.
        folder: where it goes; only files of these names are replaced.
        summary: of the run, for the card.
        audit: of its verdicts; none where there are none.
    """
    network = exportable(predictor)
    name = predictor.config.model.name
    model = timm_model(network, predictor, name)
    settings = settings_of(predictor, model, name)
    from safetensors.torch import save_file

    with atomic_write(folder / WEIGHTS) as partial:
        save_file({key: value.contiguous() for key, value in model.state_dict().items()}, partial)
    write_text(folder / SETTINGS, json.dumps(settings, indent=2) + "\n")
    write_text(folder / CARD, card(predictor, settings, summary, audit))
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
    instead = "Use --format onnx or torch, which work for any network."
    if len(networks) != 1 or not isinstance(networks[0], Classifier):
        raise UserError(
            f"--format hf is for a single network, and {predictor.config.method.name} answers "
            f"with the "
            f"mean of {len(networks)}. {instead}"
        )
    if name in OWN_MODELS:
        raise UserError(f"timm does not know {name}, so --format hf can't export it. {instead}")
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
        raise UserError(
            f"{name} has no single last layer, so --format hf can't export it. Use onnx."
        )
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


# --- the card ------------------------------------------------------------------------------------


def card(
    predictor: Predictor,
    settings: dict[str, Any],
    summary: dict[str, Any],
    audit: dict[str, Any] | None,
) -> str:
    """What it was trained on, what was found wrong there, how good it is, and how to use it."""
    data = Path(str(summary["data"])).name
    lines = [
        "---",
        "library_name: timm",
        "pipeline_tag: image-classification",
        "tags:",
        "- image-classification",
        "- timm",
        "- noisy-labels",
        "---",
        f"# {settings['architecture']} trained by josrc on {json.dumps(data, ensure_ascii=False)}",
        "",
        f"{settings['architecture']}, {summary['epochs']} epochs of method "
        f"`{summary['method']}`, seed {summary['seed']}, josrc {__version__}. The weights are "
        f"those of epoch {predictor.epoch}.",
        "",
        "## Training data",
        "",
        f"{settings['num_classes']} classes: {', '.join(map(_quoted, predictor.class_names))}.",
        _noise(summary),
        *_describe_audit(audit),
        "",
        "## Numbers",
        "",
        *_numbers(summary),
        "",
        "## Use",
        "",
        "```python",
        "import timm",
        "",
        'model = timm.create_model("local-dir:FOLDER", pretrained=True).eval()',
        "transform = timm.data.create_transform(**timm.data.resolve_model_data_config(model))",
        "```",
        "",
        "The classes are in the order of `label_names` in `config.json`.",
    ]
    return "\n".join(lines) + "\n"


def _quoted(name: str) -> str:
    """A name as code, whatever is in it."""
    return f"`{name.replace('`', chr(39))}`"


def _noise(summary: dict[str, Any]) -> str:
    if summary.get("noise") in (None, "none"):
        return "The labels are the original ones; none were corrupted on purpose."
    rate = f" of rate {summary['rate']:g}" if summary.get("rate") else ""
    return f"Labels were corrupted on purpose: {summary['noise']}{rate}."


def _describe_audit(audit: dict[str, Any] | None) -> list[str]:
    """What the run's own verdicts say of its labels."""
    if audit is None:
        return []
    counts = audit["counts"]
    low, high = audit.get("noise_rate_low"), audit.get("noise_rate_high")
    between = "" if low is None or high is None else f" ({low:.1%} to {high:.1%})"
    return [
        f"josrc estimates that {audit['noise_rate']:.1%} of the {audit['samples']:,} labels are "
        f"wrong{between}: {counts['mislabelled']:,} images look mislabelled, "
        f"{counts['out_of_distribution']:,} belong to no class."
    ]


def _numbers(summary: dict[str, Any]) -> list[str]:
    """Accuracy, with what it is of; no accuracy is not called one."""
    if summary.get("final") is not None:
        rows = [
            ("mean of the last epochs", summary.get("last10_mean")),
            ("best epoch, chosen on the test images", summary.get("best")),
            ("last epoch", summary["final"]),
        ]
        shown = [f"| {what} | {value:.2f} % |" for what, value in rows if value is not None]
        return ["| test accuracy | |", "|---|---:|", *shown]
    if summary.get("agreement") is not None:
        return [
            f"It predicts {summary['agreement']:.2f} % of held-out given labels, right or "
            "wrong. There were no test images, so no accuracy is known."
        ]
    return ["There were no test images, so no accuracy is known."]
