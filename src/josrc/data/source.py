"""What the data is: images, given labels, and the truth where it is known."""

import importlib
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from josrc.config import DataConfig
from josrc.data.labels import read_label_file
from josrc.data.noise import OOD, Labels, draw_labels, kind_of, transition_matrix
from josrc.errors import UserError, closest

__all__ = ["OOD", "Source", "load_source"]

Pixels = NDArray[np.uint8]
Triple = tuple[float, ...]


@dataclass(frozen=True)
class Source:
    """``N`` training samples with their given labels, and a clean test set.

    Attributes:
        name: the data set's name.
        images: training images, ``(N, height, width, channels)``.
        true: original class of every training sample, open classes included, ``(N,)``.
        given: label every training sample carries, ``(N,)``; equals ``true`` before noise is added.
        class_names: names of all classes, the open ones last.
        closed: number of classes of the task.
        test_images: test images of the closed classes.
        test_labels: their true classes.
        mean: channel means for normalisation, in [0, 1].
        std: channel standard deviations.
        superclass: superclass of every class, where the data has any.
        verified: 1 where people checked the given label and found it right, 0 where wrong, -1 where
            nobody looked, ``(N,)``; none where nobody looked at all.
    """

    name: str
    images: Pixels
    true: Labels
    given: Labels
    class_names: list[str]
    closed: int
    test_images: Pixels
    test_labels: Labels
    mean: Triple
    std: Triple
    superclass: list[int] | None = None
    verified: NDArray[np.int8] | None = None

    def __len__(self) -> int:
        return len(self.images)

    @cached_property
    def kind(self) -> NDArray[np.int8]:
        """0 clean, 1 in-distribution with a wrong label, 2 out of distribution, ``(N,)``."""
        return kind_of(self.given, self.true, self.closed)

    @property
    def closed_names(self) -> list[str]:
        """Names of the classes of the task."""
        return self.class_names[: self.closed]

    def noise_summary(self) -> str:
        """One line: how many labels are right, wrong, and of no class."""
        clean, noisy, ood = (int(np.sum(self.kind == k)) for k in (0, 1, 2))
        return f"{clean:,} correct labels, {noisy:,} wrong, {ood:,} out of distribution"


# Module and function that load each data set; imported when they are asked for.
LOADERS = {
    "digits-o": ("josrc.data.digits", "load"),
    "cifar100n-c": ("josrc.data.cifar", "load_closed"),
    "cifar80n-o": ("josrc.data.cifar", "load_open"),
}


def check_name(name: str) -> None:
    """Raise a helpful error unless ``name`` is a data set josrc knows."""
    if name in LOADERS:
        return
    if Path(name).exists():
        raise UserError(
            f"{name} is a path. This version of josrc trains on the data sets it knows by name: "
            f"{', '.join(LOADERS)}."
        )
    raise UserError(f"Unknown data set '{name}'.{closest(name, list(LOADERS))}")


def load_source(config: DataConfig) -> Source:
    """The data set of a configuration, with its label noise."""
    check_name(config.name)
    module, function = LOADERS[config.name]
    source: Source = getattr(importlib.import_module(module), function)(config.root)
    return with_noise(source, config)


def with_noise(source: Source, config: DataConfig) -> Source:
    """``source`` with labels from the noise file, or drawn as the configuration says."""
    if config.noise_file is not None:
        given = read_label_file(config.noise_file, source.true, source.closed_names)
    else:
        matrix = transition_matrix(
            config.noise, config.rate, len(source.class_names), source.closed, source.superclass
        )
        given = draw_labels(source.true, matrix, config.noise_seed)
    return replace(source, given=given)
