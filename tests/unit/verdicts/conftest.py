"""Hand-made ledgers: what training might have noted down about a few kinds of samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from josrc.verdicts.findings import Findings

CLASSES = 4


@pytest.fixture
def made() -> dict[str, Any]:
    """Findings of 300 clean, 60 mislabelled and 40 foreign samples, in this order."""
    generator = np.random.default_rng(0)
    kind = np.repeat([0, 1, 2], [300, 60, 40])
    given = generator.integers(0, CLASSES, len(kind))
    true = np.where(kind == 0, given, (given + generator.integers(1, CLASSES, len(kind))) % CLASSES)

    def around(*centres: float) -> np.ndarray:
        return np.clip(np.array(centres)[kind] + generator.normal(0, 0.02, len(kind)), 0.01, 0.99)

    findings = Findings(
        visits=np.full(len(kind), 50),
        support=around(0.8, 0.05, 0.2),
        lead=2 * around(0.85, 0.1, 0.45) - 1,
        doubt=around(0.3, 0.3, 0.9),
        confidence=around(0.8, 0.8, 0.3),
        label_share=around(0.97, 0.01, 0.2),
        rival=np.where(kind == 0, -1, true),
        rival_share=around(0.01, 0.97, 0.4),
        features=np.ones(len(kind)),
        held=np.zeros(len(kind), dtype=bool),
    )
    return {"findings": findings, "given": given, "true": true, "kind": kind}
