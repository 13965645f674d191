"""What somebody may hand to a command: one module per kind of input, each gives cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..cases import Case
from ..world import World
from . import (
    devices,
    hub_folders,
    images,
    label_tools,
    manifests,
    names,
    noise_files,
    packed_files,
    run_arrays,
    run_folders,
    scans,
    settings,
    sweep_plans,
    weights,
)

# In the order in which they run.
GROUPS: dict[str, Callable[[World], Iterator[Case]]] = {
    "images": images.cases,
    "manifests": manifests.cases,
    "noise files": noise_files.cases,
    "settings": settings.cases,
    "weights": weights.cases,
    "run folders": run_folders.cases,
    "run arrays": run_arrays.cases,
    "hub folders": hub_folders.cases,
    "names": names.cases,
    "devices": devices.cases,
    "scans": scans.cases,
    "label tools": label_tools.cases,
    "packed files": packed_files.cases,
    "sweep plans": sweep_plans.cases,
}
