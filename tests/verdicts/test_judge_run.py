"""What is said of verdicts: how many of the accused labels are wrong, and how sure that is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from josrc.verdicts.judge_run import errors_words, how_sure
from josrc.verdicts.neighbours import count_voters, nearest_neighbours
from josrc.verdicts.predictions import judge_predictions, predictions_of


@pytest.mark.parametrize(("share", "seed"), [(0.02, 0), (0.05, 1), (0.05, 2), (0.1, 1), (0.3, 2)])
def test_the_interval_holds_how_many_of_the_accused_are_wrong(share: float, seed: int) -> None:
    found = load_digits()
    points, true = found.data.astype(np.float32), found.target.astype(np.int64)
    generator = np.random.default_rng(seed)
    other = (true + generator.integers(1, 10, len(true))) % 10
    given = np.where(generator.random(len(true)) < share, other, true)
    near = nearest_neighbours(points, count_voters(len(given), 10))
    judged = judge_predictions(predictions_of(points, near, given, 10), given)
    low, middle, high = (
        judged.measured[f"estimated_precision{end}"] for end in ("_low", "", "_high")
    )
    wrong = (given != true)[judged.verdicts.group != 0].mean()
    assert low <= wrong <= high
    assert 0 < low < middle < high <= 1
    assert high - low < 0.25


def summary(**more: Any) -> dict[str, Any]:
    """Of 1,000 labels of which 100 are accused, with errors of both sorts."""
    found = {"count": 100, "found": 90}
    counts = {"clean": 900, "mislabelled": 100, "out_of_distribution": 0}
    rates = {"noise_rate": 0.11, "noise_rate_low": 0.09, "noise_rate_high": 0.13}
    planted = {"count": 200, "found": 180, "any": found, "look_alike": found}
    return {"samples": 1000, "counts": counts, "planted": planted, **rates, **more}


def test_a_scan_speaks_of_errors_that_it_tried_out_and_a_training_of_planted_ones() -> None:
    assert errors_words(summary(visits=40)) == "200 planted errors"
    assert errors_words(summary(visits=None)) == "200 errors that were tried out"
    for visits, word in ((40, "planted"), (None, "tried out")):
        said = how_sure(summary(visits=visits, planted_unlike=True))
        assert said is not None
        assert f"Errors were {word}, but can't be used" in said


def test_both_estimates_come_with_their_intervals() -> None:
    interval = {"estimated_precision_low": 0.8, "estimated_precision_high": 0.93}
    said = how_sure(summary(visits=40, estimated_precision=0.88, **interval))
    assert said is not None
    assert said.startswith(
        "An estimated 11.0 % of the labels are wrong (90 % interval: 9.0 to 13.0), and of the 100 "
        "that are accused 88 % (80 to 93). Of 200 planted errors, 90 % (84 to 94) of those of any "
        "sort and 90 % (84 to 94) of those that look alike were found."
    )
    earlier = how_sure(summary(visits=40, estimated_precision=0.88))  # knew no such interval
    assert earlier is not None
    assert "and of the 100 that are accused 88 %. Of" in earlier
