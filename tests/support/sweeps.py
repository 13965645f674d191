"""Plans of sweeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

PLAN: dict[str, Any] = {
    "data": "digits-o",
    "fixed": {"data": {"noise": "symmetric", "rate": 0.3}, "epochs": 4, "plant": 0.05},
    "grid": {"method.name": ["standard", "josrc"], "seed": [0, 1, 2]},
}


def written(folder: Path, **changes: Any) -> Path:
    path = folder / "plan.yaml"
    path.write_text(yaml.safe_dump({**PLAN, **changes}))
    return path
