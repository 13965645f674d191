"""What a trained network says of other images."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from josrc.config import RunConfig
from josrc.data.arrays import images_of
from josrc.data.decode import to_tile
from josrc.data.files import ImageFiles
from josrc.data.loaders import EvaluationSet
from josrc.data.source import Images, Source
from josrc.data.views import Normalise
from josrc.data.workers import Faults
from josrc.engine.checkpoint import load_tensors
from josrc.engine.device import choose_device
from josrc.engine.program import create_method
from josrc.errors import UserError

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
