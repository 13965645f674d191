"""What a trained network says of other images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from josrc._io import replacing_csv
from josrc.config import RunConfig
from josrc.data.decode import to_tile
from josrc.data.image_files import ImageFiles
from josrc.data.loaders import EvaluationSet
from josrc.data.readers.arrays import images_of
from josrc.data.source import Images, Source
from josrc.data.views import Normalise
from josrc.data.workers import Faults
from josrc.engine.checkpoint import load_tensors
from josrc.engine.device import choose_device
from josrc.engine.state import create_method
from josrc.errors import UserError
from josrc.verdicts.rule import doubt_of

# Red, green and blue in grey, as Pillow weighs them.
LUMA = (0.299, 0.587, 0.114)
Opinion = NDArray[np.float32]


class Predictor:
    """The networks of a finished run, ready for images of any origin.

    Attributes:
        class_names: names of the classes, in the order of the probabilities.
        networks: those that the run tests; their predictions are averaged.
    """

    def __init__(self, config: RunConfig, weights: Path) -> None:
        tensors, story = load_tensors(weights)
        if "images" not in story:
            raise UserError(f"{weights} was written by another version of josrc. Train again.")
        seen = story["images"]
        self.class_names: list[str] = story["classes"]
        self.source = Source(
            name=config.data.name,
            images=np.zeros((0, *seen["tile"]), dtype=np.uint8),
            given=np.zeros(0, dtype=np.int64),
            class_names=self.class_names,
            closed=len(self.class_names),
            mean=tuple(seen["mean"]),
            std=tuple(seen["std"]),
            crop=seen["crop"],
        )
        self.config, self.epoch = config, int(story["epoch"])
        method = create_method(config.without_weights(), self.source)
        method.load_state_dict(tensors, strict=False)
        method.eval()
        self.networks: list[nn.Module] = method.evaluated()["test_accuracy"]

    def probabilities(self, values: Any, device: str | None = None) -> Opinion:
        """Probability of each class, ``(N, classes)``, for an array of images or for paths.

        Args:
            values: the images; other sizes than the network's are resized.
            device: another device than the run's.
        """
        images = images_of(values)
        found = [np.zeros((0, self.source.closed), dtype=np.float32)]
        for opinions, faults in self.stream(images, device):
            for index, reason in faults:
                assert isinstance(images, ImageFiles)
                raise UserError(f"{images.location(index)} can't be read: {reason}.")
            found.append(opinions)
        return np.concatenate(found)

    @torch.no_grad()
    def stream(
        self, images: Images, device: str | None = None, workers: int | None = None
    ) -> Iterator[tuple[Opinion, Faults]]:
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
        prepare, size = self._preparation(images, place), self.source.size
        chunks = EvaluationSet(self._tiles(images), labels, prepare, size, place, workers)
        networks = [network.to(place) for network in self.networks]
        for chunk, faults in chunks.with_faults():
            yield average(networks, chunk).cpu().numpy(), faults

    def normalise(self, device: torch.device) -> Normalise:
        """From pixels to what the networks expect."""
        model, views = self.config.model, self.config.views
        return Normalise(self.source, model.image_size, device, views.normalise)

    def _preparation(self, images: Images, device: torch.device) -> Callable[[Tensor], Tensor]:
        """The same for pixels of certain images: those in files come in colour."""
        normalise = self.normalise(device)
        if self.source.images.shape[3] == 3 or not isinstance(images, ImageFiles):
            return normalise
        weights = torch.tensor(LUMA, device=device).view(1, 3, 1, 1)
        return lambda pixels: normalise((pixels * weights).sum(dim=1, keepdim=True).round())

    def _tiles(self, images: Images) -> Images:
        """Images in the size and with the channels that the network was trained on."""
        height, width, channels = self.source.images.shape[1:]
        if isinstance(images, ImageFiles):
            if height != width:
                raise UserError(
                    f"The network sees images of {height} x {width}, and files are cut to squares: "
                    "give it arrays, not paths."
                )
            return images.with_tile(height)
        if images.shape[1:] == (height, width, channels):
            return images
        if channels != 3 or height != width:
            raise UserError(
                f"The network sees images of {height} x {width} with {channels} channel(s), and "
                f"these are of {' x '.join(map(str, images.shape[1:]))}."
            )
        resized = [to_tile(Image.fromarray(one.squeeze()), height) for one in images]
        return np.stack(resized) if resized else np.zeros((0, height, width, 3), dtype=np.uint8)


def average(networks: list[nn.Module], images: Tensor) -> Tensor:
    """Mean probabilities of some networks, ``(batch, classes)``."""
    opinions = [network(images).float().softmax(dim=1) for network in networks]
    return torch.stack(opinions).mean(dim=0)


# --- predictions.csv: a line an image, as they come ----------------------------------------------

COLUMNS = ("path", "predicted_label", "probability", "ood_score", "reason")


def check_target(path: Path, inputs: Iterable[Path]) -> None:
    """Raise an error if anything but earlier predictions would be replaced."""
    if not path.is_file():
        return
    if any(path.samefile(one) for one in inputs if one.exists()):
        raise UserError(f"{path} is what to predict. Name another --out.")
    with path.open("rb") as file:
        if not file.read(100).startswith(",".join(COLUMNS).encode()):
            raise UserError(f"{path} exists and holds no predictions. Name another --out.")


def write_predictions(
    path: Path,
    images: ImageFiles,
    stream: Iterable[tuple[Opinion, Faults]],
    names: Sequence[str],
    *,
    top_k: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> str:
    """Write a line an image, in their order; those that give no image have a reason alone.

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
        raise UserError("There is no image to predict: the folders and manifests hold none.")
    top_k = min(top_k, len(names))
    more = [f"{name}_{rank}" for rank in range(2, top_k + 1) for name in COLUMNS[1:3]]
    empty, done, reasons = [""] * len(more), 0, Counter[str]()
    with replacing_csv(path) as write:
        write([[*COLUMNS, *more]])
        for opinions, faults in stream:
            broken = dict(faults)
            reasons.update(broken.values())
            for index, cells in enumerate(_cells(opinions, names, top_k), start=done):
                row = ["", "", "", broken[index], *empty] if index in broken else cells
                write([[images.location(index), *row]])
            done += len(opinions)
            progress(done, len(images))
    told = f"{done - reasons.total():,} images predicted"
    if not reasons:
        return f"{told}."
    often = "; ".join(f"{reason}: {count:,}" for reason, count in reasons.most_common(5))
    told += f", {reasons.total():,} files give no image ({often})."
    if reasons.total() == done:
        raise UserError(f"{told} All of them are in {path}, with the reasons.")
    return told


def _cells(opinions: Opinion, names: Sequence[str], top_k: int) -> Iterator[list[str]]:
    """The cells of each image behind its path."""
    order = np.argsort(-opinions, axis=1, kind="stable")[:, :top_k]
    likely = np.take_along_axis(opinions, order, axis=1)
    for classes, shares, doubt in zip(order, likely, doubt_of(opinions), strict=True):
        pairs = [
            [names[number], f"{share:.6f}"] for number, share in zip(classes, shares, strict=True)
        ]
        rest = [cell for pair in pairs[1:] for cell in pair]
        yield [*pairs[0], f"{doubt:.6f}", "", *rest]
