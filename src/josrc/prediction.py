"""What a trained network says of other images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import nn

from josrc.config import RunConfig
from josrc.data.arrays import images_of
from josrc.data.decode import to_tile
from josrc.data.files import ImageFiles
from josrc.data.loaders import EvaluationSet
from josrc.data.source import Images, Source
from josrc.data.views import Normalise
from josrc.engine.checkpoint import load_tensors
from josrc.engine.device import choose_device
from josrc.engine.program import create_method
from josrc.engine.trainer import without_weights
from josrc.errors import UserError


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
        self.config = config
        method = create_method(without_weights(config), self.source)
        method.load_state_dict(tensors, strict=False)
        method.eval()
        self.networks: list[nn.Module] = method.evaluated()["test_accuracy"]

    @torch.no_grad()
    def probabilities(self, values: Any, device: str | None = None) -> NDArray[np.float32]:
        """Probability of each class, ``(N, classes)``, for an array of images or a list of paths.

        Args:
            values: the images; other sizes than the network's are resized.
            device: another device than the run's.
        """
        images = self._tiles(images_of(values))
        place = choose_device(device or self.config.device)
        source, model, views = self.source, self.config.model, self.config.views
        normalise = Normalise(source, model.image_size, place, views.normalise)
        labels = np.zeros(len(images), dtype=np.int64)
        workers = self.config.data.workers
        chunks = EvaluationSet(images, labels, normalise, source.size, place, workers)
        found = [np.zeros((0, source.closed), dtype=np.float32)]
        networks = [network.to(place) for network in self.networks]
        for chunk in chunks if len(images) else ():
            opinions = [network(chunk).float().softmax(dim=1) for network in networks]
            found.append(torch.stack(opinions).mean(dim=0).cpu().numpy())
        return np.concatenate(found)

    def _tiles(self, images: Images) -> Images:
        """Images in the size and with the channels that the network was trained on."""
        height, width, channels = self.source.images.shape[1:]
        if isinstance(images, ImageFiles):
            if channels != 3 or height != width:
                raise UserError("This network was trained on arrays: give it arrays, not paths.")
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
