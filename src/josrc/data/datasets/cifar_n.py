"""CIFAR-10N and CIFAR-100N: CIFAR with the labels that people gave its training images.

Wei et al., Learning with Noisy Labels Revisited: A Study Using Real-World Human Annotations, ICLR
2022. Their labels are one file beside torchvision's folder, in the order of its images.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.serialization import safe_globals

from josrc._reading import regular
from josrc.config import PEOPLE, DataConfig
from josrc.data.datasets import cifar
from josrc.data.label_files import check_labels
from josrc.data.noise import Labels
from josrc.data.source import Source
from josrc.errors import UserError

HOME = "https://github.com/UCSC-REAL/cifar-10-100n"
CLASSES = {"cifar10n": 10, "cifar100n": 100}
# What the files call the true labels, and those of each kind of noise.
CLEAN = "clean_label"
KEYS = {
    "aggregate": "aggre_label",
    "random1": "random_label1",
    "random2": "random_label2",
    "random3": "random_label3",
    "worst": "worse_label",
    "human": "noisy_label",
}
# What an array of numbers is pickled with, the first by its names before and since numpy 2. Arrays
# of objects stay forbidden.
RECONSTRUCT = np.empty(0).__reduce__()[0]
NUMBERS = {type(np.dtype(code)) for code in np.typecodes["AllInteger"] + np.typecodes["Float"]}
ALLOWED: list[Any] = [
    (RECONSTRUCT, "numpy.core.multiarray._reconstruct"),
    (RECONSTRUCT, "numpy._core.multiarray._reconstruct"),
    np.ndarray,
    np.dtype,
    *NUMBERS,
]


def open_source(config: DataConfig) -> Source:
    """All 50,000 training images; the labels that people gave are read when they are asked for."""
    classes = CLASSES[config.name]
    path = people_file(config.root, classes)
    arrays = cifar.arrays_file(config.root, classes)
    if arrays.is_file() and not path.is_file():
        source = cifar.cifar_source(config, classes, classes)
        return replace(source, people=partial(_labels_of_arrays, arrays, len(source), classes))
    if config.noise in PEOPLE:
        _check_there(path, classes)
    source = cifar.cifar_source(config, classes, classes)
    return replace(source, people=partial(people_labels, path, source.given, classes))


def check(config: DataConfig, console: Any) -> Iterator[str]:
    """For ``josrc doctor``: CIFAR's files by their published md5, people's labels by the truth."""
    classes = CLASSES[config.name]
    yield from cifar.check_files(config.root, classes)
    path = people_file(config.root, classes)
    true = np.array(cifar.read_cifar(path.parent, True, classes).targets, dtype=np.int64)
    for kind in (kind for kind, name in PEOPLE.items() if name == config.name):
        wrong = float((people_labels(path, true, classes, kind) != true).mean())
        yield f"{path}: {kind}, {wrong:.2%} of the labels wrong"


def people_file(root: Path | None, classes: int) -> Path:
    """Where the labels that people gave belong: beside torchvision's folder."""
    return cifar.folder_of(root, classes) / f"CIFAR-{classes}_human.pt"


def people_labels(path: Path, true: Labels, classes: int, kind: str) -> Labels:
    """The labels of one kind, from a file whose true labels must be those of the images.

    Args:
        path: the file as it was published.
        true: the true labels of the images, in their order.
        classes: number of classes.
        kind: ``worst``, ``human`` ...
    """
    _check_there(path, classes)
    found = _read(path, classes)
    clean, given = (
        check_labels(path, _vector(path, found, key, classes), len(true), classes)
        for key in (CLEAN, KEYS[kind])
    )
    differ = int((clean != true).sum())
    if differ:
        raise UserError(
            f"{path} is in another order than the images: {differ:,} of its {len(true):,} labels "
            f"'{CLEAN}' are not theirs.\n{_advice(path, classes)}"
        )
    return given


def _labels_of_arrays(path: Path, samples: int, classes: int, kind: str) -> Labels:
    """The labels of one kind, from the file that has the images as arrays."""
    (given,) = cifar.read_arrays(path, kind)
    return check_labels(path, given, samples, classes)


def _read(path: Path, classes: int) -> dict[str, Any]:
    """What the file holds; nothing in it is ever executed."""
    try:
        with safe_globals(ALLOWED):
            found = torch.load(regular(path), map_location="cpu", weights_only=True)
    except Exception:  # torch has no list of what a file that is damaged raises
        raise UserError(
            f"{path} can't be read as labels: it is damaged, or holds Python objects other than "
            f"numbers, which josrc never executes.\n{_advice(path, classes)}"
        ) from None
    if not isinstance(found, dict):
        raise UserError(f"{path} holds no labels by name.\n{_advice(path, classes)}")
    return found


def _vector(path: Path, found: dict[str, Any], key: str, classes: int) -> Any:
    """Labels by their name in the file, be they an array, a tensor or a list."""
    if key not in found:
        names = ", ".join(map(str, found)) or "nothing"
        raise UserError(f"{path} lacks '{key}': it holds {names}.\n{_advice(path, classes)}")
    try:
        return np.asarray(found[key]).reshape(-1)
    except ValueError:
        raise UserError(f"{path}: '{key}' is not a list of labels.") from None


def _check_there(path: Path, classes: int) -> None:
    if not path.is_file():
        raise UserError(f"{path} is missing.\n{_advice(path, classes)}")


def _advice(path: Path, classes: int) -> str:
    """Where the file is to be had, and where it belongs."""
    folder = cifar.torchvision_class(classes).base_folder
    return (
        f"josrc does not download it. Fetch data/{path.name} from {HOME}, put it beside {folder} "
        f"in {path.parent}, and pass --data-root {path.parent}."
    )
