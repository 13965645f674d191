"""What a trained network says of other images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from josrc._console import MAX_TEXT_LENGTH, clipped
from josrc._io import atomic_csv
from josrc._reading import check_json, regular
from josrc.config import RunConfig
from josrc.data.decode import to_tile
from josrc.data.image_files import ImageFiles
from josrc.data.images import ArrayImages, Images, ImageSpec
from josrc.data.loaders import EvaluationSet
from josrc.data.readers.arrays import images_of
from josrc.data.views import Normalise
from josrc.data.workers import Faults
from josrc.engine.checkpoint import load_tensors
from josrc.engine.device import choose_device
from josrc.engine.run_schemas import WeightsMetadata
from josrc.engine.state import create_method
from josrc.errors import UserError, is_out_of_memory
from josrc.models import mean_probabilities
from josrc.verdicts.findings import doubt_of

# Red, green and blue in grey, as Pillow weighs them.
LUMA = (0.299, 0.587, 0.114)
Probabilities = NDArray[np.float32]
FITS_NOT = "contains networks that don't accept images of the size it names"


class Predictor:
    """The networks of a finished run, ready for images of any origin.

    Attributes:
        class_names: names of the classes, in the order of the probabilities.
        spec: what the networks see of images.
        networks: those that the run tests; their predictions are averaged.
    """

    def __init__(self, config: RunConfig, weights: Path) -> None:
        tensors, metadata = load_tensors(weights)
        if not isinstance(metadata, dict) or "images" not in metadata:
            raise UserError(f"{weights} was written by another version of josrc. Train again.")
        check_json(WeightsMetadata, metadata, weights)
        seen = metadata["images"]
        self.class_names: list[str] = metadata["classes"]
        self.spec = ImageSpec(
            tile=tuple(seen["tile"]),
            mean=tuple(seen["mean"]),
            std=tuple(seen["std"]),
            crop=seen["crop"],
        )
        self.config, self.epoch = config, int(metadata["epoch"])
        method = create_method(config.without_weights(), self.spec, len(self.class_names))
        try:
            method.load_weights(tensors)
        except (ValueError, RuntimeError) as error:
            why = clipped(str(error), MAX_TEXT_LENGTH)
            raise UserError(
                f"{weights} does not contain the networks of this run: {why}. Copy the file again, "
                "or train again."
            ) from None
        method.eval()
        self.weights = weights
        self.networks: list[nn.Module] = method.tested

    def probabilities(self, values: Any, device: str | None = None) -> Probabilities:
        """Probability of each class, ``(N, classes)``, for an array of images or for paths.

        Args:
            values: the images; other sizes than the network's are resized.
            device: another device than the run's.
        """
        images = images_of(values)
        found = [np.zeros((0, len(self.class_names)), dtype=np.float32)]
        for probabilities, faults in self.stream(images, device):
            for index, reason in faults:
                raise UserError(f"{images.location(index)} can't be read: {reason}.")
            found.append(probabilities)
        return np.concatenate(found)

    @torch.no_grad()
    def stream(
        self, images: Images, device: str | None = None, workers: int | None = None
    ) -> Iterator[tuple[Probabilities, Faults]]:
        """Probabilities of each chunk of images, ``(chunk, classes)``, in their order.

        Beside them are the places of images that could not be read, and why; the probabilities
        there mean nothing.

        Args:
            images: pixels or files.
            device: another device than the run's.
            workers: another number of decoding processes than the run's.
        """
        if not len(images):
            return
        place = choose_device(device or self.config.device)
        labels = np.zeros(len(images), dtype=np.int64)
        workers = self.config.data.workers if workers is None else workers
        prepare, size = self._preparation(images, place), self.spec.size
        chunks = EvaluationSet(self._tiles(images), labels, prepare, size, place, workers)
        networks = [network.to(place) for network in self.networks]
        for chunk, faults in chunks.with_faults():
            try:
                found = mean_probabilities(networks, chunk).cpu().numpy()
            except RuntimeError as error:
                if is_out_of_memory(error):
                    raise
                why = clipped(str(error), MAX_TEXT_LENGTH)
                raise UserError(f"{self.weights} {FITS_NOT}: {why}") from None
            yield found, faults

    def normalise(self, device: torch.device) -> Normalise:
        """From pixels to what the networks expect."""
        model, views = self.config.model, self.config.views
        return Normalise(self.spec, model.image_size, device, views.normalise)

    def _preparation(self, images: Images, device: torch.device) -> Callable[[Tensor], Tensor]:
        """The same for pixels of certain images: those in files come in colour."""
        normalise = self.normalise(device)
        if self.spec.channels == 3 or images.in_memory:
            return normalise
        weights = torch.tensor(LUMA, device=device).view(1, 3, 1, 1)
        return lambda pixels: normalise((pixels * weights).sum(dim=1, keepdim=True).round())

    def _tiles(self, images: Images) -> Images:
        """Images in the size and with the channels that the network was trained on."""
        height, width, channels = self.spec.tile
        if isinstance(images, ImageFiles):
            if height != width:
                raise UserError(
                    f"The network's input is {height} x {width}, but files are cropped to "
                    "squares: pass arrays, not paths."
                )
            return images.with_tile(height)
        if images.shape[1:] == (height, width, channels):
            return images
        if channels != 3 or height != width:
            raise UserError(
                f"The network's input is {height} x {width} with {channels} channel(s), and "
                f"these are of {' x '.join(map(str, images.shape[1:]))}."
            )
        resized = np.empty((len(images), height, width, 3), dtype=np.uint8)
        for index in range(len(images)):
            resized[index] = to_tile(images.picture(index), height)
        return ArrayImages(resized)


# --- predictions.csv: a line per image, as they come ----------------------------------------------

PREDICTION_COLUMNS = ("path", "predicted_label", "probability", "ood_score", "reason")


def check_target(path: Path, inputs: Iterable[Path]) -> None:
    """Raise an error if anything but earlier predictions would be replaced."""
    if not path.is_file():
        return
    if any(path.samefile(one) for one in inputs if one.exists()):
        raise UserError(f"{path} is among the images to predict. Name another --out.")
    with regular(path).open("rb") as file:
        if not file.read(100).startswith(",".join(PREDICTION_COLUMNS).encode()):
            raise UserError(f"{path} exists and does not contain predictions. Name another --out.")


def write_predictions(
    path: Path,
    images: ImageFiles,
    stream: Iterable[tuple[Probabilities, Faults]],
    names: Sequence[str],
    *,
    top_k: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> str:
    """Write a line per image, in their order; those that give no image have a reason alone.

    Where none does, it is an error, of which the file gives the details.

    Args:
        path: the file.
        images: where they lie.
        stream: probabilities chunk by chunk, and what could not be read.
        names: of the classes.
        top_k: how many of the likeliest classes are written.
        progress: told how many images are done, and of how many.

    Returns:
        How many images were predicted, in a sentence.
    """
    if not len(images):
        raise UserError("There are no images to predict: the folders and manifests contain none.")
    top_k = min(top_k, len(names))
    more = [f"{name}_{rank}" for rank in range(2, top_k + 1) for name in PREDICTION_COLUMNS[1:3]]
    empty, done, reasons = [""] * len(more), 0, Counter[str]()
    with atomic_csv(path) as write:
        write([[*PREDICTION_COLUMNS, *more]])
        for probabilities, faults in stream:
            broken = dict(faults)
            reasons.update(broken.values())
            for index, cells in enumerate(_cells(probabilities, names, top_k), start=done):
                row = ["", "", "", broken[index], *empty] if index in broken else cells
                write([[images.location(index), *row]])
            done += len(probabilities)
            progress(done, len(images))
    told = f"{done - reasons.total():,} images predicted"
    if not reasons:
        return f"{told}."
    often = "; ".join(f"{reason}: {count:,}" for reason, count in reasons.most_common(5))
    told += f", {reasons.total():,} files could not be read ({often})."
    if reasons.total() == done:
        raise UserError(f"{told} All are listed in {path}, with the reasons.")
    return told


def _cells(probabilities: Probabilities, names: Sequence[str], top_k: int) -> Iterator[list[str]]:
    """The cells of each image behind its path."""
    order = np.argsort(-probabilities, axis=1, kind="stable")[:, :top_k]
    likely = np.take_along_axis(probabilities, order, axis=1)
    for classes, shares, doubt in zip(order, likely, doubt_of(probabilities), strict=True):
        pairs = [
            [names[number], f"{share:.6f}"] for number, share in zip(classes, shares, strict=True)
        ]
        rest = [cell for pair in pairs[1:] for cell in pair]
        yield [*pairs[0], f"{doubt:.6f}", "", *rest]
