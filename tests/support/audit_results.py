"""Results of audits, as tests of their tables and figures use them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from josrc.bench.results import AuditResult


def put(root: Path, cell: str, side: str, seed: int = 0, **measures: float | None) -> None:
    data, noise, rate = cell.rsplit("-", 2)
    result: dict[str, Any] = {
        **{"side": side, "data": data, "noise": noise, "rate": float(rate), "seed": seed},
        **{"epochs": 200, "device": "a device", "seconds_training": 100, "seconds_audit": 20},
        "measures": measures,
    }
    path = root / "audit" / cell / side / "augmented" / f"seed-{seed}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result))


def run_with(**measures: float | None) -> AuditResult:
    made = {"side": "josrc", "data": "digits-o", "seed": 0, "epochs": 1, "device": "cpu"}
    made |= {"measures": measures, "seconds_training": 1, "seconds_audit": 1}
    return AuditResult.model_validate(made)


def tenth(begin: str, share: float, promised: float, right: float) -> dict[str, float]:
    values = {"share": share, "promised": promised, "right": right}
    return {f"calibration_{begin}_{name}": value for name, value in values.items()}
