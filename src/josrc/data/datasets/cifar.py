"""CIFAR-100 as the paper uses it: CIFAR100N-C (closed set) and CIFAR80N-O (open set)."""

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from platformdirs import user_cache_path

from josrc import _reading
from josrc.config import DataConfig
from josrc.data.images import ArrayImages
from josrc.data.source import Source
from josrc.errors import UserError, sentence

CLASSES = 100
OPEN_FROM = 80  # CIFAR80N-O: classes 80 to 99 are out of distribution
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # published code

# Superclass of every fine class in id order; torchvision does not hand these out.
SUPERCLASS = [
    4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11,
    6, 11, 5, 10, 7, 6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5,
    5, 19, 8, 8, 15, 13, 14, 17, 18, 10, 16, 4, 17, 4, 2, 0, 17, 4, 18, 17,
    10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16, 12, 9, 13, 15, 13,
    16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13,
]  # fmt: skip


# Number of classes of the task: all of them, or without those that are foreign.
CLOSED = {"cifar100n-c": CLASSES, "cifar80n-o": OPEN_FROM}


def open_source(config: DataConfig) -> Source:
    """All 50,000 training images; of CIFAR80N-O those of the last 20 classes are foreign."""
    return cifar_source(config, CLASSES, CLOSED[config.name])


def cifar_source(config: DataConfig, classes: int, closed: int) -> Source:
    """CIFAR-10 or CIFAR-100, by the number of its classes, with the true labels."""
    train, test = (read_cifar(config.root, train, classes) for train in (True, False))
    test_labels = np.array(test.targets, dtype=np.int64)
    known = test_labels < closed
    true = np.array(train.targets, dtype=np.int64)
    return Source(
        name=config.name,
        data_kind=config.kind,
        images=ArrayImages(train.data),
        true=true,
        given=true,
        class_names=list(train.classes),
        closed=closed,
        test_images=ArrayImages(test.data[known]),
        test_labels=test_labels[known],
        mean=IMAGENET_MEAN,
        std=IMAGENET_STD,
        superclass=SUPERCLASS if classes == CLASSES else None,
    )


def check(config: DataConfig, console: Any) -> Iterator[str]:
    """For ``josrc doctor``: every file by its published md5."""
    return check_files(config.root, CLASSES)


def check_files(root: Path | None, classes: int) -> Iterator[str]:
    """A line for every file of CIFAR-10 or CIFAR-100 that is as published, an error for others."""
    from torchvision.datasets.utils import check_integrity

    dataset, folder = torchvision_class(classes), folder_of(root, classes)
    files = [*dataset.train_list, *dataset.test_list]
    files.append([dataset.meta["filename"], dataset.meta["md5"]])
    for name, md5 in files:
        if not check_integrity(str(folder / dataset.base_folder / name), md5):
            raise UserError(_advice(folder, classes, False, OSError(name)))
        yield f"{folder / dataset.base_folder / name}: md5 {md5} as published"


def torchvision_class(classes: int) -> Any:
    """Torchvision's ``CIFAR10`` or ``CIFAR100``."""
    from torchvision import datasets

    return getattr(datasets, f"CIFAR{classes}")


def default_root() -> Path:
    """Where downloads go: ``$JOSRC_DATA``, or ``josrc`` in the user's cache folder."""
    return Path(os.environ.get("JOSRC_DATA") or user_cache_path("josrc", appauthor=False))


def read_cifar(root: Path | None, train: bool, classes: int) -> Any:
    """Torchvision's CIFAR; it checks the published md5 before it unpickles anything.

    A file of arrays in its place holds the same.
    """
    folder = folder_of(root, classes)
    arrays = arrays_file(root, classes)
    if arrays.is_file():
        part = "train" if train else "test"
        images, labels, names = read_arrays(arrays, f"{part}_images", f"{part}_labels", "names")
        return SimpleNamespace(data=images, targets=labels, classes=names.tolist())
    try:
        return torchvision_class(classes)(str(folder), train=train, download=root is None)
    except (OSError, RuntimeError) as error:
        raise UserError(_advice(folder, classes, root is None, error)) from None


def folder_of(root: Path | None, classes: int) -> Path:
    """The folder that holds torchvision's folder, whichever of the two was named."""
    folder = (default_root() if root is None else root).expanduser().resolve()
    inner = folder.name == torchvision_class(classes).base_folder and folder.is_dir()
    return folder.parent if inner else folder


def arrays_file(root: Path | None, classes: int) -> Path:
    """Where CIFAR may lie as arrays: ``cifar10.npz`` instead of torchvision's folder."""
    return folder_of(root, classes) / f"cifar{classes}.npz"


def read_arrays(path: Path, *names: str) -> list[NDArray[Any]]:
    """Arrays of a file by their names."""
    found = _reading.read_arrays(path, needed=names, known=(), complaint="can't be used")
    return [found[name] for name in names]


def _advice(folder: Path, classes: int, downloading: bool, error: Exception) -> str:
    """What is wrong with the files, and what to put where."""
    dataset, title = torchvision_class(classes), f"CIFAR-{classes}"
    base = folder / dataset.base_folder
    names = [name for name, _ in (*dataset.train_list, *dataset.test_list)]
    names.append(dataset.meta["filename"])
    missing = [name for name in names if not (base / name).is_file()]
    found = (
        f"missing: {', '.join(missing)}" if missing else "its md5 sums are not the published ones"
    )
    lines = [f"{title} was not found in {base} ({found})."]
    if downloading:
        lines.append(f"The download failed: {sentence(error)}")
    lines.append(
        f"Unpack {dataset.filename} (the Python version of {title}) so that {base} holds "
        f"{', '.join(names)}, and pass --data-root {folder}."
    )
    if not downloading:
        lines.append("Without --data-root josrc downloads it, if there is a network connection.")
    return "\n".join(lines)
