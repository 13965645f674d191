"""A run's networks as one file that needs no josrc: ONNX, or a program of ``torch.export``.

Beside the file lies a card, ``FILE.json``: what has to be done to a picture before the model sees
it, and what its numbers mean. Nothing is called done before the file was read back and gave the
same probabilities as the run's own networks.
"""

from __future__ import annotations

import importlib.metadata
import io
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.export import ExportedProgram

from josrc._io import atomic_write, write_text
from josrc._reading import regular
from josrc._version import __version__
from josrc.data.decode import FLOATS_TIMES, SIXTEEN_BIT_BY
from josrc.errors import UserError, closest, install_command
from josrc.models import mean_probabilities
from josrc.runs.predictor import Predictor

INPUT, OUTPUT = "images", "probabilities"
# Batches that the file is checked with: a single image, and another number than it was traced with.
CHECKED_BATCHES = (1, 5)
# Differences of a probability that count as the same: absolute, and as a share of it.
ABSOLUTE_TOLERANCE, RELATIVE_TOLERANCE = 1e-5, 1e-3
# An ONNX file is one protobuf message, which can't be larger.
MAX_ONNX_BYTES = 2**31 - 2**20


class ExportModule(nn.Module):
    """From normalised images to the mean probabilities of all networks that the run tests."""

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.networks = nn.ModuleList(predictor.networks)
        self.size = predictor.normalise(torch.device("cpu")).size

    def forward(self, images: Tensor) -> Tensor:
        """Probabilities ``(batch, classes)``."""
        if self.size is not None:  # the network sees them larger or smaller than they are
            images = nn.functional.interpolate(images, self.size, mode="bilinear")
        return mean_probabilities(list(self.networks), images)


def export(predictor: Predictor, kind: str, path: Path, metadata: dict[str, Any]) -> dict[str, Any]:
    """Write a model and its card; returns the card.

    Args:
        predictor: the networks.
        kind: ``onnx`` or ``torch``.
        path: the file.
        metadata: which run and weights these are.
    """
    chosen = format_of(kind)
    model = ExportModule(predictor).cpu().eval()
    size = sum(t.numel() * t.element_size() for t in model.state_dict().values())
    if kind == "onnx" and size > MAX_ONNX_BYTES:
        raise UserError(
            f"An ONNX file holds up to 2 GiB, this model {size / 2**30:.1f}. Use --format torch."
        )
    shape = (predictor.spec.channels, *predictor.spec.size)
    with atomic_write(path) as partial, torch.no_grad(), warnings.catch_warnings(action="ignore"):
        batch = {0: torch.export.Dim("batch", min=1)}
        program = torch.export.export(model, (_examples(3, shape),), dynamic_shapes=(batch,))
        chosen.write(program, partial)
        batches = [_examples(count, shape) for count in CHECKED_BATCHES]
        theirs = np.concatenate([chosen.read(partial, images) for images in batches])
        ours = np.concatenate([model(images).numpy() for images in batches])
        difference = float(np.abs(theirs - ours).max())
        if not np.allclose(theirs, ours, rtol=RELATIVE_TOLERANCE, atol=ABSOLUTE_TOLERANCE):
            partial.unlink()
            raise UserError(
                f"The exported model differs from the run's by {difference:.2g} in a probability. "
                f"{path} was not written."
            )
    version = importlib.metadata.version(chosen.library)
    checked = {
        "with": f"{chosen.library} {version}",
        "images": len(ours),
        "largest_difference": difference,
    }
    card = card_of(predictor) | {"checked": checked}
    card = {"josrc": __version__, "format": kind, "file": path.name, **metadata, **card}
    write_text(card_path(path), json.dumps(card, indent=2) + "\n")
    return card


def card_path(path: Path) -> Path:
    """Where the card of an exported file lies."""
    return path.with_name(f"{path.name}.json")


def card_of(predictor: Predictor) -> dict[str, Any]:
    """What has to be done to a picture, and what comes out."""
    spec, standardised = predictor.spec, predictor.config.views.normalise
    tall, wide, channels = spec.tile
    height, width = spec.size
    mean = list(spec.mean) if standardised else [0.0] * channels
    std = list(spec.std) if standardised else [1.0] * channels
    colour: dict[str, Any] = {"step": "colour", "to": "RGB" if channels == 3 else "grey"}
    # How grey values of more than 8 bits become 0 to 255, rounded and clipped.
    depth = {"16_bit_by": SIXTEEN_BIT_BY, "floats_times": FLOATS_TIMES}
    steps: list[dict[str, Any]] = [
        {"step": "upright", "by": "EXIF orientation"},
        {**colour, "transparent": "white", **depth},
        {"step": "crop", "to": "the largest square in the middle"},
        {"step": "resize", "height": tall, "width": wide, "filter": "bilinear, antialiased"},
        {"step": "crop", "to": "the middle", "height": height, "width": width},
    ]
    if tall != wide:  # arrays of another shape, which are never cut
        steps = [colour]
    steps += [{"step": "divide", "by": 255}, {"step": "normalise", "mean": mean, "std": std}]
    return {
        "model": predictor.config.model.name,
        "networks": len(predictor.networks),
        "preprocessing": steps,
        "input": {
            "name": INPUT,
            "type": "float32",
            "layout": "NCHW",
            "shape": ["batch", channels, height, width],
        },
        "output": {
            "name": OUTPUT,
            "type": "float32",
            "shape": ["batch", len(predictor.class_names)],
        },
        "classes": predictor.class_names,
    }


# --- formats -------------------------------------------------------------------------------------


def _write_onnx(program: ExportedProgram, path: Path) -> None:
    names = {"input_names": [INPUT], "output_names": [OUTPUT]}
    found = torch.onnx.export(program, **names, dynamo=True, verbose=False)  # type: ignore[arg-type]
    assert found is not None
    found.save(path, external_data=False)


def _read_onnx(path: Path, images: Tensor) -> NDArray[Any]:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    probabilities: NDArray[Any] = session.run([OUTPUT], {INPUT: images.numpy()})[0]
    return probabilities


def _write_torch(program: ExportedProgram, path: Path) -> None:
    # Through memory: torch would have a file end in .pt2, and crashes on a full disk.
    content = io.BytesIO()
    torch.export.save(program, content)
    path.write_bytes(content.getbuffer())


def _read_torch(path: Path, images: Tensor) -> NDArray[Any]:
    with regular(path).open("rb") as file:
        loaded = torch.export.load(file)
    found: Tensor = loaded.module()(images)
    return found.numpy()


@dataclass(frozen=True)
class Format:
    """A kind of file.

    Attributes:
        suffix: how its name ends.
        write: writes an exported program.
        read: reads the file back and gives its probabilities of some images.
        library: what reads it.
        needed: packages that are not among josrc's own.
    """

    suffix: str
    write: Callable[[ExportedProgram, Path], None]
    read: Callable[[Path, Tensor], NDArray[Any]]
    library: str
    needed: tuple[str, ...] = ()


FORMATS = {
    "onnx": Format(
        ".onnx", _write_onnx, _read_onnx, "onnxruntime", ("onnx", "onnxscript", "onnxruntime")
    ),
    "torch": Format(".pt2", _write_torch, _read_torch, "torch"),
}


def format_of(kind: str) -> Format:
    """The format of a name, if what it needs is installed."""
    if kind not in FORMATS:
        raise UserError(f"There is no format '{kind}'.{closest(kind, [*FORMATS, 'hf'])}")
    for name in FORMATS[kind].needed:
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            raise UserError(f"--format {kind} needs {name}: {install_command(kind)}") from None
    return FORMATS[kind]


def _examples(count: int, shape: tuple[int, ...]) -> Tensor:
    """Images of noise, the same every time."""
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(count))
