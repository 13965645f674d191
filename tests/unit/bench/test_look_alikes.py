"""Classes that look alike, and errors between them."""

from __future__ import annotations

import numpy as np
import pytest

from josrc.bench.look_alikes import IMAGES_PER_CLASS, PAIRS, confuse_pairs, look_alikes


def test_look_alikes_are_eight_classes_in_pairs(photographs: list[str]) -> None:
    images, true = look_alikes(None)
    assert images.shape == (8 * IMAGES_PER_CLASS, 32, 32, 3)
    assert np.bincount(true).tolist() == 8 * [IMAGES_PER_CLASS]
    shown = [photographs[image[0, 0, 0]] for image in images[::IMAGES_PER_CLASS]]
    assert shown == [name for pair in PAIRS for name in pair]


def test_half_of_the_errors_between_look_alikes_are_within_a_pair() -> None:
    true = np.repeat(np.arange(8), 2500)
    given = confuse_pairs(true, 0.1, seed=0)
    wrong = given != true
    # 20,000 labels: a standard deviation of the rate is 0.002, and 0.011 of the share in pairs.
    assert wrong.mean() == pytest.approx(0.1, abs=0.008)
    assert wrong[true == 3].mean() == pytest.approx(0.1, abs=0.02)
    # One in seven of the errors of any sort falls on the other of the pair too.
    within = given[wrong] // 2 == true[wrong] // 2
    assert within.mean() == pytest.approx(1 / 2 + 1 / 14, abs=0.04)
    np.testing.assert_array_equal(given, confuse_pairs(true, 0.1, seed=0))
    assert (given != confuse_pairs(true, 0.1, seed=1)).any()
