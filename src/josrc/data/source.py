"""What the data is: images, given labels, and the truth where it is known."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from josrc.config import DataConfig
from josrc.data.duplicates import Copies
from josrc.data.image_files import HubImages, ImageFiles
from josrc.data.label_files import check_ids, read_label_file, read_truth
from josrc.data.noise import OOD, Labels, draw_labels, kind_of, transition_matrix
from josrc.data.packed_strings import Lookup, Strings
from josrc.errors import UserError, closest

__all__ = ["OOD", "Source", "load_source"]

Pixels = NDArray[np.uint8]
Images = Pixels | ImageFiles
Triple = tuple[float, ...]


@dataclass(frozen=True)
class Source:
    """``N`` training samples with their given labels, and a test set where there is one.

    Attributes:
        name: the data set's name.
        images: training images, ``(N, height, width, channels)``, in memory or in files.
        given: label every training sample carries, ``(N,)``; equals ``true`` before noise is added.
        class_names: names of all classes, the open ones last.
        closed: number of classes of the task.
        mean: channel means for normalisation, in [0, 1].
        std: channel standard deviations.
        true: original class of every training sample, open classes included, ``(N,)``; none where
            nobody knows.
        test_images: test images of the closed classes.
        test_labels: their true classes.
        val: samples held out of training, with labels as doubtful as the others; where they are
            right for sure its ``true`` says so.
        superclass: superclass of every class, where the data has any.
        verified: 1 where people checked the given label and found it right, 0 where wrong, -1 where
            nobody looked, ``(N,)``; none where nobody looked at all.
        verified_held: the same of labels that methods must not learn from, to score them with.
        crop: height and width of what a network sees of an image; none: all of it.
        files: where images that are in memory came from.
        sample_ids: what the samples are called; none: their numbers.
        skipped: files that gave no image, each with the reason; none where there are no files.
        left_out: how many files of which kinds lie among the images that are no pictures.
        copies: images that are there more than once; none until somebody has looked.
    """

    name: str
    images: Images
    given: Labels
    class_names: list[str]
    closed: int
    mean: Triple
    std: Triple
    true: Labels | None = None
    test_images: Images | None = None
    test_labels: Labels | None = None
    val: Source | None = None
    superclass: list[int] | None = None
    verified: NDArray[np.int8] | None = None
    verified_held: NDArray[np.int8] | None = None
    crop: int | None = None
    files: ImageFiles | None = None
    sample_ids: Sequence[str] | None = None
    skipped: tuple[tuple[str, str], ...] | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)
    copies: Copies | None = None

    def __len__(self) -> int:
        return len(self.images)

    @cached_property
    def kind(self) -> NDArray[np.int8] | None:
        """0 clean, 1 in-distribution with a wrong label, 2 out of distribution, ``(N,)``.

        None where the truth is unknown.
        """
        return None if self.true is None else kind_of(self.given, self.true, self.closed)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of what a network sees of an image."""
        return (self.crop, self.crop) if self.crop else self.images.shape[1:3]

    @property
    def ids(self) -> Sequence[str]:
        """What each training sample is called."""
        return Lookup(len(self), str) if self.sample_ids is None else self.sample_ids

    @cached_property
    def digest(self) -> str | None:
        """Tells whether the samples are the same and in the same order, where they have ids."""
        ids = self.sample_ids
        return ids.digest() if isinstance(ids, Strings) else None

    @property
    def paths(self) -> Sequence[str]:
        """Where each training image lies; empty for those that lie in no file."""
        return Lookup(len(self), lambda index: self.files.location(index) if self.files else "")

    @property
    def in_own_files(self) -> bool:
        """Whether each image lies in a file that a manifest or a link can name."""
        return self.files is not None and not isinstance(self.files, HubImages)

    def at(self, row: int) -> tuple[Source, int]:
        """The training or held-out samples that a row of ``verdicts.csv`` is of, and its number."""
        if row < len(self) or self.val is None:
            return self, row
        return self.val, row - len(self)

    def picture(self, index: int, least: int | None = None) -> Image.Image:
        """A training image as a person looks at it: whole, upright, RGB.

        Args:
            index: of the sample.
            least: a JPEG may be decoded at a smaller scale that still has so many pixels a side.
        """
        if self.files is not None:
            return self.files.picture(index, least)
        pixels: Pixels = self.images[np.array([index])][0]
        return Image.fromarray(pixels.squeeze()).convert("RGB")

    @property
    def closed_names(self) -> list[str]:
        """Names of the classes of the task."""
        return self.class_names[: self.closed]

    def noise_summary(self) -> str:
        """One line: how many labels are right, wrong, and of no class."""
        if self.kind is None:
            parts = [part for part in (self.verified, self.verified_held) if part is not None]
            checked, wrong = (sum(int((p >= k).sum()) for p in parts) for k in (0, 1))
            if not checked:
                return "nobody knows which labels are wrong"
            return f"people checked {checked:,} labels and found {checked - wrong:,} wrong"
        clean, noisy, ood = (int(np.sum(self.kind == k)) for k in (0, 1, 2))
        if self.files is not None:  # nobody said that they were right before
            return f"{clean:,} labels as they came, {noisy:,} changed on purpose"
        return f"{clean:,} correct labels, {noisy:,} wrong, {ood:,} out of distribution"


# Module and function that load each data set; imported when they are asked for.
LOADERS = {
    "digits-o": ("josrc.data.datasets.digits", "load"),
    "cifar100n-c": ("josrc.data.datasets.cifar", "load_closed"),
    "cifar80n-o": ("josrc.data.datasets.cifar", "load_open"),
}

# Published sets of images in files: opened here, and read before a run as own images are.
IN_FILES = {
    "clothing1m": ("josrc.data.datasets.clothing1m", "open_source"),
    "food101n": ("josrc.data.datasets.food101n", "open_source"),
}
NAMES = (*LOADERS, *IN_FILES)


def is_own(name: str) -> bool:
    """Whether ``name`` is a person's own data: a path, or a data set of the Hugging Face hub."""
    return name not in NAMES and (name.startswith("hf:") or Path(name).expanduser().exists())


def check_name(name: str) -> None:
    """Raise a helpful error unless ``name`` is a data set josrc knows, or a path."""
    if not name.strip():
        raise UserError("The name or path of the data is empty. Was a variable of the shell unset?")
    if name in NAMES or is_own(name):
        return
    if "/" in name or Path(name).suffix:
        raise UserError(f"{name} does not exist: it is neither a file, a folder nor a data set.")
    raise UserError(f"There is no file, folder or data set '{name}'.{closest(name, NAMES)}")


def check_root(name: str, root: Path | None) -> None:
    """Raise an error if somebody says where own images are, and says it twice."""
    if root is not None and is_own(name):
        raise UserError(
            f"--data-root {root} is for data that josrc knows by name, and for what a run was "
            f"trained on. {name} says by itself where it is."
        )


def load_source(config: DataConfig) -> Source:
    """The data set of a configuration, with its label noise; images in files are only opened."""
    check_name(config.place)
    if is_own(config.place):
        from josrc.data.assemble import open_source

        return open_source(config)
    if config.name in IN_FILES:
        module, function = IN_FILES[config.name]
        opened: Source = getattr(importlib.import_module(module), function)(config)
        return opened
    module, function = LOADERS[config.name]
    source: Source = getattr(importlib.import_module(module), function)(config.root)
    return with_noise(source, config)


def with_noise(source: Source, config: DataConfig) -> Source:
    """``source`` with labels from the noise file, or drawn as the configuration says.

    Where the truth is unknown it stays so, unless noise is added on purpose, which takes the
    labels that were there for the truth, or the noise file says what it is.
    """
    if config.noise_file is not None:
        names, samples = source.closed_names, len(source)
        given = read_label_file(config.noise_file, source.true, names, samples)
        if config.noise_file.suffix.lower() == ".npz":
            check_ids(config.noise_file, source.digest)
        true = read_truth(config.noise_file) if source.true is None else source.true
        return _relabelled(source, given, true)
    if source.true is None and config.noise == "none":
        return source
    true = source.given if source.true is None else source.true
    matrix = transition_matrix(
        config.noise, config.rate, len(source.class_names), source.closed, source.superclass
    )
    return _relabelled(source, draw_labels(true, matrix, config.noise_seed), true)


def _relabelled(source: Source, given: Labels, true: Labels | None) -> Source:
    """Other labels; what people said of the old ones holds where it still follows."""

    def still(verified: NDArray[np.int8] | None) -> NDArray[np.int8] | None:
        if verified is None:
            return None
        # In place of a right label any other is wrong; in place of a wrong one nobody knows.
        return np.where(given == source.given, verified, np.where(verified == 1, 0, -1)).astype(
            "i1"
        )

    return replace(
        source,
        given=given,
        true=true,
        verified=still(source.verified),
        verified_held=still(source.verified_held),
    )
