"""Hand-made results for tables and figures: nothing here trains."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

PutResult = Callable[..., Path]


def put(root: Path, place: str, seed: int = 0, **changes: Any) -> Path:
    """Write ``ROOT/PLACE/seed-SEED.json``; keywords change what is in it."""
    *_, cell, method, folder = place.split("/")
    data, noise, rate = cell.rsplit("-", 2)
    recipe, _, variant = folder.partition("-")
    result: dict[str, Any] = {
        "method": method,
        "variant": variant or None,
        "recipe": recipe,
        "data": data,
        "noise": noise,
        "rate": float(rate),
        "epochs": 200,
        "last10_mean": 50.0,
        "best": 51.0,
        "best_epoch": 3,
        "final": 50.0,
        "seed": seed,
        "seconds_total": 100.0,
        "device": "a device",
        "versions": {"torch": "2.11"},
        "metrics": {},
    }
    path = root / place / f"seed-{seed}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result | changes))
    return path
