"""How good suggestions are."""

from __future__ import annotations

import numpy as np
import pytest

from josrc.verdicts.suggestions import suggestion_evidence


def test_suggestions_are_as_good_as_they_were_for_planted_errors() -> None:
    generator = np.random.default_rng(4)
    hold = generator.random(2000)
    right = generator.random(2000) < np.where(hold > 0.5, 0.95, 0.4)
    found = suggestion_evidence(hold, right, rate=0.0)
    assert found is not None
    low, high = found.at(np.array([0.25, 0.75]))
    assert low == pytest.approx(0.4, abs=0.08)
    assert high == pytest.approx(0.95, abs=0.04)
    assert (np.diff(found.at(np.linspace(0, 1, 50))) >= -1e-12).all()
    assert suggestion_evidence(hold[:10], right[:10], 0.0) is None
