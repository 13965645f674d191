"""Verdicts from predictions."""

from __future__ import annotations

import json

import numpy as np

from josrc.verdicts.predictions import judge_predictions


def test_images_without_a_prediction_are_clean_without_confidence() -> None:
    generator = np.random.default_rng(2)
    given = generator.integers(0, 3, 300)
    probabilities = np.full((300, 3), 0.1)
    probabilities[np.arange(300), given] = 0.8
    probabilities[5] = np.nan
    judged = judge_predictions(probabilities, given)
    assert judged.verdicts.group[5] == 0
    assert judged.verdicts.confidence[5] == 0
    assert json.dumps(judged.measured)
