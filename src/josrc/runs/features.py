"""Features of images by a pretrained network: one pass, which goes on if it was stopped."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from josrc.config import ModelConfig
from josrc.data.feature_file import Features, FeatureWriter, open_features
from josrc.data.image_files import ImageFiles
from josrc.data.images import ImageSpec, Pixels
from josrc.data.loaders import EvaluationSet, middle
from josrc.data.packed_strings import Index
from josrc.data.prepare import spec_for
from josrc.data.source import Source
from josrc.data.views import Normalise
from josrc.data.workers import Faults
from josrc.models import create_model
from josrc.models.factory import Classifier, expected_images

# Its weights come with the extra `features`, without any hub.
DEFAULT_MODEL = "tf_efficientnet_lite0"
# Images as small as this hold no more than a smaller network input shows: features of CIFAR-10 at
# 128 pixels find wrong labels with an AUROC of .96, in a third of the time of 224.
SMALL_SIDE, SMALL_INPUT = 64, 128
# Images that a network sees at a time, on a CPU few enough to stay in its cache: with 16 it is
# three times as fast as with 128. Seconds after which what is done is noted.
MOST, MOST_ON_CPU, SAVED_EVERY = 128, 16, 10.0
# Features beyond it would be kept as infinite.
LARGEST_FLOAT16 = 65504.0


def feature_network(model: ModelConfig, source: Source) -> Classifier:
    """The network whose features are taken, with its weights; its head is not used."""
    return network_for(model, source.images.shape[3] if source.images.in_memory else 3)


def network_for(model: ModelConfig, channels: int) -> Classifier:
    """The same, for images of so many channels."""
    assert model.image_size is not None
    return create_model(
        model.name,
        2,
        in_channels=channels,
        image_size=(model.image_size, model.image_size),
        head="linear",
        pretrained=model.weights is None,
        weights=model.weights,
    ).eval()


class TileExtractor:
    """Computes features of images as they come, each once.

    Images in files come from whoever reads and checks them: they are not decoded for it again. What
    the network sees at a time never reaches over a multiple of ``MOST``. So the features of a part
    of the images, begun at such a number, are those of all of them, to the last bit.

    Attributes:
        rows: where the features go, ``(N, width)``.
        done: how many images had theirs before.
        seen: how many images have come.
    """

    def __init__(
        self,
        rows: Features,
        done: int,
        network: Classifier,
        spec: ImageSpec,
        model: ModelConfig,
        device: torch.device,
    ) -> None:
        """Begin.

        Args:
            rows: where the features go, ``(N, width)``.
            done: how many of the images have theirs.
            network: turns images into features.
            spec: of the images.
            model: what the network is called, and the size of its images.
            device: where it computes.
        """
        self.rows, self.done = rows, done
        self.backbone = network.backbone.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.size, self.device, self.seen = spec.size, device, 0
        self.normalise = _as_learned(spec, model, device)
        self.most = MOST_ON_CPU if device.type == "cpu" else MOST
        self._sound: list[Index] = []
        self._waiting: list[tuple[Index, Pixels]] = []

    def look(self, numbers: Index, tiles: Pixels, sound: NDArray[np.bool_]) -> None:
        """Take further images, in their order.

        Args:
            numbers: which they are.
            tiles: what is seen of them, ``(n, tile, tile, channels)``.
            sound: which of them could be read.
        """
        self._sound.append(numbers[sound])
        self.seen += len(numbers)
        fresh = sound & (numbers >= self.done)
        if fresh.any():
            self._waiting.append((numbers[fresh], tiles[fresh]))
        if (int(numbers[-1]) + 1) % self.most == 0:
            self._compute()

    def sound(self) -> Index:
        """Numbers of the images that have features, once all of them have come."""
        self._compute()
        return np.concatenate(self._sound)

    def _compute(self) -> None:
        if not self._waiting:
            return
        rows, pixels = (np.concatenate(parts) for parts in zip(*self._waiting, strict=True))
        self._waiting.clear()
        bfloat16 = self.device.type == "cuda"
        for begin in range(0, len(rows), self.most):
            some = slice(begin, begin + self.most)
            tiles = middle(torch.from_numpy(pixels[some]).to(self.device), self.size)
            images = self.normalise(tiles).contiguous(memory_format=torch.channels_last)
            with (
                torch.inference_mode(),
                torch.autocast(self.device.type, torch.bfloat16, enabled=bfloat16),
            ):
                found = self.backbone(images).float()
            self.rows[rows[some]] = found.clamp(-LARGEST_FLOAT16, LARGEST_FLOAT16).cpu().numpy()


def feature_origin(model: ModelConfig) -> dict[str, Any]:
    """What features are of, as their file says it."""
    return {"model": model.name, "weights": str(model.weights), "size": model.image_size}


class FeatureExtractor(TileExtractor):
    """Keeps the features in a file, so that they need not be computed again after a stop."""

    def __init__(
        self,
        path: Path,
        source: Source,
        network: Classifier,
        model: ModelConfig,
        device: torch.device,
        lap: Callable[[], object] = lambda: None,
    ) -> None:
        """Begin, or go on with a file that was begun with the same images and network.

        Args:
            path: the file.
            source: the images, sound or not.
            network: turns images into features.
            model: what it is called, and the size of its images.
            device: where it computes.
            lap: is called whenever some further images were taken.
        """
        self.writer = FeatureWriter(path, source.ids, network.num_features, feature_origin(model))
        spec = spec_for(source, model)
        super().__init__(self.writer.rows, self.writer.done, network, spec, model, device)
        self.lap, self._noted = lap, time.monotonic()

    def look(self, numbers: Index, tiles: Pixels, sound: NDArray[np.bool_]) -> None:
        """Take further images, in their order; now and then note how far it is."""
        super().look(numbers, tiles, sound)
        if not self._waiting and time.monotonic() - self._noted > SAVED_EVERY:
            self.writer.save(int(numbers[-1]) + 1)
            self._noted = time.monotonic()
        self.lap()

    def look_at_all(self, pixels: Pixels, progress: Callable[[int, int], None]) -> None:
        """Take images in memory."""
        for begin in range(0, len(pixels), self.most):
            some = np.arange(begin, min(begin + self.most, len(pixels)))
            self.look(some, pixels[begin : begin + self.most], np.ones(len(some), dtype=bool))
            progress(self.seen, len(pixels))

    def finish(self) -> Features:
        """The features of all sound images."""
        self.writer.finish(self.sound())
        return open_features(self.writer.path)


def features_of_files(
    images: ImageFiles,
    source: Source,
    network: Classifier,
    model: ModelConfig,
    device: torch.device,
) -> tuple[NDArray[np.float32], Faults]:
    """Features of images as those of a source were made, ``(N, width)``, and what gave no image.

    Args:
        images: where they lie.
        source: the images that the run has seen.
        network: turns images into features.
        model: what it is called, and the size of its images.
        device: where it computes.
    """
    backbone = network.backbone.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    spec = spec_for(source, model)
    files, labels = images.with_tile(spec.tile[0]), np.zeros(len(images), dtype=np.int64)
    most = MOST_ON_CPU if device.type == "cpu" else MOST
    prepare = _as_learned(spec, model, device)
    found: list[NDArray[np.float32]] = []
    faults: Faults = []
    for pixels, wrong in EvaluationSet(
        files, labels, prepare, spec.size, device, most=most
    ).with_faults():
        with (
            torch.inference_mode(),
            torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"),
        ):
            seen = backbone(pixels.contiguous(memory_format=torch.channels_last)).float()
        found.append(seen.cpu().numpy())
        faults += wrong
    return np.concatenate(found), faults


def _as_learned(
    spec: ImageSpec, model: ModelConfig, device: torch.device
) -> Callable[[Tensor], Tensor]:
    """Pixels as the network has learned to see them, whatever else is usual for these images."""
    size = model.image_size
    if spec.channels == 3:
        _, mean, std = expected_images(model.name)
        spec = replace(spec, mean=mean, std=std)
    normalise = Normalise(spec, None, device)
    assert size is not None
    if spec.size == (size, size):
        return normalise

    def enlarge(pixels: Tensor) -> Tensor:
        images = normalise(pixels)
        # Pretrained networks know pictures that were resized smoothly.
        return functional.interpolate(images, (size, size), mode="bicubic", antialias=True)

    return enlarge
