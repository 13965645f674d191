"""A map of all images: their features in two dimensions, and ``map.npz`` that keeps it.

Before anything else every channel of the features is standardised, and every image's vector brought
to length 1: it is the direction of features that tells classes apart, and so no outlier squeezes
all others into a corner. Then the map is either the two main axes of that (``pca``: fast, the same
distances everywhere, but few of many classes come apart) or UMAP's layout of the nearest neighbours
(``umap``: groups come apart, while distances between them mean little). Neither looks at labels.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from torch import Tensor

from josrc._io import MALFORMED, readable, write_npz
from josrc._reading import read_arrays, regular
from josrc.errors import UserError

MapKind = Literal["pca", "umap"]
Positions = NDArray[np.float32]

MAP_NAME = "map.npz"
# Numbers that are worked on at a time.
NUMBERS_PER_CHUNK = 2**24
# Axes that UMAP looks for neighbours in: more would take longer and hardly change them.
UMAP_AXES = 50
# Fewer images have no neighbours to speak of, and UMAP fails on them.
MIN_UMAP = 20


@dataclass(frozen=True)
class FeatureMap:
    """Where images lie.

    Attributes:
        position: ``(N, 2)``, in the order of ``verdicts.csv``; NaN where unknown.
        kind: how it was made.
    """

    position: Positions
    kind: MapKind


def make_map(features: Tensor | NDArray[Any], kind: MapKind = "pca") -> FeatureMap:
    """Lay out images by their features.

    Args:
        features: of every image, ``(N, features)``, of any float type and on any device; images
            whose features are not finite get no place.
        kind: ``pca`` or ``umap``, which needs the extra ``umap``.
    """
    check_kind(kind)
    features = torch.as_tensor(features)
    known = torch.cat([part.isfinite().all(dim=1) for part in _parts(features)]).cpu().numpy()
    position = np.full((len(features), 2), np.nan, dtype=np.float32)
    rows = torch.from_numpy(np.flatnonzero(known)).to(features.device)
    if len(rows) > 1:
        some = features if known.all() else features[rows]
        axes = UMAP_AXES if kind == "umap" else 2
        found = _main_axes(some, axes)
        position[known] = _umap(found) if kind == "umap" else found
    elif len(rows):
        position[known] = 0
    return FeatureMap(position, kind)


def check_kind(kind: str) -> None:
    """Raise an error on a map that can't be made, before anything takes time."""
    if kind not in get_args(MapKind):
        raise UserError(f"There is no map '{kind}': choose {' or '.join(get_args(MapKind))}.")
    if kind == "umap":
        _umap_library()


def write_map(folder: Path, made: FeatureMap) -> None:
    """Keep a map in ``map.npz``.

    Args:
        folder: ``audit`` of a run.
        made: the map.
    """
    write_npz(folder / MAP_NAME, {"position": made.position, "kind": np.array(made.kind)})


def read_map(folder: Path, samples: int) -> FeatureMap | None:
    """The map in a folder; none where there is none of that many samples."""
    path = folder / MAP_NAME
    if not path.is_file():
        return None
    arrays = read_arrays(path, needed=("position", "kind"))
    with readable(path):
        position, kind = arrays["position"].astype(np.float32), str(arrays["kind"])
    if np.isinf(position).any():  # an image without features has no place: NaN
        raise UserError(f"{path} is damaged: some of its positions are not finite.")
    if position.shape != (samples, 2) or kind not in get_args(MapKind):
        return None
    return FeatureMap(position, kind)  # type: ignore[arg-type]


def read_features(path: Path) -> Tensor:
    """The features that a run keeps of all images, ``(N, features)``, in the order of verdicts."""
    with readable(path, kinds=(*MALFORMED, SafetensorError)):
        with safe_open(regular(path), framework="pt") as file:
            found: Tensor = file.get_tensor("features")
        return found


def _parts(features: Tensor) -> Iterator[Tensor]:
    """All rows in float32, some at a time."""
    size = max(1, NUMBERS_PER_CHUNK // max(1, features.shape[1]))
    return (part.float() for part in features.split(size))


def _main_axes(features: Tensor, axes: int) -> Positions:
    """Standardised features of length 1 along their main axes, ``(N, axes)``."""
    count = len(features)
    zero = torch.zeros(features.shape[1], dtype=torch.float64, device=features.device)
    mean = sum((part.double().sum(dim=0) for part in _parts(features)), zero) / count
    centred = (part.double() - mean for part in _parts(features))
    spread = (sum((part.square().sum(dim=0) for part in centred), zero) / count).sqrt()
    centre, scale = mean.float(), spread.clamp(min=1e-6).float()

    def directions() -> Iterator[Tensor]:
        for part in _parts(features):
            standard = (part - centre) / scale
            # A network that has diverged must not spoil the end of its run: no NaN gets through.
            length = standard.norm(dim=1, keepdim=True).clamp(min=1e-6)
            yield torch.nan_to_num(standard / length)

    middle = sum((part.double().sum(dim=0) for part in directions()), zero) / count
    square = torch.zeros(len(zero), len(zero), dtype=torch.float64, device=features.device)
    for part in directions():
        square += (part.T @ part).double()
    covariance = square / count - middle[:, None] * middle
    main = torch.linalg.eigh(covariance).eigenvectors.flip(1)[:, :axes]
    # Either sign is as good: the one with the larger entries, so that a map is always the same.
    largest = main.gather(0, main.abs().argmax(dim=0, keepdim=True))
    main = (main * largest.sign()).float()
    found = torch.cat([(part - middle.float()) @ main for part in directions()]).cpu().numpy()
    lacking = axes - found.shape[1] if axes == 2 else 0  # features of a single channel
    return np.pad(found, ((0, 0), (0, max(0, lacking)))).astype(np.float32)


def _umap(points: Positions) -> Positions:
    """UMAP's layout, the same every time, ``(N, 2)``."""
    if len(points) < MIN_UMAP:
        raise UserError(
            f"UMAP needs {MIN_UMAP} images or more, and there are {len(points)}: choose pca."
        )
    library = _umap_library()
    with warnings.catch_warnings():
        # It says that a seed makes it use one core; and so it should, for the same map every time.
        warnings.simplefilter("ignore")
        near = min(15, len(points) - 1)
        found = library.UMAP(n_neighbors=near, random_state=0).fit_transform(points)
    return np.asarray(found, dtype=np.float32)


def _umap_library() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of TensorFlow, which it can do without
            import umap
    except ImportError:
        raise UserError(
            "A map by UMAP needs a library that is not installed: install josrc[umap]."
        ) from None
    return umap
