"""Networks: the paper's 7-layer CNN and every backbone of timm, under one ``create_model``."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from josrc.models.ensemble import mean_probabilities
    from josrc.models.factory import Classifier, create_model
    from josrc.models.pretrained import FoundWeights, find_weights, is_pretrained_at_hand

__all__ = [
    "Classifier",
    "FoundWeights",
    "create_model",
    "find_weights",
    "is_pretrained_at_hand",
    "mean_probabilities",
]

# Where each name lives. Whether weights can be had is reported before torch is imported.
_HOMES = {
    "Classifier": "factory",
    "FoundWeights": "pretrained",
    "create_model": "factory",
    "find_weights": "pretrained",
    "mean_probabilities": "ensemble",
    "is_pretrained_at_hand": "pretrained",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
