"""Images that a Python program hands over: arrays, or paths with labels beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from josrc.config import DataConfig
from josrc.data.assemble import assemble
from josrc.data.duplicates import duplicates_in_memory
from josrc.data.image_files import ImageFiles
from josrc.data.images import ArrayImages, Images, Pixels
from josrc.data.noise import Labels
from josrc.data.packed_strings import PackedStrings
from josrc.data.readers.table import Table, TableBuilder, checked
from josrc.data.source import Source, with_noise
from josrc.errors import UserError
from josrc.models.factory import expected_images

# What a run on such data is called.
ARRAYS_NAME = "arrays"


def source_of(
    data: Sequence[Any], config: DataConfig, model: str, test: Sequence[Any] | None = None
) -> Source:
    """A source of images and labels, with label noise if they are in memory.

    Args:
        data: ``(X, y)``. X is an array of images, ``(N, height, width)`` or ``(N, height, width,
            channels)``, of type uint8, or float from 0 to 1; or a list of paths. y holds a class
            for each: anything that can be told apart by its name.
        config: what is held out.
        model: the network, which may expect a normalisation of its own.
        test: the same, to test on.
    """
    table = checked(ARRAYS_NAME, table_of(data))
    testing = None if test is None else table_of(test)
    if testing is not None and not alike(table.images, testing.images):
        raise UserError(
            "Training and test images must both be paths, or both be arrays of the same size."
        )
    source = assemble(table, config, testing)
    if not isinstance(source.images, ArrayImages):
        return source
    held = None if source.val is None else source.val.images
    found = duplicates_in_memory([source.images, held, source.test_images], config.near_duplicates)
    source = replace(normalised(source, model), skipped=None, duplicates=found)
    return with_noise(source, config)


def normalised(source: Source, model: str) -> Source:
    """The same images as a network expects them, if they are in memory."""
    if not isinstance(source.images, ArrayImages):
        return source
    if model != "cnn7" and source.images.shape[3] == 3:
        _, mean, std = expected_images(model)
    else:
        mean, std = channel_statistics(source.images.pixels)
    return replace(source, mean=mean, std=std)


def table_of(data: Sequence[Any]) -> Table:
    """Images and labels, counted and named."""
    if len(data) != 2:
        raise UserError("Pass a name, a path, or a pair of images and labels: (X, y).")
    images = images_of(data[0])
    labels, names = class_numbers(data[1])
    if len(labels) != len(images):
        raise UserError(f"There are {len(images):,} images and {len(labels):,} labels.")
    if isinstance(images, ImageFiles):
        ids = images.names
    else:
        ids = PackedStrings.of(map(str, range(len(images))))
    return Table(images, labels, names, ids, np.zeros(len(labels), dtype=np.int64))


def check_labels(values: Any) -> None:
    """Raise an error if some labels are missing: None, NaN, or what pandas has for them."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "iubUS":
        return
    # As objects: beside strings numpy makes the word "nan" of a NaN.
    labels = np.asarray(values, dtype=object).ravel().tolist()
    names = ("NAType", "NaTType")
    missing = [
        place
        for place, label in enumerate(labels)
        if label is None or type(label).__name__ in names or label != label
    ]
    if missing:
        raise UserError(
            f"{len(missing):,} of {len(labels):,} labels are missing (None or NaN), the first for "
            f"image {missing[0]}, counted from 0. Remove these images, or label them."
        )


def class_numbers(values: Any) -> tuple[Labels, list[str]]:
    """Classes as numbers, in the order in which manifests have them."""
    check_labels(values)
    found = TableBuilder()
    for value in np.asarray(values).ravel().tolist():
        found.add("", str(value), "", 0)
    return found.labelled()


def images_of(values: Any) -> Images:
    """Images as pixels or as files, whatever they were handed over as; a path is one image."""
    if isinstance(values, str | Path):
        values = [values]
    if not isinstance(values, np.ndarray) or values.dtype.kind in "OUS":
        listed = [str(value) for value in values] if are_paths(values) else None
        if listed is not None:
            return ImageFiles(PackedStrings.of(listed), Path.cwd())
    pixels = np.asarray(values)
    if pixels.ndim == 3:
        pixels = pixels[..., None]
    if pixels.ndim != 4 or pixels.shape[3] not in (1, 3):
        raise UserError(
            f"Images must be an array (N, height, width) or (N, height, width, 1 or 3), or a "
            f"list of paths; this array has shape {pixels.shape} and type {pixels.dtype}."
        )
    if pixels.dtype.kind == "f":
        if pixels.size and not (pixels.min() >= 0 and pixels.max() <= 1):
            raise UserError(
                f"Float pixels must lie between 0 and 1, and these range from {pixels.min():g} "
                f"to {pixels.max():g}. Divide by the largest possible value, or convert to "
                "uint8."
            )
        pixels = np.round(pixels * 255)
    elif pixels.dtype != np.uint8:
        raise UserError(f"Pixels must be uint8, or floats from 0 to 1, not {pixels.dtype}.")
    return ArrayImages(np.ascontiguousarray(pixels.astype(np.uint8, copy=False)))


def are_paths(values: Any) -> bool:
    """Whether these are paths and not pixels."""
    return all(isinstance(value, str | Path) for value in values)


def alike(one: Images, other: Images) -> bool:
    """Whether two sets of images can be seen by one network."""
    return one.in_memory == other.in_memory and one.shape[1:] == other.shape[1:]


def channel_statistics(pixels: Pixels) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of each channel, over some of the images."""
    some = pixels[:: max(1, len(pixels) // 1000)].astype(np.float64) / 255
    mean, std = some.mean(axis=(0, 1, 2)), some.std(axis=(0, 1, 2))
    return tuple(mean.tolist()), tuple(np.maximum(std, 1e-3).tolist())
